"""Archivals and cleans of tables with a metadata table: it has the files that the folders have."""

from __future__ import annotations

import logging
import pathlib

import pytest

from penstock.engine.table_services import metadata_services
from penstock.engine.table_services.archive import archive
from penstock.engine.table_services.clean import clean
from penstock.engine.table_services.compaction import compact
from penstock.engine.table_services.maintain import maintain
from penstock.engine.table_services.restore import restore
from penstock.engine.table_services.savepoints import delete_savepoint, savepoint
from penstock.engine.table_services.serviced_table import open_serviced
from penstock.proto.errors import WriteConflict
from penstock.table.hudi_table import open_table
from penstock.table.metadata.files import ALL_PARTITIONS, FILES, partition_paths
from penstock.table.metadata.metadata_table import open_metadata_table
from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.metadata_table import compaction
from penstock.writer.metadata_table.opened import WritableMetadata
from penstock.writer.table_services.retention import KeepCommits
from tests.unit.engine.table_services import lake as lake_module
from tests.unit.engine.table_services.metadata_lakes import check, kinds, lake_of
from tests.unit.engine.write.recorded_storage import KINDS, SECOND, Kind, Lake
from tests.unit.writer.metadata_table.metadata_tables import list_partitions, listed


@kinds
def test_nothing_is_archived_that_the_metadata_table_has_not_compacted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    monkeypatch.setattr(compaction, "AFTER", 3)
    lake = lake_of(tmp_path, kind, monkeypatch)
    writes = [lake.table().timeline().completed_writes[0].requested_time]
    writes.append(lake.write(SECOND).instant)
    assert archive(str(lake.path), keep_min=1, keep_max=2, delta_commits=1).instants == ()
    writes += [lake.write([("k1", seq, "oslo")]).instant for seq in range(3, 6)]
    rows = lake.rows()
    dry = archive(str(lake.path), keep_min=1, keep_max=2, delta_commits=1, dry_run=True)
    done = archive(str(lake.path), keep_min=1, keep_max=2, delta_commits=1)
    assert done == dry and done.instants == tuple(writes[:2]), "the third commit merged the records of two"
    assert lake.rows() == rows
    check(lake.path)
    lake.write(SECOND)
    check(lake.path)


def inner_files(lake: Lake) -> set[str]:
    return {
        file.name for file in (lake.path / ".hoodie/metadata/files").iterdir() if not file.name.endswith("_metadata")
    }


@kinds
def test_metadata_table_is_cleaned_and_archived_too(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Both keep what a reader of the newest state needs, and the metadata table keeps what the table has."""
    monkeypatch.setattr(compaction, "AFTER", 3)
    monkeypatch.setattr(metadata_services, "AFTER", 3)
    monkeypatch.setattr(metadata_services, "_LEAST_COMMITS", 4)
    monkeypatch.setattr(metadata_services, "_READERS_NEED", 0)
    lake = lake_of(tmp_path, kind, monkeypatch)
    for seq in range(2, 14):
        lake.write([("k1", seq, "oslo")])
    rows, before = lake.rows(), inner_files(lake)
    if kind[1] == "merge_on_read":
        compact(str(lake.path))
    clean(str(lake.path), commits=2)
    gone = before - inner_files(lake)
    assert any(name.endswith(".hfile") for name in gone) and any(".log." in name for name in gone)
    assert lake.rows() == rows
    check(lake.path)
    lake.write([("k2", 20, "riga")])
    archive(str(lake.path), keep_min=2, keep_max=3, delta_commits=1)
    inner = WritableMetadata.open(LocalStorage(str(lake.path)))
    archived = {item.requested_time for item in inner.table.archive().instants}
    active = {item.requested_time for item in inner.timeline.instants}
    first = lake.table().timeline().first_active
    assert len(archived) >= 5 and max(archived) < first and not archived & active
    assert {item.requested_time for item in lake.table().timeline().completed_writes} <= active
    for seq in range(30, 38):
        lake.write([("k2", seq, "riga")])
        check(lake.path)
    clean(str(lake.path), commits=2)
    archive(str(lake.path), keep_min=2, keep_max=3, delta_commits=1)
    check(lake.path)
    newer = WritableMetadata.open(LocalStorage(str(lake.path))).table.archive().instants
    assert len(newer) > len(archived) and lake.rows()[2:3] == [("k2", 37, "riga")]


def test_metadata_table_that_hudi_cleans_is_left_alone(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "AFTER", 2)
    monkeypatch.setattr(metadata_services, "_LEAST_COMMITS", 1)
    lake = lake_of(tmp_path, KINDS[1], monkeypatch)
    for seq in range(2, 9):
        lake.write([("k1", seq, "oslo")])
    list_partitions(lake.path, "column_stats,files")
    before = inner_files(lake)
    metadata_services.clean_metadata(open_serviced(str(lake.path), ""), KeepCommits(1))
    assert inner_files(lake) == before
    list_partitions(lake.path, "files")
    metadata_services.clean_metadata(open_serviced(str(lake.path), ""), KeepCommits(1))
    assert inner_files(lake) == before, "readers may read the logs of which a compaction is new"
    monkeypatch.setattr(metadata_services, "_READERS_NEED", 0)
    metadata_services.clean_metadata(open_serviced(str(lake.path), ""), KeepCommits(1))
    assert inner_files(lake) < before
    check(lake.path)


def test_archival_after_a_restore_keeps_when_the_metadata_table_was_created(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clean before the restore has no instant in the metadata table, which was created again after it."""
    lake = lake_of(tmp_path, KINDS[1], monkeypatch)
    for seq in range(2, 5):
        lake.write([("k1", seq, "oslo")])
    saved = savepoint(str(lake.path)).instant
    for seq in range(5, 7):
        lake.write([("k1", seq, "oslo")])
    assert clean(str(lake.path), commits=1).instant
    restore(str(lake.path), saved)
    monkeypatch.setattr(compaction, "AFTER", 3)
    monkeypatch.setattr(metadata_services, "AFTER", 3)
    for seq in range(7, 19):
        lake.write([("k1", seq, "oslo")])
    assert archive(str(lake.path), keep_min=2, keep_max=3).instants
    lake.write([("k1", 19, "oslo")])
    check(lake.path)
    delete_savepoint(str(lake.path), saved)
    for seq in range(20, 30):
        lake.write([("k1", seq, "oslo")])
        archive(str(lake.path), keep_min=2, keep_max=3)
        check(lake.path)
    inner = WritableMetadata.open(LocalStorage(str(lake.path)))
    assert len(inner.table.archive().instants) >= 5, "once the clean is archived, the metadata table is archived too"


def test_empty_partition_that_a_clean_removes_leaves_the_metadata_table(tmp_path: pathlib.Path) -> None:
    """Its files were deleted by an earlier clean, which left the folder because of another file."""
    lake = lake_module.Lake(tmp_path, metadata_table=True)
    lake.write(2)
    lake.write(1, cities=("riga",), operation="delete_partition")
    lake.write(2, cities=("oslo",))
    (lake.path / "riga/notes.txt").write_text("mine")
    assert clean(str(lake.path), commits=1).partitions == ("riga",) and (lake.path / "riga").exists()
    assert recorded_partitions(lake.path) == ["oslo", "riga"]
    (lake.path / "riga/notes.txt").unlink()
    lake.write(2, cities=("oslo",))
    assert clean(str(lake.path), file_versions=1).partitions == ("riga",) and not (lake.path / "riga").exists()
    assert recorded_partitions(lake.path) == ["oslo"]
    check(lake.path)
    lake.write(1)
    assert recorded_partitions(lake.path) == ["oslo", "riga"]
    check(lake.path)


def recorded_partitions(path: pathlib.Path) -> list[str]:
    """The partitions that the metadata table records."""
    opened = open_metadata_table(open_table(str(path)), open_table(str(path)).timeline())
    return sorted(partition_paths(opened.records(FILES, [ALL_PARTITIONS])[ALL_PARTITIONS]))


def damaged(path: pathlib.Path) -> None:
    """Damages the metadata table of the table at `path`."""
    (path / ".hoodie/metadata/.hoodie/hoodie.properties").write_bytes(b"hoodie.table.version=x")


def test_clean_of_a_table_whose_metadata_table_is_damaged(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake = lake_of(tmp_path, KINDS[1], monkeypatch)
    damaged(lake.path)
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        assert clean(str(lake.path), commits=1).files == ()
        result = maintain(str(lake.path))
    assert result.reasons["clean"] == "no file that only older states need"
    assert "its metadata table was not cleaned or archived" in caplog.text


@pytest.mark.parametrize("has_metadata_table", [True, False])
def test_clean_that_deleted_files_succeeds_if_another_process_then_takes_the_lock(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, has_metadata_table: bool
) -> None:
    lake = Lake(tmp_path / "t", KINDS[1], monkeypatch, metadata_table=has_metadata_table)
    for seq in range(1, 4):
        lake.write([("k1", seq, "oslo")])

    def refused(*_: object) -> None:
        raise WriteConflict("another process holds the lock")

    monkeypatch.setattr(metadata_services, "locked", refused)
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        assert clean(str(lake.path), commits=1).files
    assert ("another process holds the lock" in caplog.text) is has_metadata_table, "a lock that nothing needs"


def test_archival_removes_a_metadata_table_that_a_writer_did_not_update(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once the instant is archived, no reader could tell that its files are missing."""
    lake = lake_of(tmp_path, KINDS[1], monkeypatch)
    list_partitions(lake.path, "")
    lake.write(SECOND)
    list_partitions(lake.path, "files")
    rows = lake.rows()
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        archive(str(lake.path), keep_min=1, keep_max=2)
    assert "lacks instant" in caplog.text and listed(lake.path) == ""
    assert not (lake.path / ".hoodie/metadata").exists() and lake.rows() == rows
