"""How far a stream may advance: cap, pinned target, rest while idle, patience. Time is a number here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.engine.spark.progress import IDLE_S, PATIENCE_S, StreamProgress, with_patience
from penstock.proto.errors import StorageError, TableNotFound
from penstock.proto.positions import EARLIEST, InstantTime, Position


class Clock:
    """Seconds that pass only when told to, or paused."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds


class Commits:
    """A scripted table: commits complete when the test says so; each call is counted."""

    def __init__(self, commits: int) -> None:
        self.commits = commits
        self.calls = 0
        self.failures: list[Exception] = []

    def newest(self, after: Position | None, max_commits: int) -> Position:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        done = 0 if after in (None, EARLIEST) else int(after.order_key)
        top = max(done, self.commits)
        return at(min(top, done + max_commits) if max_commits else top)


def at(commit: int) -> Position:
    return EARLIEST if commit == 0 else Position(InstantTime(f"{commit:03}"))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def progress(table: Commits, clock: Clock) -> StreamProgress:
    return StreamProgress(table.newest, clock, clock.pause)


def run(stream: StreamProgress, start: Position, cap: int) -> list[Position]:
    """The ends of micro-batches until nothing is new."""
    ends = []
    while (end := stream.advance(start, cap)) != start:
        ends.append(end)
        start = end
    return ends


def test_a_cap_of_one_takes_one_commit_at_a_time(clock: Clock) -> None:
    assert run(progress(Commits(4), clock), EARLIEST, 1) == [at(1), at(2), at(3), at(4)]


def test_no_cap_takes_all(clock: Clock) -> None:
    assert run(progress(Commits(4), clock), EARLIEST, 0) == [at(4)]


def test_nothing_new_gives_the_start_itself(clock: Clock) -> None:
    start = at(4)
    assert progress(Commits(4), clock).advance(start, 1) is start


def test_an_idle_table_is_looked_at_five_times_a_second(clock: Clock) -> None:
    table = Commits(2)
    stream = progress(table, clock)
    for _ in range(650):
        assert stream.advance(at(2), 1) == at(2)
        clock.now_s += 1 / 65
    assert 40 <= table.calls <= 10 / IDLE_S + 1


def test_a_commit_is_seen_when_the_rest_is_over(clock: Clock) -> None:
    table = Commits(2)
    stream = progress(table, clock)
    assert stream.advance(at(2), 1) == at(2)
    table.commits = 3
    assert stream.advance(at(2), 1) == at(2)
    clock.now_s += IDLE_S
    assert stream.advance(at(2), 1) == at(3)


def test_no_rest_while_there_is_work(clock: Clock) -> None:
    table = Commits(100)
    assert len(run(progress(table, clock), EARLIEST, 1)) == 100
    assert table.calls == 101


def test_a_pinned_run_ends_at_its_target(clock: Clock) -> None:
    table = Commits(3)
    stream = progress(table, clock)
    stream.pin()
    table.commits = 7
    assert run(stream, EARLIEST, 2) == [at(2), at(3)]
    assert stream.advance(at(3), 0) == at(3)


def test_a_pinned_run_that_starts_behind_its_target_does_nothing(clock: Clock) -> None:
    stream = progress(Commits(3), clock)
    stream.pin()
    assert stream.advance(at(5), 1) == at(5)


@pytest.mark.parametrize("call", [lambda s: s.pin(), lambda s: s.advance(EARLIEST, 1)])
def test_storage_that_fails_a_while_is_waited_for(clock: Clock, call: Callable[[StreamProgress], object]) -> None:
    table = Commits(1)
    table.failures = [StorageError("away")] * 8
    call(progress(table, clock))
    assert table.calls == 9
    assert clock.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_patience_has_an_end(clock: Clock) -> None:
    calls = []

    def away() -> None:
        calls.append(clock())
        raise StorageError("away")

    with pytest.raises(StorageError):
        with_patience(away, clock, clock.pause)
    assert PATIENCE_S - 10 <= calls[-1] - calls[0] <= PATIENCE_S


def test_another_error_is_not_retried(clock: Clock) -> None:
    table = Commits(1)
    table.failures = [TableNotFound("gone")]
    with pytest.raises(TableNotFound):
        progress(table, clock).advance(EARLIEST, 1)
    assert clock.pauses == []
