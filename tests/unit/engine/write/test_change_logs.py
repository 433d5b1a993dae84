"""Tables with change logging: their changes are those of a table without, whose states are compared, and a rollback
removes logs of changes."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.write import write
from penstock.proto.errors import StorageError
from penstock.table.files.markers import IoType, parse_marker
from tests.unit.engine.write.recorded_storage import KINDS, Kind, Lake, Row

MODES = ("op_key_only", "data_before", "data_before_after")
HISTORY: Sequence[tuple[str, Sequence[Row], Sequence[str]]] = [
    ("upsert", [("a", 1, "oslo"), ("b", 1, "oslo"), ("c", 1, "riga"), ("d", 1, "oslo")], ()),
    ("upsert", [("a", 2, "oslo"), ("b", 0, "oslo"), ("c", 1, "riga"), ("e", 1, "oslo"), ("x", 1, "oslo")], ["x"]),
    ("upsert", [("d", 5, "oslo"), ("e", 0, "oslo")], ["d", "e"]),
    ("delete", [("c", 0, "riga"), ("nobody", 0, "riga")], ()),
    ("upsert", [("a", 0, "oslo")], ()),
    ("insert", [("n", 1, "riga"), ("m", 2, "oslo")], ()),
    ("upsert", [("d", 1, "oslo")], ()),
    ("insert_overwrite", [("d", 9, "oslo")], ()),
    ("upsert", [("d", 10, "oslo"), ("z", 3, "oslo")], ()),
]
"""Late rows, equal and lower ordering values, marked deletes, deletes of unknown keys, a file that loses all rows, and
one that changes no row."""


def played(lake: Lake) -> dict[str, int]:
    """Writes the history; the number of each write by its instant."""
    return {lake.write(rows, name, deleted=deleted).instant: n for n, (name, rows, deleted) in enumerate(HISTORY)}


def changes(lake: Lake, instants: dict[str, int]) -> list[tuple[Any, ...]]:
    """The changes as (write, kind, row), sorted."""
    table = penstock.read(str(lake.path), query="cdc", cdc_format="rows", after="earliest").read_all()
    names = ("_change_type", "_hoodie_record_key", "id", "seq", "city")
    return sorted((instants[row["_change_instant"]], *(row[name] for name in names)) for row in table.to_pylist())


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_logged_changes_are_those_of_compared_states(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    expected = None
    for logging in (None, *MODES):
        lake = Lake(tmp_path / str(logging), kind, monkeypatch, change_logging=logging)
        actual = changes(lake, played(lake))
        expected = expected or actual
        assert actual == expected, logging
        logs = [file for file in lake.files() if file.endswith(".cdc")]
        assert bool(logs) == (logging is not None and kind != (9, "merge_on_read", "bucket"))


@pytest.mark.parametrize("version", [9, 6])
def test_write_names_its_log_of_changes_and_what_it_depends_on(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    lake = Lake(tmp_path / "t", (version, "copy_on_write", "bucket"), monkeypatch, change_logging="data_before")
    first = lake.write([("a", 1, "oslo")])
    second = lake.write([("a", 2, "oslo")])
    (old,), (stat,) = lake.stats(first.instant), lake.stats(second.instant)
    ((log, size),) = stat.change_logs.items()
    token = stat.file_name.split("_")[1]
    assert log == f"oslo/.{stat.file_id}_{second.instant}.log.1_{token}.cdc"
    assert size == (lake.path / log).stat().st_size and not old.change_logs
    assert stat.prev_commit == first.instant and stat.prev_base_file == (old.file_name if version == 9 else "")
    markers = [parse_marker(path) for path in lake.storage.paths("create") if log.rpartition("/")[2] in path]
    kinds = [marker.io_type for marker in markers if marker is not None]
    assert kinds == [IoType.CREATE if version == 9 else IoType.APPEND]


def test_log_of_rows_names_the_slice_that_it_changes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hudi's reader of changes takes the state before from there; without change logging version 9 names none."""
    lake = Lake(tmp_path / "t", (9, "merge_on_read", "bucket"), monkeypatch, change_logging="data_before_after")
    ((base,), *logs) = [lake.stats(lake.write([("a", seq, "oslo")]).instant) for seq in (1, 2, 3)]
    names = [stat.file_name for (stat,) in logs]
    for count, (stat,) in enumerate(logs, 1):
        assert (stat.base_file, stat.log_files) == (base.file_name, tuple(names[:count]))
        assert stat.prev_commit == base.file_name.rpartition("_")[2].partition(".")[0]


def test_nested_rows_and_new_columns_are_logged(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = pa.struct([("x", pa.int64()), ("names", pa.list_(pa.string()))])
    schema = pa.schema([("id", pa.string()), ("seq", pa.int64()), ("city", pa.string()), ("at", inner)])
    kind = (9, "copy_on_write", "simple")
    lake = Lake(tmp_path / "t", kind, monkeypatch, schema=schema, change_logging="data_before_after")
    old = {"id": "a", "seq": 1, "city": "oslo", "at": {"x": 1, "names": ["p", None]}}
    new = {"id": "a", "seq": 2, "city": "oslo", "at": None, "more": 5}
    write(str(lake.path), pa.Table.from_pylist([old], schema))
    write(str(lake.path), pa.Table.from_pylist([new], schema.append(pa.field("more", pa.int64()))))
    table = penstock.read(str(lake.path), query="cdc", cdc_format="rows", after="earliest").read_all()
    rows = [{name: row[name] for name in (*schema.names, "more")} for row in table.to_pylist()]
    assert table["_change_type"].to_pylist() == ["+I", "-U", "+U"]
    assert rows == [{**old, "more": None}, {**old, "more": None}, new]


@pytest.mark.parametrize("version", [9, 6])
def test_rollback_removes_logs_of_changes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    lake = Lake(tmp_path / "t", (version, "copy_on_write", "bucket"), monkeypatch, change_logging="op_key_only")
    lake.write([("a", 1, "oslo")])
    before = lake.files()
    written: set[str] = set()

    def fails_at_the_end(method: str, path: str) -> None:
        """No file can be created once the data files are."""
        suffixes = {pathlib.Path(file).suffix for file in lake.files() - before}
        if method == "create" and suffixes == {".cdc", ".parquet"} and not written:
            written.update(lake.files() - before)
            raise StorageError("no space left")

    lake.storage.before = fails_at_the_end
    with pytest.raises(StorageError, match="no space left"):
        lake.write([("a", 2, "oslo")])
    assert len(written) == 2 and lake.files() == before
