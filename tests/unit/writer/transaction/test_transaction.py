"""A transaction: the order of its steps, its times, its lock and markers, and what an error at each step leaves."""

from __future__ import annotations

import datetime

import pytest

from penstock.proto.errors import StorageError, WriteConflict
from penstock.table.files.markers import IoType
from penstock.table.storage.local_writes import LocalStorage
from penstock.table.timeline.instants import Action
from penstock.writer.transaction.marked_files import joined
from penstock.writer.transaction.transaction import WriteEnvironment, metadata_action
from tests.unit.engine.write.recorded_storage import Kind, Lake
from tests.unit.writer.transaction.begun_transactions import (
    SECOND,
    Clock,
    begun,
    complete,
    fails,
    file_name,
    heartbeats,
    instants,
    write_file,
)

both_layouts = pytest.mark.parametrize("kind", [(9, "merge_on_read", "bucket"), (6, "merge_on_read", "bucket")])


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
