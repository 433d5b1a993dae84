"""Commits in the metadata table: what readers list by it, and what happens to one that cannot be kept current."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Callable

import pytest

from penstock.engine.write.rollback import rollback
from penstock.proto.errors import StorageError, UnsupportedFeature
from penstock.proto.model.positions import InstantTime
from penstock.table.metadata.record_encoder import PartitionFiles
from penstock.table.storage.local_writes import LocalStorage
from penstock.table.timeline.active import Timeline
from penstock.writer.metadata_table.update import record_files, undo_files
from penstock.writer.transaction.clock import newest_time
from tests.unit.engine.write.recorded_storage import Kind, Lake
from tests.unit.writer.metadata_table.metadata_tables import instants, list_partitions, listed, listings

KINDS: list[Kind] = [(9, "merge_on_read", "bucket"), (9, "copy_on_write", "simple")]


@pytest.fixture(params=KINDS, ids=lambda kind: kind[1])
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Lake:
    return Lake(tmp_path / "t", request.param, monkeypatch, metadata_table=True)


def later(data: Timeline) -> Callable[[Timeline], InstantTime]:
    """Times of a clock that stands still."""
    return lambda inner: InstantTime(str(int(max(newest_time(data), newest_time(inner))) + 1))


def test_every_commit_lists_its_files(lake: Lake) -> None:
    assert listings(lake.path) == ({}, {})
    lake.write([("a", 1, "oslo"), ("b", 1, "riga")])
    lake.write([("a", 2, "oslo"), ("c", 1, "bern")])
    lake.write([("a", 3, "oslo")], "insert_overwrite")
    lake.write([("a", 0, "oslo")], "delete_partition")
    by_metadata, by_folders = listings(lake.path)
    assert by_metadata == by_folders and len(by_folders) == 5
    data = lake.table().timeline()
    own = {item[0]: item for item in instants(lake.path)}
    for item in data.instants:
        assert own[item.requested_time] == (item.requested_time, "deltacommit", "completed")


def test_metadata_completes_before_data_under_one_lock(lake: Lake) -> None:
    lake.storage.calls.clear()
    result = lake.write([("a", 1, "oslo")])
    created = lake.storage.paths("create")
    inner = [path for path in created if path.startswith(".hoodie/metadata/")]
    assert [path.rpartition("/")[2] for path in inner[:2]] == [
        f"{result.instant}.deltacommit.requested",
        f"{result.instant}.deltacommit.inflight",
    ]
    assert inner[2] == f".hoodie/metadata/files/.files-0000-0_{result.instant}.log.1_0-0-0" and len(inner) == 4
    places = [lake.storage.place("create", path) for path in inner]
    lock = max(number for number, call in enumerate(lake.storage.calls) if call == ("create", ".hoodie/lock"))
    completed = next(path for path in created if f"/{result.instant}_" in path and "metadata" not in path)
    end = lake.storage.place("create", completed)
    assert lock < min(places) and places == sorted(places) and max(places) < end
    assert inner[3].rpartition("_")[2].partition(".")[0] < completed.rpartition("_")[2].partition(".")[0]
    assert ("remove", ".hoodie/lock") not in lake.storage.calls[lock:end]


def test_table_without_metadata_table_gets_none(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path / "t", KINDS[0], monkeypatch)
    lake.write([("a", 1, "oslo")])
    assert not (lake.path / ".hoodie/metadata").exists() and not listed(lake.path)


def test_option_off_removes_metadata_table(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    lake.write([("a", 1, "oslo")])
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        lake.write([("a", 2, "oslo")], metadata="off")
    assert not (lake.path / ".hoodie/metadata").exists() and listed(lake.path) == ""
    assert "option metadata is off" in caplog.text and lake.rows() == [("a", 2, "oslo")]
    lake.write([("a", 3, "oslo")])
    assert not (lake.path / ".hoodie/metadata").exists() and lake.rows() == [("a", 3, "oslo")]


def test_partitions_that_are_not_kept_are_removed(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    lake.write([("a", 1, "oslo")])
    list_partitions(lake.path, "column_stats,files,secondary_index_x")
    for name in ("column_stats", "secondary_index_x", "record_index"):
        (lake.path / ".hoodie/metadata" / name).mkdir()
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        lake.write([("a", 2, "oslo")])
    assert listed(lake.path) == "files"
    assert sorted(folder.name for folder in (lake.path / ".hoodie/metadata").glob("[!.]*")) == ["files", "record_index"]
    assert "removed the partitions column_stats, secondary_index_x of its metadata table" in caplog.text
    by_metadata, by_folders = listings(lake.path)
    assert by_metadata == by_folders


def test_partition_that_is_being_built_stops_the_write(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if its building began after the write had."""
    lake.write([("a", 1, "oslo")])
    before = lake.rows()
    new_file = type(lake.storage).new_file

    def build(storage: LocalStorage, path: str) -> object:
        list_partitions(lake.path, "column_stats", "hoodie.table.metadata.partitions.inflight")
        return new_file(lake.storage, path)

    monkeypatch.setattr(type(lake.storage), "new_file", build)
    with pytest.raises(UnsupportedFeature, match="is building the partitions column_stats"):
        lake.write([("a", 2, "oslo")])
    assert lake.rows() == before and listings(lake.path)[0] == listings(lake.path)[1]
    lake.write([("a", 3, "oslo")], metadata="off")
    assert lake.rows() == [("a", 3, "oslo")]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: (path / ".hoodie/hoodie.properties").unlink(), "no table"),
        (lambda path: [file.unlink() for file in (path / ".hoodie/timeline").glob("*[0-9].deltacommit")], "no comple"),
        (lambda path: [file.unlink() for file in (path / ".hoodie/timeline").glob("2*[0-9].deltacommit")], "lacks ins"),
        (
            lambda path: [file.write_bytes(b"Obj") for file in (path / ".hoodie/timeline").glob("*[0-9].deltacommit")],
            "",
        ),
        (lambda path: (path / "files/.files-0001-0_20260101000000000.log.1_0-0-0").touch(), "file groups"),
    ],
    ids=["folder", "no instant", "stale", "damaged", "group"],
)
def test_metadata_table_that_cannot_be_kept_is_removed(
    lake: Lake, caplog: pytest.LogCaptureFixture, damage: Callable[[pathlib.Path], object], words: str
) -> None:
    """It would hide files: also those of a writer that did not update it."""
    lake.write([("a", 1, "oslo")])
    damage(lake.path / ".hoodie/metadata")
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        lake.write([("a", 2, "oslo")])
    assert words in caplog.text and "removed its metadata table (files)" in caplog.text
    assert listed(lake.path) == "" and not (lake.path / ".hoodie/metadata").exists()
    assert lake.rows() == [("a", 2, "oslo")]


def test_failure_of_storage_fails_the_write(lake: Lake) -> None:
    """A full disk is no reason to remove a metadata table."""
    lake.write([("a", 1, "oslo")])

    def full(method: str, path: str) -> None:
        if method == "create" and "/files/.files-0000-0_" in path:
            raise StorageError("disk full")

    lake.storage.before = full
    with pytest.raises(StorageError, match="disk full"):
        lake.write([("a", 2, "oslo")])
    lake.storage.before = lambda method, path: None
    assert lake.rows() == [("a", 1, "oslo")]
    assert [item[1:] for item in instants(lake.path)[2:]] == [("rollback", "completed")]
    lake.write([("a", 3, "oslo")])
    by_metadata, by_folders = listings(lake.path)
    assert by_metadata == by_folders and lake.rows() == [("a", 3, "oslo")]


def test_second_attempt_of_an_instant_replaces_the_first(lake: Lake) -> None:
    """As a table service that runs again, with other files."""
    lake.write([("a", 1, "oslo")])
    table = lake.table()
    timeline = table.timeline()
    instant = InstantTime(str(int(newest_time(timeline)) + 10_000))
    names = [f"x-0_{token}-0-0_{instant}.parquet" for token in (1, 2)]
    for name in names:
        change = PartitionFiles(partition="oslo", added={name: 7})
        completion = record_files(table, lake.storage, timeline, instant, [change], later(timeline))
        assert completion is not None and completion > newest_time(timeline)
    (by_metadata, _) = listings(lake.path)
    assert f"oslo/{names[1]}" in by_metadata and f"oslo/{names[0]}" not in by_metadata
    assert sorted(item[1:] for item in instants(lake.path)[2:]) == [
        ("deltacommit", "completed"),
        ("rollback", "completed"),
    ]


def test_rollback_of_compacted_instant_removes_metadata_table(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    lake.write([("a", 1, "oslo")])
    table = lake.table()
    timeline = table.timeline()
    instant = InstantTime(str(int(newest_time(timeline)) + 10_000))
    change = PartitionFiles(partition="oslo", added={f"x-0_1-0-0_{instant}.parquet": 7})
    record_files(table, lake.storage, timeline, instant, [change], later(timeline))
    folder = lake.path / ".hoodie/metadata/.hoodie/timeline"
    (folder / "99990101000000000_99990101000000001.commit").write_bytes(b"")
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        undo_files(table, lake.storage, timeline, instant, InstantTime("99990101000000002"), later(timeline))
    assert "compaction 99990101000000000 merged" in caplog.text and listed(lake.path) == ""


def test_files_of_unknown_instants_are_no_reason(lake: Lake) -> None:
    """Nothing was recorded, so that there is nothing to undo."""
    lake.write([("a", 1, "oslo")])
    before = instants(lake.path)
    empty = Timeline(2, ())
    rollback = InstantTime("20200101000000001")
    undo_files(lake.table(), lake.storage, empty, "20200101000000000", rollback, later(empty))
    assert instants(lake.path) == before


def test_old_layout_is_refused_and_its_rollback_removes_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path / "t", (6, "merge_on_read", "bucket"), monkeypatch)
    lake.write([("a", 1, "oslo")])
    list_partitions(lake.path, "files")
    with pytest.raises(UnsupportedFeature, match="version 6"):
        lake.write([("a", 2, "oslo")])
    table = lake.table()
    pending = lake.path / ".hoodie/20260101000000000.deltacommit.requested"
    pending.touch()
    rollback(str(lake.path), "20260101000000000")
    assert listed(lake.path) == "" and table.properties.layout == 1
    lake.write([("a", 3, "oslo")])
    assert lake.rows() == [("a", 3, "oslo")]
