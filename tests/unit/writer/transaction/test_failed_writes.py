"""Rollbacks: of writes whose writers ended, carried out once, though two writers do it at the same time."""

from __future__ import annotations

import datetime
import pathlib
import re

import pytest

from penstock.engine.write.rollback import rollback
from penstock.proto.errors import ConfigurationError, CorruptFile, StorageError, WriteConflict
from penstock.table.storage.local_writes import LocalStorage
from penstock.table.timeline.instants import Action
from penstock.writer.transaction.failed_writes import roll_back, roll_back_failed
from penstock.writer.transaction.rollback_requests import markers_of
from penstock.writer.transaction.transaction import WriteEnvironment
from tests.unit.engine.write.recorded_storage import FIRST, SECOND, Kind, Lake, upserted
from tests.unit.engine.write.test_kills import leftovers

UTC = WriteEnvironment(zone=datetime.UTC)
both_layouts = pytest.mark.parametrize("kind", [(9, "merge_on_read", "bucket"), (6, "merge_on_read", "bucket")])


class DiskAway:
    """Fails each change from the completed file on, as a disk does that is gone: the write stays pending."""

    def __init__(self) -> None:
        self.gone = False

    def __call__(self, method: str, path: str) -> None:
        self.gone = self.gone or bool(re.search(r"/[\d_]+\.deltacommit$", path) and method == "create")
        if self.gone:
            raise StorageError("the disk is gone")


def failed_write(lake: Lake) -> str:
    """Leaves a pending write, and returns its instant."""
    lake.storage.before = DiskAway()
    with pytest.raises(StorageError):
        lake.write(SECOND)
    lake.storage.before = lambda method, path: None
    (lake.path / ".hoodie/lock").unlink(missing_ok=True)
    (pending,) = lake.table().timeline().pending
    return pending.requested_time


def rollbacks(lake: Lake) -> list[str]:
    """The completed rollbacks of the timeline."""
    return [item.file_name for item in lake.table().timeline().instants if item.action is Action.ROLLBACK]


@both_layouts
def test_write_of_a_running_process_is_left_alone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    instant = failed_write(lake)
    assert roll_back_failed(lake.table(), LocalStorage(str(lake.path)), UTC, sole_writer=False) == ()
    with pytest.raises(WriteConflict, match=f"the writer of {instant} runs"):
        rollback(str(lake.path), instant)
    with pytest.raises(ConfigurationError, match="'1' is no write of the active timeline"):
        rollback(str(lake.path), "1")
    later = WriteEnvironment(
        zone=datetime.UTC, now=lambda: datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=121)
    )
    assert roll_back_failed(lake.table(), LocalStorage(str(lake.path)), later, sole_writer=False) == (instant,)
    assert leftovers(lake.path) == [] and lake.rows() == sorted(FIRST)


@both_layouts
def test_sole_writer_rolls_back_each_pending_write(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    instant = failed_write(lake)
    (lake.path / f".hoodie/.heartbeat/{instant}").unlink()
    with pytest.raises(WriteConflict, match="pending without a heartbeat"):
        lake.write(SECOND)
    assert lake.rows() == sorted(FIRST)
    lake.write(SECOND, sole_writer=True)
    assert lake.rows() == sorted(upserted(FIRST, SECOND)) and leftovers(lake.path) == []


@both_layouts
def test_two_writers_carry_out_a_plan_at_the_same_time(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """The other one begins before a step of the first, and finishes, for each step: one rollback is on the timeline."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    lock = lake.path / ".hoodie/lock"
    for at in range(1000):
        instant = failed_write(lake)
        before = len(rollbacks(lake))
        calls: list[str] = []

        def other(method: str, path: str, at: int = at, calls: list[str] = calls) -> None:
            if lock.exists():  # the other one waits
                return
            calls.append(path)
            if len(calls) == at + 1:
                roll_back_failed(lake.table(), LocalStorage(str(lake.path)), UTC, sole_writer=True)

        lake.storage.before = other
        roll_back(lake.table(), lake.storage, UTC, instant)
        lake.storage.before = lambda method, path: None
        assert leftovers(lake.path) == [], f"at step {at}"
        assert lake.rows() == sorted(FIRST), f"at step {at}"
        assert len(rollbacks(lake)) == before + 1, f"at step {at}"
        if len(calls) <= at:
            break
    assert at > 5


@both_layouts
@pytest.mark.parametrize("name", ["00000000-0000-4000-8000-000000000000-0_1-0-0_20200101000000000.parquet"])
def test_file_of_another_instant_is_not_removed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, name: str
) -> None:
    """A damaged marker names a file of a completed write."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    instant = failed_write(lake)
    file, marker = lake.path / "oslo" / name, lake.path / ".hoodie/.temp" / instant / "oslo" / f"{name}.marker.CREATE"
    for path in (file, marker):
        path.touch()
    with pytest.raises(CorruptFile, match="which another instant wrote"):
        roll_back(lake.table(), lake.storage, UTC, instant)
    assert file.exists() and rollbacks(lake) == []


def test_markers_are_files_or_lists(tmp_path: pathlib.Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.create(".hoodie/.temp/1/p=1/a_1-0-0_1.parquet.marker.CREATE", b"")
    storage.create(".hoodie/.temp/1/b_1-0-0_1.parquet.marker.MERGE", b"")
    storage.create(".hoodie/.temp/2/MARKERS.type", b"TIMELINE_SERVER_BASED")
    storage.create(".hoodie/.temp/2/MARKERS0", b"p=1/a_1-0-0_2.parquet.marker.CREATE\n")
    storage.create(".hoodie/.temp/2/MARKERS3", b"b_1-0-0_2.parquet.marker.MERGE\n")
    for instant in ("1", "2"):
        found = {(marker.partition, marker.file_name) for marker in markers_of(storage, instant)}
        assert found == {("p=1", f"a_1-0-0_{instant}.parquet"), ("", f"b_1-0-0_{instant}.parquet")}
    assert markers_of(storage, "3") == []
