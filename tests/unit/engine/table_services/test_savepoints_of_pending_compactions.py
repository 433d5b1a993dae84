"""Savepoints of instants that are later than a pending compaction: their rows can be read after the compaction ran and
its base files were cleaned."""

from __future__ import annotations

import pathlib
from dataclasses import replace

import pytest

import penstock
from penstock.engine.table_services.archive import archive
from penstock.engine.table_services.clean import clean
from penstock.engine.table_services.compaction import compact
from penstock.engine.table_services.restore import restore
from penstock.engine.table_services.savepoints import delete_savepoint, savepoint
from penstock.proto.errors import CorruptFile, PositionExpired, TableError
from penstock.table.files.names import parse_file_name
from penstock.table.timeline.services.savepoints import encode_savepoint
from tests.unit.engine.table_services.lake import Lake, rows_of
from tests.unit.engine.table_services.test_clean import plan_file

VERSIONS = pytest.mark.parametrize("version", [9, 6])
COMPACTED_ALONE = "riga"
"""The partition that no write changes between the plan of the compaction and the savepoint."""


def saved_lake(folder: pathlib.Path, version: int, *, lists_all: bool = True) -> tuple[Lake, str]:
    """A table with a savepoint that was made while a compaction was pending; the compaction has run since, and a later
    one too. `lists_all`: whether the savepoint lists files of both partitions, as Penstock's does."""
    lake = Lake(folder, version, "merge_on_read")
    path = str(lake.path)
    lake.write(2)
    compact(path, schedule_only=True)
    at = lake.write(1, cities=("oslo",))
    savepoint(path, at)
    if not lists_all:
        table = lake.table
        (item,) = table.timeline().savepoints
        made = table.savepoint(item)
        made = replace(made, files={**made.files, COMPACTED_ALONE: ()})
        (lake.path / table.properties.timeline_folder / item.file_name).write_bytes(encode_savepoint(made))
    compact(path, run_only=True)
    lake.write(2)
    compact(path)
    lake.write()
    return lake, at


def compacted_file(lake: Lake) -> str:
    """The base file of the compaction that was pending."""
    first, *_ = (item for item in lake.table.timeline().completed_writes if lake.table.commit(item).compacted)
    (name,) = (
        stat.file_name for stat in lake.table.commit(first).stats if stat.partition == COMPACTED_ALONE and stat.path
    )
    return name


def clean_as_hudi(lake: Lake) -> None:
    """A clean that Hudi planned: it deletes the old files that the savepoint does not list."""
    (item,) = lake.table.timeline().savepoints
    listed = lake.table.savepoint(item).files[COMPACTED_ALONE]
    doomed = tuple(name for name in old_files(lake) if name not in listed)
    assert compacted_file(lake) in doomed
    plan_file(lake, {COMPACTED_ALONE: doomed})
    assert clean(str(lake.path), commits=100).files == tuple(sorted(f"{COMPACTED_ALONE}/{name}" for name in doomed))


@VERSIONS
def test_clean_keeps_what_the_compaction_wrote(tmp_path: pathlib.Path, version: int) -> None:
    lake, at = saved_lake(tmp_path, version)
    clean(str(lake.path), commits=1)
    assert compacted_file(lake) in lake.files(COMPACTED_ALONE)
    assert rows_of(lake.path, as_of=at) == lake.states[at]
    restore(str(lake.path))
    assert rows_of(lake.path) == lake.states[at]


@VERSIONS
def test_rows_of_a_cleaned_compaction_are_read_from_the_files_that_it_merged(
    tmp_path: pathlib.Path, version: int
) -> None:
    lake, at = saved_lake(tmp_path, version)
    clean_as_hudi(lake)
    assert rows_of(lake.path, as_of=at) == lake.states[at] == [("oslo", 3), ("riga", 2)]
    restore(str(lake.path))
    assert rows_of(lake.path) == lake.states[at]
    assert rows_of(lake.path, query="read_optimized") == [("oslo", 2), ("riga", 1)], "Hudi returns the same"
    delete_savepoint(str(lake.path), at)
    assert rows_of(lake.path) == lake.states[at]
    order_key = lake.table.timeline().order_key(lake.table.timeline().completed_writes[-1])
    lake.write()
    changes = penstock.read(str(lake.path), query="cdc", after=order_key).read_all().to_pylist()
    assert sorted(row["seq"] for row in changes) == [2, 3, lake.writes, lake.writes], "before and after each update"
    compact(str(lake.path))
    assert rows_of(lake.path) == rows_of(lake.path, query="read_optimized") == lake.states[lake.instants[-1]]


def test_missing_base_file_is_an_error_without_a_clean(tmp_path: pathlib.Path) -> None:
    """No clean can have removed it: the storage lost it."""
    lake, at = saved_lake(tmp_path, 9)
    (lake.path / COMPACTED_ALONE / compacted_file(lake)).unlink()
    with pytest.raises(PositionExpired, match="is needed for this answer and gone"):
        rows_of(lake.path, as_of=at)
    restore(str(lake.path))
    with pytest.raises(CorruptFile, match="is missing"):
        rows_of(lake.path)


def test_missing_files_that_the_compaction_merged_are_an_error(tmp_path: pathlib.Path) -> None:
    """Hudi's savepoint lists no file of this file group, so that Hudi's clean deletes all of them."""
    lake, at = saved_lake(tmp_path, 9, lists_all=False)
    plan = plan_file(lake, {COMPACTED_ALONE: tuple(old_files(lake))})
    with pytest.raises(TableError, match="a savepoint needs its file slice: nothing was deleted"):
        clean(str(lake.path), commits=100)
    plan.unlink()
    clean(str(lake.path), commits=1)
    assert rows_of(lake.path, as_of=at) == lake.states[at], "Penstock's clean keeps the files"
    for name in old_files(lake):
        (lake.path / COMPACTED_ALONE / name).unlink()
    with pytest.raises(PositionExpired, match="is needed for this answer and gone"):
        rows_of(lake.path, as_of=at)


def old_files(lake: Lake) -> list[str]:
    """The files of the partition that are older than the last compaction."""
    *_, last = (item for item in lake.table.timeline().completed_writes if lake.table.commit(item).compacted)
    parsed = {name: parse_file_name(name) for name in lake.files(COMPACTED_ALONE)}
    return [name for name, item in parsed.items() if item is not None and item.instant < last.requested_time]


def test_merged_files_of_archived_writes_that_a_clean_deletes_are_missed(tmp_path: pathlib.Path) -> None:
    """A clean that has deleted the logs, and not yet the base file: nothing names the logs any more."""
    lake = Lake(tmp_path, 9, "merge_on_read")
    path = str(lake.path)
    lake.write(3)
    compact(path)
    lake.write()
    compact(path)
    lake.write(3)
    archive(path, keep_min=6, keep_max=7, delta_commits=1)
    first, last = (item for item in lake.table.timeline().completed_writes if lake.table.commit(item).compacted)
    parsed = {name: parse_file_name(name) for name in lake.files(COMPACTED_ALONE)}
    old = {name: item for name, item in parsed.items() if item is not None and item.instant < last.requested_time}
    merged_base = min(old, key=lambda name: (old[name].instant, name.startswith(".")))
    assert not merged_base.startswith(".") and len(old) >= 4
    plan_file(lake, {COMPACTED_ALONE: ()})
    clean(path, commits=100)
    for name in old.keys() - {merged_base}:
        (lake.path / COMPACTED_ALONE / name).unlink()
    with pytest.raises(PositionExpired, match="is needed for this answer and gone"):
        rows_of(lake.path, as_of=first.requested_time)
