"""Files of attempts at tasks: markers first, none after the instant has taken its files or was rolled back, superfluous
ones removed."""

from __future__ import annotations

import datetime
import pathlib
from collections.abc import Callable, Iterator, Sequence

import pytest

from penstock.proto.errors import StorageError, WriteConflict
from penstock.table.files.markers import IoType, marker_folder
from penstock.table.storage.local_writes import LocalStorage
from penstock.table.timeline.instants import Action, Instant, State
from penstock.table.timeline.services.rollback_encoder import RollbackRequest
from penstock.writer.transaction.attempt_files import (
    AttemptFiles,
    open_for_attempts,
    remove_unreported_files,
)
from penstock.writer.transaction.failed_writes import finish_rollback, plan_rollback, remove_traces_of_ended, roll_back
from penstock.writer.transaction.heartbeat import heartbeat_path
from penstock.writer.transaction.markers import attempt_folder, markers_of
from penstock.writer.transaction.rollback_requests import late_requests, requests_by_markers
from penstock.writer.transaction.transaction import Transaction, WriteEnvironment, inflight_name, transaction
from tests.unit.engine.write.killed_storage import as_other_process
from tests.unit.engine.write.recorded_storage import Lake
from tests.unit.engine.write.test_kills import leftovers

UTC = WriteEnvironment(zone=datetime.UTC)
LATER = datetime.timedelta(seconds=121)
"""After which a heartbeat has expired."""


@pytest.fixture(params=[(9, "merge_on_read", "bucket"), (6, "copy_on_write", "simple")], ids=["layout 2", "layout 1"])
def lake(request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake(tmp_path / "t", request.param, monkeypatch)


@pytest.fixture
def begun(lake: Lake) -> Iterator[Transaction]:
    """A write whose driver runs."""
    action = Action.DELTA_COMMIT if lake.table().properties.is_merge_on_read else Action.COMMIT
    with transaction(lake.table(), LocalStorage(str(lake.path)), UTC, action) as one:
        yield one


def attempts(lake: Lake, begun: Transaction) -> AttemptFiles:
    """The files of an attempt in another process."""
    return AttemptFiles(lake.table(), lake.storage, begun.requested_time)


def name(begun: Transaction, attempt: int) -> str:
    return f"00000000-aaaa-4000-8000-000000000000-0_1-7-{attempt}_{begun.requested_time}.parquet"


def write_file(lake: Lake, begun: Transaction, attempt: int = 0, content: bytes = b"rows") -> str:
    with attempts(lake, begun).data_file("oslo", name(begun, attempt), IoType.CREATE) as file:
        file.write(content)
        markers = markers_of(lake.storage, begun.requested_time)
        assert name(begun, attempt) in {marker.file_name for marker in markers}, "the marker is first"
    return f"oslo/{name(begun, attempt)}"


def base_files(lake: Lake) -> list[str]:
    return sorted(file.name for file in (lake.path / "oslo").glob("*.parquet"))


def planned_by_hudi(lake: Lake, begun: Transaction) -> Instant:
    """The plan of a rollback. Hudi closes no folder of attempts."""
    table = lake.table()
    (pending,) = table.timeline().pending
    return plan_rollback(table, LocalStorage(str(lake.path)), UTC, table.timeline(), pending, ())


def test_file_has_a_marker_and_a_partition(lake: Lake, begun: Transaction) -> None:
    with open_for_attempts(lake.storage, begun.requested_time):
        path = write_file(lake, begun)
    assert (lake.path / path).read_bytes() == b"rows"
    assert (lake.path / "oslo/.hoodie_partition_metadata").exists()
    (request,) = requests_by_markers(lake.table(), lake.storage, begun.requested_time)
    assert request.file_names == (name(begun, 0),), "a rollback removes it"


def test_attempt_that_ends_after_the_job_writes_nothing(lake: Lake, begun: Transaction) -> None:
    """As a speculative attempt may, after the driver has completed the instant."""
    with open_for_attempts(lake.storage, begun.requested_time):
        late = attempts(lake, begun).data_file("oslo", name(begun, 1), IoType.CREATE)
        late.__enter__().write(b"rows")
        path = write_file(lake, begun)
    with pytest.raises(WriteConflict, match=f"instant {begun.requested_time} has completed, .*: file oslo/"):
        late.__exit__(None, None, None)
    with pytest.raises(WriteConflict):
        write_file(lake, begun, 2)
    assert base_files(lake) == [path.removeprefix("oslo/")]


class LinksLate(LocalStorage):
    """Files of which something happens to the table immediately before, or after, a staged file appears."""

    def __init__(self, lake: Lake, happens: Callable[[], object], *, after: bool) -> None:
        super().__init__(str(lake.path))
        self.happens, self.after = happens, after
        self.appeared: list[bool] = []

    def _link(self, staged: pathlib.Path, target: pathlib.Path) -> None:
        if not self.after:
            self.happens()
        super()._link(staged, target)
        self.appeared.append(target.exists())
        if self.after:
            self.happens()


@pytest.mark.parametrize("after", [False, True], ids=["before the file appears", "after it"])
@pytest.mark.parametrize("rolls_back", ["roll_back", "finish_rollback"])
def test_no_file_appears_after_a_rollback_has_listed_what_it_removes(
    lake: Lake, begun: Transaction, rolls_back: str, after: bool
) -> None:
    """Another process takes the driver for dead. It plans while the attempt runs; the attempt looked at the timeline
    before. So no folder may be open that it can use."""
    lake.storage.make_folder(attempt_folder(begun.requested_time))
    others = LocalStorage(str(lake.path))
    open_before = begun.requested_time

    def roll() -> None:
        if rolls_back == "roll_back":
            roll_back(lake.table(), others, UTC, open_before)
        else:
            finish_rollback(lake.table(), others, UTC, planned_by_hudi(lake, begun))

    storage = LinksLate(lake, roll, after=after)
    files = AttemptFiles(lake.table(), storage, begun.requested_time)
    with (
        pytest.raises(WriteConflict, match="was rolled back"),
        files.data_file("oslo", name(begun, 0), IoType.CREATE) as file,
    ):
        file.write(b"rows")
    assert storage.appeared == ([True] if after else []), "the folder was closed before the plan"
    assert base_files(lake) == [] and leftovers(lake.path) == []


def test_rollback_removes_files_that_appeared_after_its_plan(lake: Lake, begun: Transaction) -> None:
    """Hudi listed the files before, and the attempt was killed before it looked at the timeline again."""
    lake.storage.make_folder(attempt_folder(begun.requested_time))
    write_file(lake, begun)
    done = finish_rollback(lake.table(), LocalStorage(str(lake.path)), UTC, planned_by_hudi(lake, begun))
    assert [partition.deleted for partition in done.partitions] == [(name(begun, 0),)]
    assert base_files(lake) == [] and leftovers(lake.path) == []


def test_late_files_are_those_that_no_request_names() -> None:
    def request(file_id: str, names: Sequence[str] = (), logs: Sequence[str] = ()) -> RollbackRequest:
        sizes = dict.fromkeys(logs, 1)
        return RollbackRequest(partition="oslo", file_id=file_id, file_names=tuple(names), logs=sizes)

    planned = [request("", ["a", "b"]), request("f", logs=["other name"])]
    marked = [request("e", ["a"]), request("f", ["b", "c"], ["log"]), request("g", ["d"], ["log of g"])]
    assert late_requests(planned, marked) == [request("f", ["c"]), request("g", ["d"], ["log of g"])]
    assert late_requests(marked, marked) == []


def test_folder_is_closed_before_the_traces_of_an_ended_instant_go(
    lake: Lake, begun: Transaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A removal file by file could leave the file of an attempt that is about to appear."""
    lake.storage.make_folder(attempt_folder(begun.requested_time))
    late = attempts(lake, begun).data_file("oslo", name(begun, 0), IoType.CREATE)
    late.__enter__().write(b"rows")
    removals: list[str] = []
    remove = LocalStorage.remove_folder

    def removed(storage: LocalStorage, path: str) -> None:
        removals.append(path)
        remove(storage, path)

    for state in (State.REQUESTED, State.INFLIGHT):
        _timeline_file(lake, begun, state).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "remove_folder", removed)
        remove_traces_of_ended(lake.table(), LocalStorage(str(lake.path)), UTC)
    assert [path for path in removals if path == attempt_folder(begun.requested_time)] == [], "it was renamed first"
    assert any(path.startswith(f"{attempt_folder(begun.requested_time)}.") for path in removals)
    with pytest.raises((WriteConflict, StorageError)):
        late.__exit__(None, None, None)
    assert base_files(lake) == []


def _timeline_file(lake: Lake, begun: Transaction, state: State) -> pathlib.Path:
    inflight = inflight_name(begun.requested_time, begun.action, lake.table())
    if state is State.INFLIGHT:
        return lake.timeline_folder / inflight
    return lake.timeline_folder / f"{begun.requested_time}.{begun.action}.requested"


def test_attempt_sees_the_end_of_its_instant_that_closes_no_folder(lake: Lake, begun: Transaction) -> None:
    """Hudi's rollback. The file is there for a moment, and has its marker; then the attempt removes it."""
    lake.storage.make_folder(attempt_folder(begun.requested_time))
    expired = AttemptFiles(
        lake.table(), lake.storage, begun.requested_time, lambda: datetime.datetime.now(datetime.UTC) + LATER
    )
    inflight, away = _timeline_file(lake, begun, State.INFLIGHT), lake.path / "away"
    ends: dict[str, Callable[[], object]] = {
        "the inflight file is gone": lambda: inflight.rename(away),
        "a rollback is planned": lambda: planned_by_hudi(lake, begun),
    }
    for number, (case, end) in enumerate(ends.items()):
        storage = LinksLate(lake, end, after=True)
        files = AttemptFiles(lake.table(), storage, begun.requested_time)
        with (
            pytest.raises(WriteConflict, match="has completed, was rolled back"),
            files.data_file("oslo", name(begun, number), IoType.CREATE) as file,
        ):
            file.write(b"rows")
        assert storage.appeared == [True] and base_files(lake) == [], case
        with pytest.raises(WriteConflict, match="has completed, was rolled back"):
            write_file(lake, begun, 7)
        assert base_files(lake) == [], f"{case}: seen before the file appears too"
        if number == 0:
            away.rename(inflight)
            assert write_file(lake, begun, 8) and lake.storage.remove(f"oslo/{name(begun, 8)}"), "the control"
    for file in lake.timeline_folder.glob("*.rollback.requested"):
        file.unlink()
    with (
        pytest.raises(WriteConflict, match="because its heartbeat expired"),
        expired.data_file("oslo", name(begun, 9), IoType.CREATE),
    ):
        pass
    assert base_files(lake) == []


def test_error_of_the_rows_is_no_closed_instant(lake: Lake, begun: Transaction) -> None:
    with (
        open_for_attempts(lake.storage, begun.requested_time),
        pytest.raises(FileNotFoundError, match="a base file"),
        attempts(lake, begun).data_file("oslo", name(begun, 0), IoType.CREATE),
    ):
        raise FileNotFoundError("a base file")


def test_executor_with_another_folder_says_so(lake: Lake, begun: Transaction, tmp_path: pathlib.Path) -> None:
    """It has no table there, or one that the driver does not write."""
    elsewhere = AttemptFiles(lake.table(), LocalStorage(str(tmp_path)), begun.requested_time)
    with (
        pytest.raises(StorageError, match=r"no such table: .* a file system that all executors share"),
        elsewhere.data_file("oslo", name(begun, 0), IoType.CREATE),
    ):
        pass
    later = name(begun, 0).replace(begun.requested_time, "29990101000000000")
    other = AttemptFiles(lake.table(), lake.storage, "29990101000000000")
    with (
        pytest.raises(StorageError, match=r"the newest instant is \d+, and the driver has begun 2999.*: it is another"),
        other.data_file("oslo", later, IoType.CREATE),
    ):
        pass


def test_only_reported_files_stay(lake: Lake, begun: Transaction) -> None:
    with open_for_attempts(lake.storage, begun.requested_time):
        paths = [write_file(lake, begun, attempt) for attempt in range(3)]
    assert remove_unreported_files(lake.storage, begun.requested_time, [(paths[1], 4)]) == 2
    assert base_files(lake) == [name(begun, 1)]
    assert remove_unreported_files(lake.storage, begun.requested_time, [(paths[1], 4)]) == 0


@pytest.mark.parametrize(("size", "got"), [(4, "there is none"), (5, "it has 4")])
def test_reported_file_that_is_not_there_ends_the_write(lake: Lake, begun: Transaction, size: int, got: str) -> None:
    with open_for_attempts(lake.storage, begun.requested_time):
        path = write_file(lake, begun)
    if size == 4:
        lake.storage.remove(path)
    with pytest.raises(StorageError, match=f"reported file oslo/.* of {size} bytes, and {got}: nothing was written"):
        remove_unreported_files(lake.storage, begun.requested_time, [(path, size)])


def test_attempt_whose_markers_are_gone_writes_nothing(lake: Lake, begun: Transaction) -> None:
    lake.storage.make_folder(attempt_folder(begun.requested_time))
    late = attempts(lake, begun).data_file("oslo", name(begun, 0), IoType.CREATE)
    late.__enter__().write(b"rows")
    lake.storage.remove_folder(marker_folder(begun.requested_time))
    with pytest.raises(WriteConflict, match="was rolled back"):
        late.__exit__(None, None, None)
    assert base_files(lake) == []


def test_folder_of_attempts_is_a_trace_that_the_next_writer_removes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not among the markers, where Hudi would pass over all of them."""
    with monkeypatch.context() as patch:
        as_other_process(patch)
        with transaction(lake.table(), LocalStorage(str(lake.path)), UTC, Action.COMMIT) as killed:
            instant = killed.requested_time
    assert not attempt_folder(instant).startswith(marker_folder(instant))
    assert lake.storage.file_info(heartbeat_path(instant)) is not None
    lake.storage.create(f"{attempt_folder(instant)}/x.12ab.tmp", b"half")
    lake.storage.create(f"{attempt_folder('20200101000000000')}.ab12.tmp/x", b"half")  # a closed one
    lake.write([("a", 1, "oslo")])
    assert not list((lake.path / attempt_folder(instant)).parent.iterdir())
