"""What only Delta Lake has: its log, other writers of a table, names of folders."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from penstock.engine.sync.layout import TargetLayout, followed
from penstock.engine.sync.targets.delta import DeltaTarget
from penstock.engine.sync.targets.target import StoredTable
from penstock.proto.errors import ConfigurationError, TargetConflict, TargetUnavailable
from tests.unit.engine.sync.targets.writes import COLUMNS, LAYOUT, batch, write


@pytest.fixture
def target(tmp_path: pathlib.Path) -> DeltaTarget:
    return DeltaTarget(str(tmp_path))


def table(folder: pathlib.Path) -> DeltaTable:
    return DeltaTable(folder / "orders")


def beside(call: Callable[[], None]) -> None:
    """Calls it in another thread: the library reads rows in one from which it cannot be called."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()


def test_each_write_is_one_commit(target: DeltaTarget, tmp_path: pathlib.Path) -> None:
    target.write(write("p1"))
    target.write(write("p2", [("a", 1, "x")], expected="p1"))
    target.write(write("p3", [("a", 1, "y")], [("a", 1)], expected="p2"))
    target.write(write("p4", [], [("none", 1)], expected="p3"))
    target.write(write("p5", expected="p4"))
    assert (table(tmp_path).version(), table(tmp_path).transaction_version("penstock")) == (4, 5)


def test_commits_of_others_do_not_hide_the_position(target: DeltaTarget, tmp_path: pathlib.Path) -> None:
    target.write(write("p1", [("a", 1, "x")]))
    target.write(write("p2", [("b", 1, "x")], expected="p1"))
    table(tmp_path).optimize.compact()
    for _ in range(25):
        table(tmp_path).alter.set_table_properties({"delta.appendOnly": "false"})
    assert target.stored("orders").positions == {"/lake/orders": "p2"}  # type: ignore[union-attr]
    target.write(write("p3", [("b", 1, "y")], [("b", 1)], expected="p2"))
    assert sorted(table(tmp_path).to_pyarrow_table()["v"].to_pylist()) == ["x", "y"]


def test_cleaned_log_is_an_error(target: DeltaTarget, tmp_path: pathlib.Path) -> None:
    target.write(write("p1", [("a", 1, "x")]))
    table(tmp_path).alter.set_table_properties({"delta.appendOnly": "false"})
    table(tmp_path).create_checkpoint()
    log = tmp_path / "orders" / "_delta_log"
    (log / f"{0:020d}.json").unlink()
    assert_lost(target, r"write 1 of the sync.*cleaned")
    assert table(tmp_path).to_pyarrow_table().num_rows == 1
    target.write(replace(write("p9", [("c", 1, "x")]), replaces=True))
    assert target.stored("orders") == StoredTable(layout=LAYOUT, positions={"/lake/orders": "p9"})
    assert table(tmp_path).to_pyarrow_table()["k"].to_pylist() == ["c"]
    target.write(write("p10", [("d", 1, "x")], expected="p9"))


def assert_lost(target: DeltaTarget, reason: str) -> None:
    stored = target.stored("orders")
    assert stored is not None
    assert re.search(reason, stored.lost)
    assert stored.positions == {}
    with pytest.raises(TargetConflict):
        target.write(write("p2", expected="p1"))
    with pytest.raises(ConfigurationError, match=f"{reason}.*--restart"):
        target.write(write("p2", [("b", 1, "x")], [("a", 1)]))
    shards = TargetLayout(pa.schema([("s", pa.string()), ("k", pa.string())]), ("s", "k"), "s")
    with pytest.raises(ConfigurationError, match=reason):
        target.write(replace(write("p2", layout=shards), replaces=True))


def test_restored_table_is_an_error(target: DeltaTarget, tmp_path: pathlib.Path) -> None:
    """Its rows are those of an earlier position."""
    target.write(write("p1", [("a", 1, "x")]))
    target.write(write("p2", [("b", 1, "x")], expected="p1"))
    table(tmp_path).restore(0)
    assert_lost(target, r"write 2 of the sync.*restored")


def test_table_of_someone_else_is_refused(target: DeltaTarget, tmp_path: pathlib.Path) -> None:
    write_deltalake(tmp_path / "orders", pa.table({"a": [1]}))
    with pytest.raises(ConfigurationError, match="no sync created it"):
        target.stored("orders")
    with pytest.raises(ConfigurationError, match="no sync created it"):
        target.write(write("p1"))


@pytest.mark.parametrize("changes_position", [True, False])
def test_commit_of_another_process_during_a_write(
    target: DeltaTarget, tmp_path: pathlib.Path, changes_position: bool
) -> None:
    target.write(write("p1", [("a", 1, "x")]))
    racing = write("p2", expected="p1")

    def rows() -> Iterator[pa.RecordBatch]:
        yield batch([("b", 1, "x")], COLUMNS)
        if changes_position:
            beside(lambda: DeltaTarget(str(tmp_path)).write(write("p2", [("c", 1, "x")], expected="p1")))
        else:
            beside(lambda: write_deltalake(tmp_path / "orders", batch([("other", 1, "x")], COLUMNS), mode="append"))

    object.__setattr__(racing, "rows", rows())
    with pytest.raises(TargetConflict if changes_position else TargetUnavailable):
        target.write(racing)
    keys = ["a", "c" if changes_position else "other"]
    assert sorted(table(tmp_path).to_pyarrow_table()["k"].to_pylist()) == keys


def test_table_created_by_another_process_is_a_conflict(target: DeltaTarget, tmp_path: pathlib.Path) -> None:
    racing = write("p1")

    def rows() -> Iterator[pa.RecordBatch]:
        yield batch([("b", 1, "x")], COLUMNS)
        beside(lambda: DeltaTarget(str(tmp_path)).write(write("p1", [("c", 1, "x")])))

    object.__setattr__(racing, "rows", rows())
    with pytest.raises(TargetConflict):
        target.write(racing)
    assert table(tmp_path).to_pyarrow_table()["k"].to_pylist() == ["c"]


def test_failed_write_after_a_widening_keeps_rows_and_position(target: DeltaTarget, tmp_path: pathlib.Path) -> None:
    wider = TargetLayout(pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.string())]), LAYOUT.key)
    target.write(write("p1", [("a", 1, "x")]))
    failing = write("p2", expected="p1", layout=wider, change=followed("orders", LAYOUT, wider), base=LAYOUT)

    def rows() -> Iterator[pa.RecordBatch]:
        yield batch([("b", 2**40, "x")], wider.columns)
        raise KeyError("source")

    object.__setattr__(failing, "rows", rows())
    with pytest.raises(KeyError, match="source"):
        target.write(failing)
    stored = target.stored("orders")
    assert stored is not None
    assert (stored.layout, stored.positions) == (wider, {"/lake/orders": "p1"})
    target.write(write("p2", [("b", 2**40, "x")], expected="p1", layout=wider))
    assert sorted(table(tmp_path).to_pyarrow_table()["n"].to_pylist()) == [1, 2**40]


def test_unreadable_commit_info_is_an_error(target: DeltaTarget, tmp_path: pathlib.Path) -> None:
    target.write(write("p1"))
    for text in ("no JSON", json.dumps({"number": 1, "layout": "{}", "positions": {}})):
        info = CommitProperties(custom_metadata={"penstock.sync": text})
        write_deltalake(table(tmp_path), batch([("a", 1, "x")], COLUMNS), mode="append", commit_properties=info)
        with pytest.raises(ConfigurationError, match="no layout and positions"):
            target.stored("orders")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../escape", "a\\b", "x" * 256])
def test_names_that_are_not_folders_are_refused(target: DeltaTarget, name: str) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        target.check_columns(name, COLUMNS)


def test_columns_that_differ_in_case_are_refused(target: DeltaTarget) -> None:
    with pytest.raises(ConfigurationError, match="one name"):
        target.check_columns("orders", pa.schema([("a", pa.int32()), ("A", pa.int32())]))


@pytest.mark.parametrize("removed", [None, [("a", 1)]], ids=["append", "merge"])
def test_table_with_other_columns_stops(
    target: DeltaTarget, removed: list[tuple[object, ...]] | None, tmp_path: pathlib.Path
) -> None:
    """Another program has replaced rows and columns. A merge would leave the values of the column out."""
    target.write(write("p1", [("a", 1, "x")]))
    other = pa.record_batch({"k": pa.array(["other"]), "n": pa.array([1], pa.int32())})
    write_deltalake(tmp_path / "orders", other, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(ConfigurationError, match="column v is missing, the sync created it as string"):
        target.write(write("p2", [("b", 1, "x")], removed, expected="p1"))
    assert table(tmp_path).to_pyarrow_table().to_pylist() == [{"k": "other", "n": 1}]


def test_query_string_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="got a query string; options of the object store are environment"):
        DeltaTarget("s3://user:secret@b/lake?region=x")


def test_error_has_no_password() -> None:
    target = DeltaTarget("s3://user:secret@bucket/lake")
    with pytest.raises(ConfigurationError) as refused:
        target.check_columns("..", COLUMNS)
    assert "secret" not in str(refused.value)
