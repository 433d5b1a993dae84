"""Progress of a stream: limits, pinned target, pauses while idle, idle timeout. The clock is fake."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.engine.spark.stream.progress import IDLE_S, REST_S, StreamProgress
from penstock.proto.model.hybrid import KafkaPlace, PartitionPlace, Phase
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, RoundLimits
from penstock.proto.model.streams import (
    END_OF_TIME_US,
    CommitsBatch,
    NextBatch,
    NoBatch,
    Progress,
    StreamPoint,
    Watermark,
)

ONE = RoundLimits(max_commits=1)
TWO = RoundLimits(max_commits=2)


class Clock:
    """A clock that advances only in pauses or by assignment."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds


class Commits:
    """A scripted table: the test completes commits, and calls are counted."""

    def __init__(self, commits: int) -> None:
        self.commits = commits
        self.calls = 0

    def next_batch(self, point: StreamPoint, limits: RoundLimits, target: Position | None) -> NextBatch:
        self.calls += 1
        done = number(point)
        top = self.commits if target is None else min(self.commits, int(target.order_key))
        end = min(top, done + limits.max_commits) if limits.max_commits else top
        if end <= done:
            return NextBatch(point=point)
        reached = replace(at(end), content=CommitsBatch(point.progress.position), watermark=point.watermark)
        return NextBatch(point=reached, schema_json="{}")

    def newest(self) -> Position:
        self.calls += 1
        return at(self.commits).progress.position


def at(commit: int) -> StreamPoint:
    return StreamPoint(progress=Progress(EARLIEST if commit == 0 else Position(InstantTime(f"{commit:03}"))))


def number(point: StreamPoint) -> int:
    return 0 if point.progress.position == EARLIEST else int(point.progress.position.order_key)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def progress(table: Commits, clock: Clock, idle_timeout_us: int | None = None) -> StreamProgress:
    return StreamProgress(table.next_batch, clock, clock.pause, idle_timeout_us)


def run(stream: StreamProgress, start: StreamPoint, limits: RoundLimits) -> list[int]:
    """The ends of micro-batches until no commit is new."""
    ends = []
    while (end := stream.advance(start, limits).point) != start:
        ends.append(number(end))
        start = end
    return ends


def test_limit_of_one_commit_reads_one_commit_at_a_time(clock: Clock) -> None:
    assert run(progress(Commits(4), clock), at(0), ONE) == [1, 2, 3, 4]


def test_no_limit_reads_all_commits(clock: Clock) -> None:
    assert run(progress(Commits(4), clock), at(0), NO_LIMITS) == [4]


def test_no_new_commits_return_the_start_offset(clock: Clock) -> None:
    start = at(4)
    assert progress(Commits(4), clock).advance(start, ONE).point is start


def test_idle_table_is_probed_five_times_a_second(clock: Clock) -> None:
    """Spark, which polls in a loop, waits in these calls."""
    table, calls = Commits(2), 0
    stream = progress(table, clock)
    while clock.now_s < 1010:
        assert stream.advance(at(2), ONE).point == at(2)
        clock.now_s += 0.001
        calls += 1
    assert 40 <= table.calls <= 10 / IDLE_S + 1
    assert calls == table.calls


@pytest.mark.parametrize("since_s", [0.0, IDLE_S / 2, IDLE_S, 10.0])
def test_commit_before_a_call_is_in_its_answer(clock: Clock, since_s: float) -> None:
    """Spark's `processAllAvailable` returns after a call that has nothing new."""
    table = Commits(2)
    stream = progress(table, clock)
    assert stream.advance(at(2), ONE).point == at(2)
    clock.now_s += since_s
    table.commits = 3
    assert number(stream.advance(at(2), ONE).point) == 3
    assert sum(clock.pauses) == pytest.approx(max(0.0, IDLE_S - since_s))


def test_stream_that_has_ended_rests_although_its_table_changes(clock: Clock) -> None:
    """A change ends the wait for the next read; a stream that has ended reads no more, and would never rest."""
    idle: list[float] = []
    stream = StreamProgress(Commits(2).next_batch, clock, clock.pause, pause_idle=idle.append)
    for _ in range(2):
        stream.advance(at(2), ONE)
    assert (len(idle), clock.pauses) == (1, [])
    stream.advance(replace(at(2), ended=True), ONE)
    assert (len(idle), clock.pauses) == (1, [REST_S])


def test_no_pause_while_commits_are_pending(clock: Clock) -> None:
    table = Commits(100)
    assert len(run(progress(table, clock), at(0), ONE)) == 100
    assert table.calls == 101
    assert clock.pauses == []


def test_pinned_run_ends_at_its_target(clock: Clock) -> None:
    table = Commits(3)
    stream = progress(table, clock)
    stream.pin(table.newest)
    table.commits = 7
    assert run(stream, at(0), TWO) == [2, 3]
    assert stream.advance(at(3), NO_LIMITS).point == at(3)


def test_pinned_run_that_starts_after_its_target_does_nothing(clock: Clock) -> None:
    table = Commits(3)
    stream = progress(table, clock)
    stream.pin(table.newest)
    table.commits = 9
    assert stream.advance(at(5), ONE).point == at(5)


def test_pinned_run_includes_the_snapshot_of_its_start(clock: Clock) -> None:
    """The snapshot is created after Spark has fixed the target, so its position becomes the target."""
    table = Commits(3)
    stream = progress(table, clock)
    stream.pin(table.newest)
    table.commits = 5
    stream.begin(at(4))
    assert run(stream, at(0), NO_LIMITS) == [4]


def test_ended_stream_is_not_probed(clock: Clock) -> None:
    table = Commits(9)
    end = replace(at(3), ended=True)
    assert progress(table, clock).advance(end, ONE).point is end
    assert table.calls == 0


class TestSilence:
    """The watermark of an idle table advances by whole idle timeouts of this process's clock."""

    known = replace(at(2), watermark=Watermark(1_000, 5_000), content=CommitsBatch(EARLIEST))

    def test_each_whole_timeout_counts_once(self, clock: Clock) -> None:
        stream = progress(Commits(2), clock, 10_000_000)
        assert stream.advance(self.known, ONE).point is self.known
        clock.now_s += 9.9
        assert stream.advance(self.known, ONE).point is self.known
        clock.now_s += 15
        moved = stream.advance(self.known, ONE).point
        assert moved == replace(self.known, watermark=Watermark(20_001_000, 5_000), content=NoBatch())
        assert stream.advance(moved, ONE).point == moved
        clock.now_s += 4.9
        assert stream.advance(moved, ONE).point == moved, "the remainder of a timeout counts later"
        clock.now_s += 0.3
        assert stream.advance(moved, ONE).point.watermark.at_us == 30_001_000

    def test_commit_restarts_the_idle_timeout(self, clock: Clock) -> None:
        table = Commits(2)
        stream = progress(table, clock, 10_000_000)
        stream.advance(self.known, ONE)
        clock.now_s += 9
        table.commits = 3
        reached = stream.advance(self.known, ONE).point
        assert (number(reached), reached.watermark.at_us) == (3, 1_000)
        clock.now_s += 9
        assert stream.advance(reached, ONE).point is reached

    def test_held_stream_is_not_idle(self, clock: Clock) -> None:
        """Rows above the watermark wait at the server: an advanced watermark would make Spark drop them."""
        table = Commits(2)
        held = NextBatch(point=self.known, held=True)
        stream = StreamProgress(lambda point, limits, target: held, clock, clock.pause, 10_000_000)
        for _ in range(5):
            assert stream.advance(self.known, ONE).point is self.known
            clock.now_s += 9
        stream = StreamProgress(table.next_batch, clock, clock.pause, 10_000_000)
        stream.advance(self.known, ONE)
        clock.now_s += 10
        assert stream.advance(self.known, ONE).point != self.known, "an idle stream advances"

    def test_time_while_held_does_not_count(self, clock: Clock) -> None:
        answers = [NextBatch(point=self.known, held=True), NextBatch(point=self.known)]
        stream = StreamProgress(lambda point, limits, target: answers.pop(0), clock, clock.pause, 10_000_000)
        clock.now_s += 9
        stream.advance(self.known, ONE)
        clock.now_s += 9
        assert stream.advance(self.known, ONE).point is self.known

    def test_unknown_watermark_stays_unknown(self, clock: Clock) -> None:
        stream = progress(Commits(2), clock, 10_000_000)
        stream.advance(at(2), ONE)
        clock.now_s += 100
        assert stream.advance(at(2), ONE).point == at(2)

    def test_pinned_run_ends(self, clock: Clock) -> None:
        table = Commits(2)
        stream = progress(table, clock, 10_000_000)
        stream.pin(table.newest)
        stream.advance(self.known, ONE)
        clock.now_s += 100
        assert stream.advance(self.known, ONE).point is self.known

    def test_watermark_stops_at_the_largest_timestamp(self, clock: Clock) -> None:
        last = replace(self.known, watermark=Watermark(END_OF_TIME_US - 1, 5_000))
        stream = progress(Commits(2), clock, 10_000_000)
        stream.advance(last, ONE)
        clock.now_s += 100
        moved = stream.advance(last, ONE).point
        assert moved.watermark.at_us == END_OF_TIME_US
        clock.now_s += 100
        assert stream.advance(moved, ONE).point is moved


class TestTopic:
    """A run of a hybrid stream that ends with its topic."""

    def test_run_ends_after_the_batch_with_all_records(self) -> None:
        clock, table = (
            Clock(),
            Topic([at(1), lagging(Phase.SWITCHING, 0), lagging(Phase.KAFKA, 7), lagging(Phase.KAFKA, 0)]),
        )
        progress = StreamProgress(table.next_batch, clock, clock.pause)
        progress.pin_to_topic()
        point = at(0)
        for expected in list(table.steps):
            point = progress.advance(point, NO_LIMITS).point
            assert point == expected
        table.steps = [lagging(Phase.KAFKA, 0, read=9)]
        assert progress.advance(point, NO_LIMITS).point == point
        assert (table.calls, table.targets) == (4, {None})

    def test_topic_at_its_end_is_probed_again_by_the_next_run(self) -> None:
        clock, start, end = Clock(), lagging(Phase.KAFKA, 0), lagging(Phase.KAFKA, 0, read=9)
        progress = StreamProgress(Topic([end]).next_batch, clock, clock.pause)
        progress.pin_to_topic()
        assert progress.advance(start, NO_LIMITS).point == end
        assert progress.advance(end, NO_LIMITS).point == end

    def test_switching_is_not_the_end(self) -> None:
        clock, table = Clock(), Topic([lagging(Phase.SWITCHING, 0), lagging(Phase.KAFKA, 0)])
        progress = StreamProgress(table.next_batch, clock, clock.pause)
        progress.pin_to_topic()
        switching = progress.advance(at(3), NO_LIMITS).point
        assert progress.advance(switching, NO_LIMITS).point == lagging(Phase.KAFKA, 0)

    def test_stream_without_a_hand_over_stays_in_the_table(self) -> None:
        clock, table = Clock(), Topic([])
        progress = StreamProgress(table.next_batch, clock, clock.pause, idle_timeout_us=1)
        progress.pin_to_topic()
        start = replace(at(3), watermark=Watermark(5, 5))
        clock.now_s += 100
        assert progress.advance(start, NO_LIMITS).point == start

    def test_without_an_end_the_stream_goes_on(self) -> None:
        clock, steps = Clock(), [lagging(Phase.KAFKA, 0), lagging(Phase.KAFKA, 0, read=9)]
        progress = StreamProgress(Topic(steps).next_batch, clock, clock.pause)
        first = progress.advance(at(3), NO_LIMITS).point
        assert progress.advance(first, NO_LIMITS).point == steps[1]

    def test_smaller_batch_may_be_the_last_one(self) -> None:
        clock, table = Clock(), Topic([lagging(Phase.KAFKA, 0)])
        progress = StreamProgress(table.next_batch, clock, clock.pause)
        progress.pin_to_topic()
        point = progress.within_target(at(3), ONE).point
        assert progress.advance(point, NO_LIMITS).point == point
        assert table.calls == 1


class Topic:
    """A scripted stream: each call returns the next step, until no step is left."""

    def __init__(self, steps: list[StreamPoint]) -> None:
        self.steps = steps
        self.calls = 0
        self.targets: set[Position | None] = set()

    def next_batch(self, point: StreamPoint, limits: RoundLimits, target: Position | None) -> NextBatch:
        self.calls += 1
        self.targets.add(target)
        left = self.steps[self.steps.index(point) + 1 :] if point in self.steps else self.steps
        return NextBatch(point=left[0] if left else point)


def lagging(phase: Phase, records: int, *, read: int = 0) -> StreamPoint:
    """A point in the topic that has read `read` records and lags by `records`."""
    place = KafkaPlace(
        phase=phase,
        topic="orders",
        topic_id="id",
        instant=InstantTime("20260101000000000"),
        lake=at(3).progress.position,
        starts=((0, 5),),
        places=(PartitionPlace(0, 5 + read, behind=records),),
    )
    return StreamPoint(progress=Progress(place.position, layout=2, kafka=place))
