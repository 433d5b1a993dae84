"""`penstock.write`: operations against a model, one plan of each write, refused data and forms of data."""

from __future__ import annotations

import pathlib
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write import planned_write as write_module
from penstock.engine.write.write import write
from penstock.proto.errors import ConfigurationError, SchemaMismatch, TableNotFound, WriteConflict
from penstock.writer.index.new_groups import FileSizes
from tests.unit.engine.write.recorded_storage import FIRST, KINDS, SECOND, Kind, Lake, arrow, each_kind, upserted
from tests.unit.engine.write.test_kills import leftovers

one_kind = pytest.mark.parametrize("kind", KINDS[:1])


@each_kind
@pytest.mark.sampled(1)
def test_deletes_need_keys_and_partitions_only(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Other columns of the data are neither cast nor added to the table."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    key, _, city = FIRST[0]
    gone = pa.table({"id": [key, "unknown"], "city": [city, city], "seq": ["no number", "x"], "more": [1, 2]})
    write(str(lake.path), gone, "delete")
    assert lake.rows() == sorted(row for row in FIRST if (row[0], row[2]) != (key, city))
    assert "more" not in penstock.read(str(lake.path)).schema.names
    with pytest.raises(SchemaMismatch, match="the data lacks column 'city'"):
        write(str(lake.path), gone.select(["id"]), "delete")


@one_kind
def test_table_is_planned_once_unless_another_writer_completed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    plans = []
    plan = write_module.current_table

    def counted(table: Any) -> Any:
        plans.append(table)
        current = plan(table)
        if len(plans) == 2:  # after the plan of the write below, before it begins
            other()
        return current

    def other() -> None:
        monkeypatch.setattr(write_module, "current_table", plan)
        wider = arrow([("w", 1, "oslo")]).append_column("more", pa.array([1]))
        write(str(lake.path), wider)
        monkeypatch.setattr(write_module, "current_table", counted)

    monkeypatch.setattr(write_module, "current_table", counted)
    lake.write(SECOND)
    assert len(plans) == 1
    lake.write([("x", 1, "oslo")])
    assert len(plans) == 3, "the other write completed after the first plan"
    rows = penstock.read(str(lake.path)).read_all()
    assert sorted((row["id"], row["more"]) for row in rows.to_pylist() if row["id"] in "wx") == [("w", 1), ("x", None)]
    assert rows.num_rows == len(upserted(FIRST, SECOND)) + 2


@each_kind
@pytest.mark.exhaustive
def test_data_that_does_not_fit_leaves_no_trace(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    before = lake.everything()
    good = arrow(SECOND)
    for data, operation, error in (
        (good.set_column(0, "id", pa.array([None] * len(good), pa.string())), "upsert", SchemaMismatch),
        (good.set_column(1, "seq", pa.array([None] * len(good), pa.int64())), "upsert", SchemaMismatch),
        (good.set_column(1, "seq", pa.array(["x"] * len(good))), "upsert", SchemaMismatch),
        (good.drop_columns(["city"]), "upsert", SchemaMismatch),
        (good.set_column(2, "city", pa.array([".hoodie"] * len(good))), "upsert", SchemaMismatch),
        (good, "overwrite", ConfigurationError),
        ("rows", "upsert", ConfigurationError),
    ):
        with pytest.raises(error):
            write(str(lake.path), data, operation)
    assert lake.everything() == before


@one_kind
def test_stream_that_ends_in_the_middle_writes_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    before = lake.everything()
    rows = arrow(SECOND)

    def batches() -> Any:
        yield from rows.to_batches()
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        write(str(lake.path), pa.RecordBatchReader.from_batches(rows.schema, batches()))
    assert lake.everything() == before
    write(str(lake.path), pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches()))
    assert lake.rows() == sorted(upserted(FIRST, SECOND))


@pytest.mark.parametrize("kind", [KINDS[1]])
def test_small_files_are_filled_first(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write([("a", 1, "oslo")])
    assert lake.write([("b", 1, "oslo")]).files == 1
    groups = {file.split("_")[0] for file in lake.files()}
    assert len(groups) == 1 and lake.rows() == [("a", 1, "oslo"), ("b", 1, "oslo")]
    lake.write([("c", 1, "oslo")], sizes=FileSizes(small_file_bytes=0))
    assert len({file.split("_")[0] for file in lake.files()}) == 2


@one_kind
def test_delete_from_a_table_without_a_commit_writes_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    assert lake.write([], "upsert").instant == ""
    lake.write([("a", 1, "oslo")], "delete")
    assert lake.rows() == []
    lake.write(FIRST)
    assert lake.rows() == sorted(FIRST) and leftovers(lake.path) == []


def test_path_without_a_table_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TableNotFound):
        write(str(tmp_path), arrow(FIRST))
    assert list(tmp_path.iterdir()) == []


@each_kind
@pytest.mark.exhaustive
def test_writer_of_the_same_groups_is_a_conflict(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Another write of the same rows completes while the first one writes its files."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)

    def other(method: str, path: str) -> None:
        if method == "new_file":
            lake.storage.before = lambda method, path: None
            lake.write(SECOND)

    lake.storage.before = other
    with pytest.raises(WriteConflict, match=r"of another writer changes|another writer created log"):
        lake.write([(key, 9, city) for key, _, city in SECOND])
    assert lake.rows() == sorted(upserted(FIRST, SECOND)) and leftovers(lake.path) == []
