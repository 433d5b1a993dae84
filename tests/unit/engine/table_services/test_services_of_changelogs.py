"""Compactions and clusterings of tables whose files store the operation of each row: base files keep the operations of
the rows that stay, and changes of ranges are the same before and after."""

from __future__ import annotations

import pathlib
from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.engine.write.write import write
from penstock.table.schema.avro import META_COLUMNS, OPERATION
from tests.golden.test_changelog_tables import COMPARED, STORED
from tests.unit.engine.write.test_stored_operations import (
    HISTORY,
    SNAPSHOT,
    changes_of,
    create,
    expected_changes,
    rows_of,
    snapshot,
)

versions = pytest.mark.parametrize("version", [9, 6])


def base_rows(path: pathlib.Path, instant: str) -> dict[str, tuple[int, str | None]]:
    """Key -> value and operation in the base files of an instant, each of which has the column."""
    rows: dict[str, tuple[int, str | None]] = {}
    for file in path.rglob(f"*_{instant}.parquet"):
        table = pq.read_table(file)
        assert table.schema.names[:6] == [*META_COLUMNS, OPERATION]
        rows |= {row["id"]: (row["v"], row[OPERATION]) for row in table.to_pylist()}
    return rows


@versions
def test_compaction_keeps_operations(tmp_path: pathlib.Path, version: int) -> None:
    """`D` and `-U` delete rows, as in Hudi's compactor."""
    path = tmp_path / "t"
    create(path, version, "merge_on_read")
    for records in HISTORY[:2]:
        write(str(path), rows_of(records))
    (first,) = penstock.compact(str(path))
    assert base_rows(path, first.instant) == {"a": (10, "U"), "c": (3, "I"), "d": (4, "I")}
    assert snapshot(path) == [("a", 10), ("c", 3), ("d", 4)]
    for records in HISTORY[2:]:
        write(str(path), rows_of(records))
    assert snapshot(path) == SNAPSHOT and changes_of(path) == expected_changes(STORED)
    (second,) = penstock.compact(str(path))
    assert base_rows(path, second.instant) == {"b": (20, "I"), "d": (40, "U")}
    assert snapshot(path) == SNAPSHOT and changes_of(path) == expected_changes(STORED)
    optimized = penstock.read(str(path), query="read_optimized").read_all()
    assert sorted(optimized["id"].to_pylist()) == ["b", "d"]
    write(str(path), rows_of([("D", "b", 9, 20)]))
    assert snapshot(path) == [("d", 40)]


@versions
def test_compaction_of_base_files_without_operations(tmp_path: pathlib.Path, version: int) -> None:
    path = tmp_path / "t"
    create(path, version, "merge_on_read")
    write(str(path), rows_of(HISTORY[0]), "bulk_insert")
    write(str(path), rows_of(HISTORY[1]))
    (done,) = penstock.compact(str(path))
    assert base_rows(path, done.instant) == {"a": (10, "U"), "c": (3, None), "d": (4, "I")}
    assert snapshot(path) == [("a", 10), ("c", 3), ("d", 4)]


@versions
def test_clustering_keeps_the_column(tmp_path: pathlib.Path, version: int) -> None:
    path = tmp_path / "t"
    create(path, version, "copy_on_write", index="simple", buckets=None)
    for records in HISTORY:
        write(str(path), rows_of(records))
    write(str(path), rows_of([("I", "e", 5, 5)]), "bulk_insert")
    changes = [*COMPARED, [("+I", "e", 5)]]
    assert changes_of(path) == expected_changes(changes)
    (done,) = penstock.cluster(str(path), sort_by=["id"])
    assert base_rows(path, done.instant) == {key: (v, None) for key, v in [*SNAPSHOT, ("e", 5)]}
    assert snapshot(path) == [*SNAPSHOT, ("e", 5)] and changes_of(path) == expected_changes(changes)


@pytest.mark.golden
@pytest.mark.parametrize("case", ["D_changelog_mor_v9", "D_changelog_mor_v6"])
def test_logs_of_hudi(golden: Any, tmp_path: pathlib.Path, case: str) -> None:
    """Its groups are no buckets, so that they are clustered too."""
    path = golden.copy(case, tmp_path)
    before = changes_of(path)
    compacted = penstock.compact(str(path), timeline_timezone="UTC")
    rows: dict[str, tuple[int, str | None]] = {}
    for one in compacted:
        rows |= base_rows(path, one.instant)
    assert {key: v for key, (v, _) in rows.items()} == dict(SNAPSHOT) == dict(snapshot(path))
    assert {kind for _, kind in rows.values()} <= {"I", "U"}
    assert changes_of(path) == before
    clustered = penstock.cluster(str(path), sort_by=["id"], index="simple", timeline_timezone="UTC")
    assert clustered and snapshot(path) == SNAPSHOT and changes_of(path) == before
    assert {one.instant: base_rows(path, one.instant) for one in clustered}[clustered[-1].instant].keys() <= rows.keys()
