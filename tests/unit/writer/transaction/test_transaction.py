"""A transaction: the order of its steps, its times, its refusals, and what an error at each step leaves."""

from __future__ import annotations

import contextlib
import datetime
import pathlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from penstock.proto.errors import StorageError, TableError, WriteConflict
from penstock.proto.model.writes import TouchedGroups
from penstock.table.files.markers import IoType
from penstock.table.files.names import base_file_name
from penstock.table.storage.local_writes import LocalStorage
from penstock.table.timeline.commit_encoder import encode_commit
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Action
from penstock.writer.transaction.marked_files import joined
from penstock.writer.transaction.transaction import (
    Transaction,
    WriteEnvironment,
    metadata_action,
    transaction,
)
from tests.unit.engine.write.recorded_storage import Kind, Lake

SECOND = datetime.timedelta(seconds=1)
both_layouts = pytest.mark.parametrize("kind", [(9, "merge_on_read", "bucket"), (6, "merge_on_read", "bucket")])


@dataclass
class Clock:
    """A wall clock that each test moves, and whether the table was locked at each look at it."""

    lake: Lake
    now: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    locked: list[bool] = field(default_factory=list)
    on_look: Callable[[], None] = lambda: None

    def __call__(self) -> datetime.datetime:
        self.locked.append((self.lake.path / ".hoodie/lock").exists())
        self.on_look()
        return self.now

    @property
    def text(self) -> str:
        return self.now.strftime("%Y%m%d%H%M%S%f")[:17]


@pytest.fixture
def kind() -> Kind:
    return 9, "merge_on_read", "bucket"


@pytest.fixture
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> Lake:
    return Lake(tmp_path / "t", kind, monkeypatch)


@pytest.fixture
def clock(lake: Lake) -> Clock:
    return Clock(lake)


@pytest.fixture
def environment(clock: Clock) -> WriteEnvironment:
    return WriteEnvironment(zone=datetime.UTC, now=clock)


def begun(lake: Lake, environment: WriteEnvironment) -> contextlib.AbstractContextManager[Transaction]:
    return transaction(lake.table(), lake.storage, environment, Action.DELTA_COMMIT)


def file_name(one: Transaction, group: str = "g1") -> str:
    return base_file_name(f"{group}-0", "1-0-0", one.requested_time)


def write_file(one: Transaction, group: str = "g1", partition: str = "oslo") -> None:
    with one.data_file(partition, file_name(one, group), IoType.CREATE) as file:
        file.write(b"rows")


def stat_of(one: Transaction, group: str, partition: str = "oslo") -> WriteStat:
    return WriteStat(
        partition=partition,
        file_id=group,
        path=f"{partition}/{file_name(one, group)}",
        num_writes=1,
        num_deletes=0,
        num_inserts=1,
        num_update_writes=0,
        file_size_bytes=4,
        base_file="",
        log_files=(),
        prev_commit="1",
    )


def metadata_of(stat: WriteStat, instant: str = "") -> CommitMetadata:
    return CommitMetadata(
        requested_time=instant,
        operation="UPSERT",
        compacted=False,
        schema_json="",
        extra={},
        stats=(stat,),
        replaced=(),
    )


def complete(one: Transaction, group: str = "g1", partition: str = "oslo") -> str:
    metadata = metadata_of(stat_of(one, group, partition), one.requested_time)
    touched = TouchedGroups(groups=frozenset({(partition, group)}))
    return one.complete(metadata, touched, by_bucket=False, writes_base_files=False)


def instants(lake: Lake) -> list[str]:
    """The files of the active timeline."""
    return sorted(path.name for path in lake.timeline_folder.iterdir() if path.is_file() and path.name[0].isdigit())


def heartbeats(lake: Lake) -> list[str]:
    folder = lake.path / ".hoodie/.heartbeat"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def fails(method: str, pattern: str) -> Callable[[str, str], None]:
    """A disk that fails these calls."""

    def before(called: str, path: str) -> None:
        if called == method and re.search(pattern, path):
            raise StorageError(f"no space for {path}")

    return before


@both_layouts
def test_steps_are_in_order_of_hudi(lake: Lake, environment: WriteEnvironment, kind: Kind) -> None:
    with begun(lake, environment) as one:
        write_file(one)
        write_file(one, "g2")
        completion = complete(one)
    time, lock = one.requested_time, ".hoodie/lock"
    first, second = file_name(one), file_name(one, "g2")
    timeline, temporary = lake.timeline_folder.relative_to(lake.path).as_posix(), f".hoodie/.temp/{time}"
    done = f"{time}_{completion}.deltacommit" if lake.layout == 2 else f"{time}.deltacommit"
    assert lake.storage.calls == [
        ("create", lock),
        ("replace", f".hoodie/.heartbeat/{time}"),
        ("create", f"{timeline}/{time}.deltacommit.requested"),
        ("remove", lock),
        ("create", f"{timeline}/{time}.deltacommit.inflight"),
        ("create", "oslo/.hoodie_partition_metadata"),
        ("create", f"{temporary}/oslo/{first}.marker.CREATE"),
        ("new_file", f"oslo/{first}"),
        ("create", f"{temporary}/oslo/{second}.marker.CREATE"),
        ("new_file", f"oslo/{second}"),
        ("create", lock),
        ("create", f"{timeline}/{done}"),
        ("remove", lock),
        ("remove_folder", temporary),
        ("remove", f".hoodie/.heartbeat/{time}"),
    ]
    assert one.is_complete and heartbeats(lake) == [] and not (lake.path / temporary).exists()
    assert [item.file_name for item in lake.table().timeline().completed_writes] == [done]


@both_layouts
def test_times_are_those_under_lock(lake: Lake, clock: Clock, environment: WriteEnvironment, kind: Kind) -> None:
    requested = clock.text
    with begun(lake, environment) as one:
        assert clock.locked == [True]
        clock.now += 5 * SECOND
        completion = complete(one)
    assert all(clock.locked) and len(clock.locked) >= 2
    assert one.requested_time == requested
    assert completion == (clock.text if lake.layout == 2 else requested)


def test_completion_is_later_than_that_of_write_between(
    lake: Lake, clock: Clock, environment: WriteEnvironment
) -> None:
    """The clock stands still: times grow by a millisecond, in the order in which the lock was taken."""
    with begun(lake, environment) as one:
        with begun(lake, environment) as two:
            second = complete(two, "g2")
        first = complete(one, "g1")
    assert one.requested_time < two.requested_time < second < first
    assert int(first) - int(one.requested_time) == 3


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


@both_layouts
@pytest.mark.parametrize("step", [("replace", "heartbeat"), ("create", "requested$"), ("create", "inflight$")])
def test_write_that_cannot_begin_leaves_nothing(
    lake: Lake, environment: WriteEnvironment, kind: Kind, step: tuple[str, str]
) -> None:
    lake.storage.before = fails(*step)
    with pytest.raises(StorageError, match="no space"), begun(lake, environment):
        raise AssertionError("the write has begun")
    assert instants(lake) == [] and heartbeats(lake) == [] and not (lake.path / ".hoodie/lock").exists()


def test_first_error_is_raised_if_its_files_cannot_be_removed(lake: Lake, environment: WriteEnvironment) -> None:
    def before(method: str, path: str) -> None:
        if path.endswith("inflight") or (method == "remove" and "timeline" in path):
            raise StorageError(f"{method} fails")

    lake.storage.before = before
    with pytest.raises(StorageError, match="create fails"), begun(lake, environment):
        raise AssertionError("the write has begun")
    assert [name.rpartition(".")[2] for name in instants(lake)] == ["requested"], "which the next writer rolls back"


def test_error_of_block_leaves_instant_for_rollback(lake: Lake, environment: WriteEnvironment) -> None:
    with pytest.raises(RuntimeError, match="disk"), begun(lake, environment) as one:
        write_file(one)
        raise RuntimeError("disk")
    time = one.requested_time
    assert instants(lake) == [f"{time}.deltacommit.inflight", f"{time}.deltacommit.requested"]
    assert heartbeats(lake) == [time]
    assert (lake.path / f".hoodie/.temp/{time}/oslo/{file_name(one)}.marker.CREATE").exists()
    assert not one.is_complete and not (lake.path / ".hoodie/lock").exists()


def test_completed_file_that_cannot_be_created_leaves_write_pending(lake: Lake, environment: WriteEnvironment) -> None:
    with begun(lake, environment) as one:
        write_file(one)
        lake.storage.before = fails("create", r"_\d+\.deltacommit$")
        with pytest.raises(StorageError, match="no space"):
            complete(one)
    assert not one.is_complete and heartbeats(lake) == [one.requested_time]
    assert [item.requested_time for item in lake.table().timeline().pending] == [one.requested_time]


def test_error_after_completed_file_is_visible_is_none(
    lake: Lake, environment: WriteEnvironment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create = LocalStorage.create

    def created_then_failed(storage: LocalStorage, path: str, data: bytes) -> None:
        create(storage, path, data)
        if path.endswith(".deltacommit"):
            raise StorageError("the folder was not synced")

    with begun(lake, environment) as one:
        monkeypatch.setattr(LocalStorage, "create", created_then_failed)
        complete(one)
    assert one.is_complete and len(lake.table().timeline().completed_writes) == 1
    assert "is complete, and may not be on the disk yet" in caplog.text


@pytest.mark.parametrize("step", [("remove_folder", "temp"), ("remove", "heartbeat")])
def test_traces_that_stay_do_not_fail_complete_write(
    lake: Lake, environment: WriteEnvironment, caplog: pytest.LogCaptureFixture, step: tuple[str, str]
) -> None:
    with begun(lake, environment) as one:
        lake.storage.before = fails(*step)
        complete(one)
    assert one.is_complete and heartbeats(lake) == [one.requested_time]
    assert f"markers of instant {one.requested_time} stay" in caplog.text


def test_file_that_exists_is_not_written_over(lake: Lake, environment: WriteEnvironment) -> None:
    with begun(lake, environment) as one:
        write_file(one)
        with pytest.raises(FileExistsError), one.data_file("oslo", file_name(one), IoType.MERGE) as file:
            file.write(b"other")
    assert (lake.path / "oslo" / file_name(one)).read_bytes() == b"rows"
    assert lake.storage.paths("create").count("oslo/.hoodie_partition_metadata") == 1


def test_removed_markers_are_restored(lake: Lake, environment: WriteEnvironment) -> None:
    with begun(lake, environment) as one:
        write_file(one, "g1")
        write_file(one, "g2", "")
        folder = f".hoodie/.temp/{one.requested_time}"
        lake.storage.remove(f"{folder}/oslo/{file_name(one)}.marker.CREATE")
        one.restore_markers()
    markers = sorted(path.relative_to(lake.path / folder).as_posix() for path in (lake.path / folder).rglob("*.CREATE"))
    assert markers == [f"{file_name(one, 'g2')}.marker.CREATE", f"oslo/{file_name(one)}.marker.CREATE"]


def test_write_waits_for_lock_as_long_as_its_environment_says(lake: Lake, clock: Clock) -> None:
    lake.storage.create(".hoodie/lock", b"")
    seconds = [0.0]

    def sleep(pause: float) -> None:
        seconds[0] += pause

    patient = WriteEnvironment(
        zone=datetime.UTC, now=clock, monotonic=lambda: seconds[0], sleep=sleep, lock_timeout_s=7
    )
    with pytest.raises(WriteConflict, match="for 7 s"), begun(lake, patient):
        raise AssertionError("the write has begun")
    assert 7 <= seconds[0] < 8
    assert instants(lake) == [] and heartbeats(lake) == [] and clock.locked == []


def test_pure_names() -> None:
    assert (joined("", "f"), joined("p/q", "f")) == ("f", "p/q/f")
    actions = (Action.COMPACTION, Action.CLUSTERING, Action.DELTA_COMMIT, Action.REPLACE_COMMIT)
    assert [str(metadata_action(action)) for action in actions] == [
        "commit",
        "replacecommit",
        "deltacommit",
        "replacecommit",
    ]
