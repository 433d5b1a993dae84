"""What others change while a transaction runs: which changes it refuses at its end, and which it does not."""

from __future__ import annotations

import datetime
import pathlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.proto.errors import TableError, WriteConflict
from penstock.table.timeline.commit_encoder import encode_commit
from penstock.table.timeline.instants import Action
from penstock.writer.transaction.transaction import WriteEnvironment
from tests.unit.engine.write.recorded_storage import Lake
from tests.unit.writer.transaction.begun_transactions import (
    SECOND,
    Clock,
    begun,
    complete,
    instants,
    metadata_of,
    stat_of,
    write_file,
)


def test_write_of_same_group_between_is_conflict(lake: Lake, environment: WriteEnvironment) -> None:
    with begun(lake, environment) as one:
        with begun(lake, environment) as two:
            complete(two, "g1")
        with pytest.raises(
            WriteConflict, match=f"deltacommit {two.requested_time} .*file group g1 of partition 'oslo'"
        ):
            complete(one, "g1")
    assert not one.is_complete
    timeline = lake.table().timeline()
    assert [item.requested_time for item in timeline.completed_writes] == [two.requested_time]
    assert [item.requested_time for item in timeline.pending] == [one.requested_time]
    assert not (lake.path / ".hoodie/lock").exists()


def test_write_before_start_is_no_conflict(lake: Lake, environment: WriteEnvironment) -> None:
    for _ in range(2):
        with begun(lake, environment) as one:
            complete(one, "g1")
    assert len(lake.table().timeline().completed_writes) == 2


def lost_heartbeat(lake: Lake, clock: Clock, instant: str) -> None:
    lake.storage.remove(f".hoodie/.heartbeat/{instant}")


def expired_heartbeat(lake: Lake, clock: Clock, instant: str) -> None:
    clock.now += 3600 * SECOND


def rolled_back(lake: Lake, clock: Clock, instant: str) -> None:
    for name in instants(lake):
        (lake.timeline_folder / name).unlink()


def upgraded(lake: Lake, clock: Clock, instant: str) -> None:
    file = lake.path / ".hoodie/hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("hoodie.table.checksum")]
    file.write_text("\n".join(lines).replace("hoodie.table.version=9", "hoodie.table.version=8") + "\n")


def other_merge_mode(lake: Lake, clock: Clock, instant: str) -> None:
    file = lake.path / ".hoodie/hoodie.properties"
    file.write_text(file.read_text().replace("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"))


def logs_changes(lake: Lake, clock: Clock, instant: str) -> None:
    file = lake.path / ".hoodie/hoodie.properties"
    file.write_text(file.read_text().replace("hoodie.table.cdc.enabled=false", "hoodie.table.cdc.enabled=true"))


def lost_lock(lake: Lake, clock: Clock, instant: str) -> None:
    """An operator removes the lock after the write took it, before the completed file."""
    clock.on_look = lambda: (lake.path / ".hoodie/lock").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lost_heartbeat, WriteConflict, "another writer rolled back instant"),
        (expired_heartbeat, WriteConflict, "its heartbeat expired"),
        (rolled_back, WriteConflict, "another writer rolled back instant"),
        (upgraded, TableError, "from version 9 to 8"),
        (other_merge_mode, TableError, "merge.mode changed .* from 'EVENT_TIME_ORDERING' to 'COMMIT_TIME_ORDERING'"),
        (logs_changes, TableError, "hoodie.table.cdc.enabled changed during this write, from 'false' to 'true'"),
        (lost_lock, WriteConflict, "lost the table's lock"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_change_of_meantime_is_refused(
    lake: Lake,
    clock: Clock,
    environment: WriteEnvironment,
    change: Callable[[Lake, Clock, str], None],
    error: type[Exception],
    words: str,
) -> None:
    with begun(lake, environment) as one:
        write_file(one)
        change(lake, clock, one.requested_time)
        with pytest.raises(error, match=words) as raised:
            complete(one)
    assert str(lake.path) in str(raised.value) and "nothing was written; write again" in str(raised.value)
    assert not one.is_complete
    assert not [name for name in instants(lake) if name.endswith(".deltacommit")]
    assert not (lake.path / ".hoodie/lock").exists()


@pytest.mark.parametrize(("layout", "pending"), [(1, True), (1, False), (2, False)])
def test_compaction_that_completes_during_a_write_of_logs(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, layout: int, pending: bool
) -> None:
    """On layout 1 a log is named by the slice of a compaction that was pending; of a later one it is in the old slice,
    and lost."""
    lake = Lake(tmp_path / "old", (9 if layout == 2 else 6, "merge_on_read", "bucket"), monkeypatch)
    environment = WriteEnvironment(zone=datetime.UTC, now=Clock(lake))
    compaction = begun_compaction(lake) if pending else ""
    with begun(lake, environment) as one:
        write_file(one)
        compaction = compaction or begun_compaction(lake, int(one.requested_time) + 1)
        metadata = replace(metadata_of(stat_of(one, "g1")), requested_time=compaction, compacted=True)
        name = f"{compaction}_{int(compaction) + 2}.commit" if layout == 2 else f"{compaction}.commit"
        (lake.timeline_folder / name).write_bytes(encode_commit(metadata, Action.COMMIT, layout))
        if layout == 2 or pending:
            complete(one)
        else:
            with pytest.raises(WriteConflict, match=f"commit {compaction} of another writer changes file group g1"):
                complete(one)


def begun_compaction(lake: Lake, instant: int = 20200101000000000) -> str:
    for state in ("requested", "inflight"):
        (lake.timeline_folder / f"{instant}.compaction.{state}").write_bytes(b"")
    return str(instant)


def test_heartbeat_below_two_minutes_is_alive(lake: Lake, clock: Clock, environment: WriteEnvironment) -> None:
    with begun(lake, environment) as one:
        clock.now += 60 * SECOND
        complete(one)
    assert one.is_complete
