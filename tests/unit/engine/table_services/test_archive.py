"""Archivals of whole tables: what readers see, damaged instants, replaced file groups, merges of the history."""

from __future__ import annotations

import pathlib

import pytest

import penstock
from penstock.engine.table_services import archive as archive_module
from penstock.engine.table_services.archive import ArchiveResult, archive
from penstock.engine.table_services.clean import clean
from penstock.proto.errors import ConfigurationError, CorruptFile, WriteConflict
from penstock.table.timeline.archive_v2 import history_files, history_version, manifest_versions
from penstock.table.timeline.instants import WRITE_ACTIONS
from penstock.writer.table_services import archival
from tests.unit.engine.table_services.lake import Lake, rows_of
from tests.unit.engine.table_services.test_clean import plan_file

VERSIONS = pytest.mark.parametrize("version", [9, 6])


def archive_to(lake: Lake, low: int, high: int, *, dry_run: bool = False) -> ArchiveResult:
    return archive(str(lake.path), keep_min=low, keep_max=high, delta_commits=1, dry_run=dry_run)


@VERSIONS
@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
def test_readers_see_the_same_before_and_after(tmp_path: pathlib.Path, version: int, kind: str) -> None:
    lake = Lake(tmp_path, version, kind)
    lake.write(6)
    timeline = lake.table.timeline()
    keys = {item.requested_time: timeline.order_key(item) for item in timeline.completed_writes}
    commits = {item.requested_time: lake.table.commit(item) for item in timeline.completed_writes}
    ranges = {
        instant: rows_of(lake.path, query="incremental", after=keys[instant], upto=keys[lake.instants[-1]])
        for instant in lake.instants[:-1]
    }
    before = lake.timeline_files()
    planned = archive_to(lake, 2, 3, dry_run=True)
    assert lake.timeline_files() == before and not lake.table.has_archived()
    assert archive_to(lake, 2, 3) == planned == ArchiveResult(instants=tuple(lake.instants[:4]), kept=2)
    assert not [name for name in lake.timeline_files() if name.startswith(tuple(lake.instants[:4]))]
    lake.check_states(lake.instants[0])
    for instant, rows in ranges.items():
        assert rows_of(lake.path, query="incremental", after=keys[instant], upto=keys[lake.instants[-1]]) == rows
    archived = lake.table.archive()
    assert archived.commits == {instant: commits[instant] for instant in lake.instants[:4]}
    assert {item.requested_time: lake.table.timeline().order_key(item) for item in archived.instants} == {
        instant: keys[instant] for instant in lake.instants[:4]
    }
    assert archive_to(lake, 2, 3).instants == ()
    lake.write()
    lake.check_states(lake.instants[0])


@VERSIONS
def test_cleans_and_rollbacks_are_archived_too(tmp_path: pathlib.Path, version: int) -> None:
    lake = Lake(tmp_path, version)
    lake.write(4)
    clean(str(lake.path), commits=1)
    folder = lake.path / lake.table.properties.timeline_folder
    (folder / f"{int(lake.instants[-1]) + 1}.commit.requested").write_bytes(b"")
    penstock.rollback(str(lake.path), str(int(lake.instants[-1]) + 1))
    lake.write(3)
    result = archive_to(lake, 1, 2)
    assert len(result.instants) == 8
    archive_ = lake.table.archive()
    assert len(archive_.cleans) == 1 and len(archive_.rolled_back) == 1
    names = {name.partition(".")[2] for name in lake.timeline_files()} - {"properties"}
    assert names == {"commit", "commit.requested", "inflight"}


@VERSIONS
def test_replacement_stays_until_its_files_are_cleaned(tmp_path: pathlib.Path, version: int) -> None:
    """Else its replaced file groups would be read again."""
    lake = Lake(tmp_path, version)
    lake.write(2)
    replaced_at = lake.write(1, operation="insert_overwrite")
    lake.write(4)
    assert archive_to(lake, 1, 2).instants == tuple(lake.instants[:2])
    lake.check_states(lake.instants[2])
    clean(str(lake.path), commits=1)
    assert replaced_at in archive_to(lake, 1, 2).instants
    assert rows_of(lake.path) == lake.states[lake.instants[-1]]


@VERSIONS
def test_hours_of_a_clean_stay(tmp_path: pathlib.Path, version: int) -> None:
    lake = Lake(tmp_path, version)
    lake.write(6)
    few = {"keep_min": 2, "keep_max": 3, "dry_run": True}
    assert archive(str(lake.path), hours=1, **few).instants == ()
    assert len(archive(str(lake.path), **few).instants) == 4
    with pytest.raises(ConfigurationError, match="hours=0"):
        archive(str(lake.path), hours=0)
    properties = lake.path / ".hoodie/hoodie.properties"
    text = properties.read_text()
    properties.write_text(text + "hoodie.clean.policy=KEEP_LATEST_BY_HOURS\nhoodie.clean.hours.retained=1\n")
    assert archive(str(lake.path), **few).instants == ()


@VERSIONS
def test_what_the_last_clean_retained_by_hours_stays(tmp_path: pathlib.Path, version: int) -> None:
    lake = Lake(tmp_path, version)
    lake.write(6)
    plan_file(lake, {"oslo": (lake.files()[0],)}, policy="KEEP_LATEST_BY_HOURS", earliest=lake.instants[2])
    assert clean(str(lake.path), commits=100).carried_on
    assert archive_to(lake, 2, 3, dry_run=True).instants == tuple(lake.instants[:1])
    assert archive_to(lake, 2, 3).instants == tuple(lake.instants[:1]), "the write before those of the hours stays"
    lake.check_states(lake.instants[1])
    assert clean(str(lake.path), commits=1).files
    assert lake.instants[3] in archive_to(lake, 2, 3).instants, "the last clean was not by hours"


@VERSIONS
def test_damaged_instant_is_not_archived(tmp_path: pathlib.Path, version: int) -> None:
    lake = Lake(tmp_path, version)
    lake.write(5)
    folder = lake.path / lake.table.properties.timeline_folder
    (file,) = folder.glob(f"{lake.instants[1]}*.commit")
    content = file.read_bytes()
    for damaged in (b"", content[:-3]):
        file.write_bytes(damaged)
        before = lake.timeline_files()
        with pytest.raises(CorruptFile, match=lake.instants[1]):
            archive_to(lake, 1, 2)
        assert lake.timeline_files() == before and not lake.table.has_archived()
    file.write_bytes(content)
    assert len(archive_to(lake, 1, 2).instants) == 4


def test_many_instants_become_several_files(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "_CHUNK_BYTES", 1)
    for version in (9, 6):
        lake = Lake(tmp_path, version, name=f"v{version}")
        lake.write(4)
        archive_to(lake, 1, 2)
        folder = lake.path / lake.table.properties.history_folder
        names = [path.name for path in folder.iterdir() if path.name.endswith((".parquet", "_1-0-1"))]
        assert len(names) == 3
        assert sorted(item.requested_time for item in lake.table.archive().instants) == lake.instants[:3]


def test_history_is_merged_and_old_files_go(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archival, "MERGED_FILES", 2)
    lake = Lake(tmp_path)
    layers = []
    lake.write(3, cities=("oslo",))
    for _ in range(6):
        archive_to(lake, 1, 2)
        lake.write(2, cities=("oslo",))
        layers.append([file.layer for file in history_files(lake.table.storage, lake.table.properties)])
    assert layers == [[0], [1], [1, 0], [2], [2, 0], [2, 1]]
    storage, properties = lake.table.storage, lake.table.properties
    versions = manifest_versions(storage, properties)
    assert history_version(storage, properties) == versions[-1] and len(versions) <= 5
    folder = lake.path / properties.history_folder
    for file in history_files(storage, properties):
        assert (folder / file.name).stat().st_size == file.size_bytes
    assert len(list(folder.glob("*.parquet"))) <= 6
    writes = [item for item in lake.table.archive().instants if item.action in WRITE_ACTIONS]
    assert [item.requested_time for item in writes] == lake.instants[: len(writes)] and len(writes) == 12


def test_checksums_of_hadoop_go_with_the_files_that_are_replaced(tmp_path: pathlib.Path) -> None:
    """Hadoop verifies a file by the checksum beside it, also one of another content."""
    lake = Lake(tmp_path)
    lake.write(4)
    archive_to(lake, 2, 3)
    folder = lake.path / ".hoodie/timeline/history"
    for name in ("_version_", "manifest_2"):
        (folder / f".{name}.crc").write_bytes(b"crc\0")
    lake.write(2)
    archive_to(lake, 2, 3)
    assert not list(folder.glob(".*.crc")) and (folder / "_version_").read_text() == "2"


def test_merge_of_archive_files_by_hudi_comes_first(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path, 6)
    lake.write(4)
    (lake.path / ".hoodie/archived").mkdir(exist_ok=True)
    (lake.path / ".hoodie/archived/mergeArchivePlan").write_bytes(b"")
    with pytest.raises(WriteConflict, match="a merge of its archive files by Hudi is not complete"):
        archive_to(lake, 1, 2)
    assert rows_of(lake.path) == lake.states[lake.instants[-1]]


def test_refusals(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    with pytest.raises(ConfigurationError, match="keep_min=5, keep_max=5"):
        archive(str(lake.path), keep_min=5, keep_max=5)
