"""How a writer damages a table through its timeline, and that Penstock's does not.

The numbers are those of the traps that real Hudi showed to a prototype; `test_traps_of_files`, `test_traps_of_rows`
and `tests/interop/test_write_traps.py` have the others.
"""

from __future__ import annotations

import datetime
import functools
import logging
import os
import pathlib
import re
import time
from typing import Any

import pytest

import penstock
from penstock.engine.write.write import write
from penstock.proto.errors import ConfigurationError, StorageError, TableError, UnsupportedFeature, WriteConflict
from penstock.writer.transaction.transaction import WriteEnvironment
from tests.unit.engine.write.killed_storage import Killed, KilledStorage, as_other_process
from tests.unit.engine.write.recorded_storage import FIRST, KINDS, SECOND, Kind, Lake, arrow, each_kind, upserted
from tests.unit.engine.write.test_kills import leftovers

both_layouts = pytest.mark.parametrize("kind", [(9, "merge_on_read", "bucket"), (6, "copy_on_write", "simple")])


def set_property(path: pathlib.Path, name: str, value: str) -> None:
    file = path / ".hoodie" / "hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith(f"{name}=")]
    file.write_text("\n".join([*lines, f"{name}={value}", ""]))


def at(monkeypatch: pytest.MonkeyPatch, now: Any) -> None:
    """Writes take the time from `now`."""
    environment = functools.partial(WriteEnvironment, now=now)
    monkeypatch.setattr("penstock.engine.write.planned_write.WriteEnvironment", environment)


@each_kind
def test_trap_01_failed_write_has_markers(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    """Hudi rolls back what the markers name; another file of a failed write becomes visible when it archives."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    instant = lake.write(SECOND).instant
    files = lake.storage.paths("new_file")
    assert len(files) >= 5
    markers = [path for path in lake.storage.paths("create") if ".marker." in path]
    assert len(markers) == len(files)
    for file in files:
        (marker,) = (path for path in markers if f"/{file}.marker." in path)
        assert lake.storage.place("create", marker) < lake.storage.place("new_file", file)
    completed = next(path for path in lake.storage.paths("create") if re.search(rf"{instant}(_\d+)?\.\w*commit$", path))
    assert lake.storage.place("create", completed) < lake.storage.place("remove_folder", f".hoodie/.temp/{instant}")


LISTED, BUILT = "hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight"


def test_trap_03_stale_metadata_table_is_removed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A writer did not update it: Hudi's readers do not see the rows, and no commit after it can make it right."""
    lake = Lake(tmp_path / "t", KINDS[0], monkeypatch, metadata_table=True)
    lake.write(FIRST)
    set_property(lake.path, LISTED, "")
    instant = lake.write(SECOND).instant
    set_property(lake.path, LISTED, "files")
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        lake.write(SECOND)
    assert f"lacks instant {instant}" in caplog.text
    assert lake.table().properties.raw[LISTED] == "" and not (lake.path / ".hoodie/metadata").exists()
    assert lake.rows() == upserted(FIRST, SECOND)


def test_trap_03_metadata_table_that_is_being_built_is_left_alone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path / "t", KINDS[0], monkeypatch)
    lake.write(FIRST)
    set_property(lake.path, BUILT, "files")
    before = lake.everything()
    with pytest.raises(UnsupportedFeature, match="is building the partitions files of its metadata table"):
        lake.write(SECOND)
    assert lake.everything() == before


@both_layouts
def test_trap_04_metadata_table_of_meantime_does_not_lack_the_write(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Another writer creates the metadata table during the write: its listing would lack the write's files."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    files = lake.files()

    def create_metadata_table(method: str, path: str) -> None:
        if method == "new_file":
            set_property(lake.path, LISTED, "files")

    lake.storage.before = create_metadata_table
    if lake.layout == 2:
        lake.write(SECOND)
        assert lake.table().properties.raw[LISTED] == "" and lake.rows() == upserted(FIRST, SECOND)
        return
    with pytest.raises(UnsupportedFeature, match="metadata table, and those of version 6 are not kept current"):
        lake.write(SECOND)
    assert lake.table().properties.raw[LISTED] == "", "the rollback wrote files that it would lack"
    assert lake.files() == files
    assert leftovers(lake.path) == []
    assert lake.rows() == sorted(FIRST)


def test_trap_10_completed_file_has_a_completion_time(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path / "t", KINDS[0], monkeypatch)
    results = [lake.write(FIRST), lake.write(SECOND, "insert_overwrite")]
    completed = [
        file.name for file in lake.timeline_folder.iterdir() if file.suffix in (".deltacommit", ".replacecommit")
    ]
    assert sorted(completed) == [
        f"{results[0].instant}_{results[0].completion_time}.deltacommit",
        f"{results[1].instant}_{results[1].completion_time}.replacecommit",
    ]
    assert all(len(one.completion_time) == 17 and one.completion_time > one.instant for one in results)


def test_trap_11_completion_times_rise_though_the_clock_goes_back(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An incremental reader that has seen a completion time never sees one below it."""
    lake = Lake(tmp_path / "t", KINDS[0], monkeypatch)
    start = datetime.datetime.now(datetime.UTC)
    known = ""
    for seconds in (0, -60, -30, -90, 0):
        at(monkeypatch, lambda seconds=seconds: start + datetime.timedelta(seconds=seconds))
        row = (f"after{seconds}-{len(known)}", 1, "oslo")
        result = lake.write([row])
        assert known < result.instant < result.completion_time
        if known:
            changes = penstock.read(str(lake.path), query="incremental", after=known).read_all()
            assert changes["id"].to_pylist() == [row[0]]
        known = result.completion_time


def test_trap_12_instants_of_another_zone_are_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of an instant that lies hours before the newest base file is never read. Without real Hudi: its instants of
    another zone need a JVM of that zone, and what matters is that nothing is written."""
    lake = Lake(tmp_path / "t", KINDS[0], monkeypatch)
    properties = (lake.path / ".hoodie" / "hoodie.properties").read_text()
    assert "hoodie.table.timeline.timezone=UTC\n" in properties
    lake.write(FIRST)
    before = lake.everything()
    with pytest.raises(ConfigurationError, match="timeline in UTC"):
        lake.write(SECOND, timeline_timezone="Asia/Singapore")
    at(monkeypatch, lambda: datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=8))
    with pytest.raises(TableError, match="used another time zone"):
        lake.write(SECOND)
    set_property(lake.path, "hoodie.table.timeline.timezone", "LOCAL")
    with pytest.raises(ConfigurationError, match="timezone=LOCAL"):
        lake.write(SECOND)
    with pytest.raises(TableError, match="used another time zone"):
        lake.write(SECOND, timeline_timezone="UTC")
    set_property(lake.path, "hoodie.table.timeline.timezone", "UTC")
    assert lake.everything().keys() == before.keys()
    at(monkeypatch, lambda: datetime.datetime.now(datetime.UTC))
    lake.write(SECOND)
    assert lake.rows() == upserted(FIRST, SECOND)


@each_kind
@pytest.mark.sampled(1)
def test_trap_13_instant_of_a_failed_write_is_not_used_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    now = datetime.datetime.now(datetime.UTC)
    at(monkeypatch, lambda: now)

    def fail(method: str, path: str) -> None:
        if method == "create" and re.search(r"commit$", path):
            raise StorageError("the disk is full")

    lake.storage.before = fail
    with pytest.raises(StorageError):
        lake.write(FIRST)
    (failed,) = {
        path.split("/")[-1].split(".")[0]
        for path in lake.storage.paths("create")
        if path.endswith("inflight") and "rollback" not in path
    }
    assert lake.files() == set()
    lake.storage.before = lambda method, path: None
    instants = [lake.write(FIRST).instant, lake.write(SECOND).instant]
    assert failed < instants[0] < instants[1]
    assert not [file for file in lake.files() if failed in file]
    assert lake.rows() == upserted(FIRST, SECOND)


@each_kind
def test_trap_14_failed_write_is_rolled_back_before_the_next_commit(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """A failed write below a completed one makes Hudi refuse each further write."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    with monkeypatch.context() as patch:
        as_other_process(patch)
        killed = KilledStorage(lake.path, 12, after=False)
        patch.setattr("penstock.engine.write.planned_write.open_writable", lambda path: killed)
        with pytest.raises(Killed):
            write(str(lake.path), arrow(SECOND))
    (pending,) = lake.table().timeline().pending
    lake.storage.calls.clear()
    lake.write(SECOND)
    created = lake.storage.paths("create")
    rollback = next(place for place, path in enumerate(created) if path.endswith(".rollback"))
    requested = [place for place, path in enumerate(created) if re.search(r"commit\.requested$", path)]
    assert [place > rollback for place in requested] == [True]
    assert lake.table().rolled_back(lake.table().timeline()) == {pending.requested_time}
    assert lake.rows() == upserted(FIRST, SECOND)


@each_kind
def test_trap_15_write_that_another_writer_rolled_back_fails_and_leaves_no_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """A writer of Hudi without heartbeats rolls every pending write back, also one that runs. Files that are created
    after that are on no rollback's list: they would become visible."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    files = lake.files()

    def roll_back(method: str, path: str) -> None:
        if method != "new_file" or "oslo" not in path:
            return
        lake.storage.before = lambda method, path: None
        (pending,) = lake.table().timeline().pending
        (lake.path / ".hoodie" / ".heartbeat" / pending.requested_time).unlink()
        penstock.rollback(str(lake.path), pending.requested_time)
        assert lake.files() == files or kind[:2] == (6, "merge_on_read")

    lake.storage.before = roll_back
    with pytest.raises(WriteConflict, match="another writer rolled back instant"):
        lake.write(SECOND)
    new = lake.files() - files
    if kind[:2] == (6, "merge_on_read"):  # logs of version 6 stay, and a block in a further log cancels theirs
        assert {path.rpartition(".log.")[0] for path in new} <= {path.rpartition(".log.")[0] for path in new | files}
        new = {path for path in new if ".log." not in path}
    assert new == set()
    assert leftovers(lake.path) == []
    assert lake.rows() == sorted(FIRST)
    lake.write(SECOND)
    assert lake.rows() == upserted(FIRST, SECOND)


@each_kind
def test_trap_15_late_files_of_a_killed_writer_are_removed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """As above, and the writer is killed before it notices."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    steps = len(lake.storage.calls)
    for step in range(6, 40):
        lake = Lake(tmp_path / f"t{step}", kind, monkeypatch)
        with monkeypatch.context() as patch:
            as_other_process(patch)
            killed = KilledStorage(lake.path, step, after=True)
            patch.setattr("penstock.engine.write.planned_write.open_writable", lambda path, killed=killed: killed)
            with pytest.raises(Killed):
                write(str(lake.path), arrow(FIRST))
        pending = lake.table().timeline().pending
        if not pending or not list(lake.path.rglob("*.parquet")):
            continue
        for file in lake.timeline_folder.glob(f"{pending[0].requested_time}.*"):
            file.unlink()
        (lake.path / ".hoodie" / ".heartbeat" / pending[0].requested_time).unlink()
        steps += 1
        lake.write(SECOND)
        assert lake.rows() == sorted(SECOND), f"killed at step {step}"
        assert leftovers(lake.path) == [], f"killed at step {step}"
        if steps == 3:
            break
    assert steps == 3


@each_kind
def test_trap_16_completed_file_is_visible_with_all_bytes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Files of the timeline get their name when their bytes are on the disk. Empty ones have no bytes."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    synced: set[int] = set()
    sizes: dict[str, int] = {}
    fsync, link = os.fsync, pathlib.Path.hardlink_to

    def recorded_fsync(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    def recorded_link(target: pathlib.Path, source: pathlib.Path) -> None:
        assert source.suffix == ".tmp"
        assert source.stat().st_ino in synced
        sizes[target.name] = source.stat().st_size
        link(target, source)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(pathlib.Path, "hardlink_to", recorded_link)
    lake.write(FIRST)
    lake.write(SECOND, "insert_overwrite")
    files = [file for file in lake.timeline_folder.iterdir() if file.is_file() and file.name[:2] == "20"]
    assert len(files) == 6
    assert {file.name: file.stat().st_size for file in files} == {file.name: sizes.get(file.name, 0) for file in files}
    assert len(sizes) >= 3, "the two completed ones, and the request of the replacement"
    assert not [file for file in files if file.suffix in (".commit", ".deltacommit") and not file.stat().st_size]


@each_kind
def test_trap_17_timeline_files_of_completed_writes_stay(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """A completed write without its requested file is lost, one without its completed file is rolled back."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)

    def fail(method: str, path: str) -> None:
        if method == "new_file" and "bern" in path:
            raise StorageError("the disk is full")

    lake.storage.before = fail
    with pytest.raises(StorageError):
        lake.write(SECOND)
    lake.storage.before = lambda method, path: None
    for operation in ("upsert", "insert_overwrite", "delete"):
        lake.write(SECOND, operation)
    folder = lake.timeline_folder.relative_to(lake.path).as_posix()
    removed = [path for path in lake.storage.paths("remove") if re.match(rf"{folder}/\d", path)]
    (failed,) = lake.table().rolled_back(lake.table().timeline())
    assert [path.rpartition(".")[2] for path in removed] == ["inflight", "requested"]
    assert all(f"/{failed}." in path for path in removed)


@both_layouts
def test_trap_31_upgrade_of_meantime_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """A writer that goes on with the old layout writes instants that nobody reads."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    names = {file.name for file in lake.timeline_folder.iterdir()}

    def upgrade(method: str, path: str) -> None:
        if method == "new_file":
            set_property(lake.path, "hoodie.table.version", "8")

    lake.storage.before = upgrade
    with pytest.raises(TableError, match=r"from version \d to 8"):
        lake.write(SECOND)
    set_property(lake.path, "hoodie.table.version", str(kind[0]))
    assert lake.rows() == sorted(FIRST)
    assert not [
        name for name in {file.name for file in lake.timeline_folder.iterdir()} - names if name.endswith("commit")
    ]
    assert leftovers(lake.path) == []


@each_kind
def test_trap_34_writer_that_paused_too_long_fails(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """After two minutes without a heartbeat any writer may roll the write back, at any time."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)

    def pause(method: str, path: str) -> None:
        if method == "new_file":
            past = time.time() - 121
            for heartbeat in (lake.path / ".hoodie" / ".heartbeat").iterdir():
                os.utime(heartbeat, (past, past))

    lake.storage.before = pause
    with pytest.raises(WriteConflict, match="heartbeat expired"):
        lake.write(SECOND)
    assert lake.rows() == sorted(FIRST)
    assert leftovers(lake.path) == []
