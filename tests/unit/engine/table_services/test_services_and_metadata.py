"""Archivals, savepoints and restores of tables with a metadata table, also when they are killed: it has the files that
the folders have."""

from __future__ import annotations

import logging
import pathlib
import shutil
from collections.abc import Iterator

import pytest

from penstock.engine.table_services import metadata_services
from penstock.engine.table_services.archive import archive
from penstock.engine.table_services.clean import clean
from penstock.engine.table_services.compaction import compact
from penstock.engine.table_services.maintain import maintain
from penstock.engine.table_services.restore import restore
from penstock.engine.table_services.savepoints import delete_savepoint, savepoint
from penstock.engine.table_services.serviced_table import open_serviced
from penstock.engine.write.rollback import rollback
from penstock.proto.errors import TableError, WriteConflict
from penstock.table.hudi_table import open_table
from penstock.table.metadata.files import ALL_PARTITIONS, FILES, partition_paths
from penstock.table.metadata.metadata_table import open_metadata_table
from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.metadata_table import compaction
from penstock.writer.metadata_table.opened import WritableMetadata
from penstock.writer.table_services.retention import KeepCommits
from tests.unit.engine.table_services import lake as lake_module
from tests.unit.engine.table_services.test_service_kills import killed_at
from tests.unit.engine.write.recorded_storage import FIRST, KINDS, SECOND, Kind, Lake, Row, upserted
from tests.unit.writer.metadata_table.metadata_tables import instants, list_partitions, listed, listings

THIRD: list[Row] = [("k3", 3, "oslo"), ("k1", 3, "oslo"), ("late", 3, "wien")]
TABLES: tuple[Kind, ...] = KINDS[:2]
kinds = pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind[1])


def lake_of(folder: pathlib.Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table with a metadata table and one write."""
    lake = Lake(folder / "t", kind, monkeypatch, metadata_table=True)
    lake.write(FIRST)
    return lake


def check(path: pathlib.Path, what: str = "") -> None:
    """The metadata table is used, and lists the files of the folders."""
    by_metadata, by_folders = listings(path)
    assert listed(path) == "files" and by_metadata == by_folders, what


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


def restorable(lake: Lake) -> str:
    """Adds a savepoint, and writes and services after it; the savepoint's instant."""
    saved = savepoint(str(lake.path)).instant
    lake.write(SECOND)
    lake.write(THIRD)
    if lake.kind[1] == "merge_on_read":
        compact(str(lake.path))
    lake.write([("k5", 9, "oslo")], "insert_overwrite")
    return saved


@kinds
@pytest.mark.parametrize("after", [2, 10], ids=["compacted", "not compacted"])
def test_restored_table_has_its_metadata_table(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, after: int
) -> None:
    """Also if a compaction of the metadata table merged what is removed."""
    monkeypatch.setattr(compaction, "AFTER", after)
    lake = lake_of(tmp_path, kind, monkeypatch)
    saved = restorable(lake)
    check(lake.path)
    restore(str(lake.path))
    assert lake.rows() == sorted(FIRST)
    check(lake.path)
    recorded = {item[0] for item in instants(lake.path)}
    assert saved in recorded, "a restore of Hudi to the savepoint looks for it"
    for row in THIRD:
        lake.write([row])
        check(lake.path)
    delete_savepoint(str(lake.path), saved)
    assert lake.rows() == upserted(FIRST, THIRD)


@kinds
def test_rollback_of_a_write_that_the_metadata_table_was_created_with(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: Kind
) -> None:
    """No instant of the metadata table has its files, so that the metadata table is removed."""
    lake = lake_of(tmp_path, kind, monkeypatch)
    lake.write(SECOND)
    saved = restorable(lake)
    restore(str(lake.path))
    delete_savepoint(str(lake.path), saved)
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        assert rollback(str(lake.path), saved) == (saved,)
    assert "was created with" in caplog.text and listed(lake.path) == ""
    assert lake.rows() == sorted(FIRST)


def test_restored_table_of_version_6_has_none(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake = Lake(tmp_path / "t", KINDS[3], monkeypatch)
    lake.write(FIRST)
    saved = savepoint(str(lake.path)).instant
    lake.write(SECOND)
    (lake.path / ".hoodie/metadata").mkdir()
    list_partitions(lake.path, "files")
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        assert restore(str(lake.path), saved).savepoint == saved
    assert "the table was restored" in caplog.text and listed(lake.path) == ""
    assert lake.rows() == sorted(FIRST)


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [
        (KINDS[3], "files", "hoodie.table.metadata.partitions"),
        (KINDS[1], "column_stats", "hoodie.table.metadata.partitions.inflight"),
    ],
    ids=["version 6", "Hudi is building a partition"],
)
def test_savepoint_does_not_depend_on_the_metadata_table(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, name: str, key: str
) -> None:
    """No clean, write or restore of Penstock keeps it current, and a savepoint does not change it."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    list_partitions(lake.path, name, key)
    saved = savepoint(str(lake.path)).instant
    assert [item.requested_time for item in lake.table().timeline().savepoints] == [saved]
    delete_savepoint(str(lake.path), saved)
    assert lake.table().timeline().savepoints == ()


def test_restore_of_other_partitions_and_of_files_of_other_writers(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake = lake_of(tmp_path, KINDS[1], monkeypatch)
    restorable(lake)
    (lake.path / "oslo/part-0.parquet").write_bytes(b"of another writer")
    before = lake.everything()
    with pytest.raises(TableError, match=r"part-0\.parquet .* was not named by Hudi"):
        restore(str(lake.path))
    assert lake.everything() == before
    (lake.path / "oslo/part-0.parquet").unlink()
    list_partitions(lake.path, "column_stats,files")
    (lake.path / ".hoodie/metadata/column_stats").mkdir()
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        restore(str(lake.path))
    assert "a restore removed the partitions column_stats" in caplog.text
    check(lake.path)


def killed_copies(lake: Lake) -> Iterator[tuple[str, Lake]]:
    """Copies of the table, each with a restore that was killed at another step."""
    for step in range(1, 200):
        copy = Lake.__new__(Lake)
        copy.path, copy.kind = lake.path.with_name(f"t{step}"), lake.kind
        shutil.copytree(lake.path, copy.path)
        if not killed_at(copy.path, step, restore, after=bool(step % 2)):
            break
        yield f"step {step}", copy
        shutil.rmtree(copy.path)
    assert step > 20


@pytest.mark.exhaustive
@pytest.mark.thorough
def test_killed_restore_goes_on(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers see whole writes; after the next restore and write the metadata table, if it is left, has all files."""
    lake = lake_of(tmp_path, KINDS[0], monkeypatch)
    saved = savepoint(str(lake.path)).instant
    lake.write(SECOND)
    lake.write(THIRD)
    monkeypatch.undo()
    states = [sorted(FIRST), upserted(FIRST, SECOND), upserted(upserted(FIRST, SECOND), THIRD)]
    kept = set()
    for what, copy in killed_copies(lake):
        assert copy.rows() in states, what
        if listed(copy.path):
            by_metadata, by_folders = listings(copy.path)
            assert by_metadata == by_folders, what
        assert restore(str(copy.path), saved).savepoint == saved
        assert copy.rows() == states[0], what
        kept.add(listed(copy.path))
        if listed(copy.path):
            check(copy.path, what)
    assert kept == {"files", ""}


@kinds
def test_killed_savepoint_and_deletion(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    """A savepoint that is killed protects all its files or is made again; a deletion that is killed goes on."""
    lake = lake_of(tmp_path, kind, monkeypatch)
    instant = lake.write(SECOND).instant
    path = str(lake.path)
    steps = {"savepoint": 0, "delete": 0}
    for name, run in (("savepoint", savepoint), ("delete", lambda table: delete_savepoint(table, instant))):
        rows = lake.rows()
        for step in range(1, 50):
            if not killed_at(lake.path, step, run, after=bool(step % 2)):
                break
            steps[name] = step
            assert lake.rows() == rows
            saved = {item.requested_time for item in lake.table().timeline().savepoints}
            if name == "savepoint" and saved:
                delete_savepoint(path, instant)
            elif name == "delete" and not saved:
                savepoint(path, instant)
        lake.write([("k1", 9 if name == "savepoint" else 10, "oslo")])
        check(lake.path)
        if name == "savepoint":
            assert [item.requested_time for item in lake.table().timeline().savepoints] == [instant]
    assert min(steps.values()) >= 3
    names = [file.name for file in lake.timeline_folder.iterdir()]
    assert not [file for file in names if "savepoint" in file]
