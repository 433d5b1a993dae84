"""Another process archives instants between the listing of a timeline and the read of their files: reads and writes
list the timeline again."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write import current_table
from penstock.proto.errors import StorageError
from penstock.table import hudi_table
from penstock.table.config.properties import TableProperties
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.storage.filesystem import Storage
from penstock.table.storage.local_listing import FileVersion
from penstock.table.timeline.settled_reads import read_current

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64())])
COMMITS = 6


def data(ts: int) -> pa.Table:
    return pa.table([["a", f"k{ts}"], [ts, ts]], schema=SCHEMA)


@pytest.fixture(params=[9, 6])
def path(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    """A copy-on-write table of six commits."""
    path = str(tmp_path / "trips")
    version: int = request.param
    penstock.create_table(
        path, SCHEMA, record_key="id", ordering="ts", table_type="copy_on_write", table_version=version, buckets=1
    )
    for ts in range(COMMITS):
        penstock.write(path, data(ts))
    return path


def archive_after(listings: range, path: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Archives the table further after each of these listings of its timeline: a first plan and its repetition are
    outdated. Returns the numbers of archived instants."""
    list_timeline, archived, numbers = hudi_table.list_timeline, [], itertools.count(1)

    def listed(
        storage: Storage,
        properties: TableProperties,
        before: Mapping[str, FileVersion] | None = None,
        *,
        names_only: bool = False,
    ) -> Mapping[str, FileVersion]:
        listing = list_timeline(storage, properties, before, names_only=names_only)
        if next(numbers) in listings:
            keep = COMMITS - 2 - 2 * len(archived)
            monkeypatch.setattr(hudi_table, "list_timeline", list_timeline)
            archived.append(len(penstock.archive(path, keep_min=keep, keep_max=keep + 1).instants))
            monkeypatch.setattr(hudi_table, "list_timeline", listed)
        return listing

    monkeypatch.setattr(hudi_table, "list_timeline", listed)
    return archived


READS: dict[str, Callable[[str], pa.Table]] = {
    "read": lambda path: penstock.read(path).read_all(),
    "open_table": lambda path: penstock.open_table(path).read().read_all(),
    "range": lambda path: penstock.read(path, query="incremental", after="earliest").read_all(),
}


@pytest.mark.parametrize("read", READS)
def test_read_lists_the_timeline_again(path: str, monkeypatch: pytest.MonkeyPatch, read: str) -> None:
    archived = archive_after(range(1, 3), path, monkeypatch)
    ids = READS[read](path)["id"].to_pylist()
    assert sorted(ids) == ["a", *(f"k{ts}" for ts in range(COMMITS))]
    assert archived == [2, 2]


def test_write_lists_the_timeline_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    archived = archive_after(range(3, 5), path, monkeypatch)
    assert penstock.write(path, data(COMMITS)).instant != ""
    assert archived == [2, 2]
    ids = penstock.read(path).read_all()["id"].to_pylist()
    assert sorted(ids) == ["a", *(f"k{ts}" for ts in range(COMMITS + 1))]


def test_other_errors_and_the_eighth_are_raised() -> None:
    delays: list[float] = []
    left, unavailable = StorageError("archived"), StorageError("unavailable")
    left.left_timeline = True

    def raising(*errors: StorageError) -> Callable[[], int]:
        remaining = list(errors)

        def read() -> int:
            if remaining:
                raise remaining.pop(0)
            return len(delays)

        return read

    assert read_current(raising(*[left] * 7), sleep=delays.append) == 7
    assert delays == sorted(delays) and 1 < sum(delays) < 3
    with pytest.raises(StorageError, match="archived"):
        read_current(raising(*[left] * 8), sleep=delays.append)
    with pytest.raises(StorageError, match="unavailable"):
        read_current(raising(unavailable), sleep=delays.append)
    assert len(delays) == 14


def test_pinned_table_is_not_read_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps its timeline, so that the next attempt would fail too, while the caller has the table's lock."""
    table = open_table(path)
    left = StorageError("archived")
    left.left_timeline = True
    attempts = []

    def fails(pinned: HudiTable) -> None:
        attempts.append(pinned)
        raise left

    monkeypatch.setattr(current_table, "_current", fails)
    with pytest.raises(StorageError, match="archived"):
        current_table.current_table(table.pinned())
    assert len(attempts) == 1
    with pytest.raises(StorageError, match="archived"):
        current_table.current_table(table)
    assert len(attempts) == 9
