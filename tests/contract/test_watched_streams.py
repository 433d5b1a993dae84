"""Streams through a server share the looks at a table with each other and with groups, and hide no completed commit.

The streams and the groups of a simulated table run in threads on a clock that advances when all of them wait.
"""

from __future__ import annotations

import os
import pathlib
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from penstock.enumerator.call_waits import waiting_by
from penstock.enumerator.continuous.change_probe import TableFingerprint
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.followed_tables import FollowedTables
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.enumerator.tables.registry import TableRegistry
from penstock.enumerator.tables.table_watch import MAX_WAIT_MS, CallLooks
from penstock.proto.model.groups import GroupScope, GroupSpec
from penstock.proto.model.groups import StartLatest as GroupStartLatest
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.streams import NextBatch, StartAfter, StartLatest, StreamPoint, StreamScope, batch_request
from tests.simulated_lake import SimulatedLake, time_of

INTERVAL_MS, STREAMS, GROUPS, REST_MS = 1_000, 20, 3, 200
OLD_MS = 1_700_000_000_000


class VirtualTime:
    """A clock for threads: it advances to the next end of a wait when every thread waits."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._changed = threading.Condition()
        self._threads = 0
        self._until: dict[int, int] = {}

    @contextmanager
    def joined(self, threads: int) -> Iterator[None]:
        self._threads = threads
        yield

    def left(self) -> None:
        """A thread has ended."""
        with self._changed:
            self._threads -= 1
            self._advance()

    def wait(self, seconds: float, news: threading.Event | None = None) -> None:
        me = threading.get_ident()
        with self._changed:
            self._until[me] = self.now_ms + max(1, round(seconds * 1000))
            self._advance()
            assert self._changed.wait_for(lambda: me not in self._until, 60), "the other threads do not wait"

    def _advance(self) -> None:
        if self._until and len(self._until) >= self._threads:
            self.now_ms = min(self._until.values())
            for thread in [thread for thread, until_ms in self._until.items() if until_ms <= self.now_ms]:
                del self._until[thread]
            self._changed.notify_all()


@dataclass
class World:
    """A service over one simulated table. Counts looks and other reads of the table."""

    lake: SimulatedLake
    interval_ms: int = INTERVAL_MS
    time: VirtualTime = field(default_factory=VirtualTime)
    looks_ms: list[int] = field(default_factory=list)
    reads: int = 0
    newest: str = ""
    hidden: list[str] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    service: EnumeratorService = field(init=False)

    def __post_init__(self) -> None:
        world = self

        class Reads(OpenTables):
            def current(self, path: str):  # type: ignore[no-untyped-def]
                world.reads += 1
                return super().current(path)

            def probe(self, path: str, *, closely: bool = False) -> TableFingerprint:
                world.looks_ms.append(world.time.now_ms)
                return super().probe(path, closely=closely)

        later_ms = self.lake.newest_write_ms() + 3_600_000  # the file times are settled
        reads = Reads(wall_ms=lambda: later_ms + self.time.now_ms)
        self.service = EnumeratorService(
            TableRegistry(self.lake.paths, default_interval_ms=self.interval_ms),
            reads=reads,
            follows=FollowedTables(reads),
            clock_ms=lambda: self.time.now_ms,
            poll_ms=None,
        )

    def commit(self) -> None:
        """Completes a commit. Its folder has a new time, whatever the resolution of the file system is."""
        table = self.lake.tables["t0000"]
        table.commit(OLD_MS)
        os.utime(table.path / ".hoodie" / "timeline", ns=(1, table.newest_ms * 1_000_000))
        self.newest = str(table.newest_ms + 1)

    def scope(self, number: int) -> StreamScope:
        return StreamScope(
            request=PlanRequest(table="t0000", query=Incremental(), of_stream=f"id{number}"), name=f"s{number}"
        )

    def run(self, until_ms: int, streams: int, groups: int, commits_ms: tuple[int, ...] = ()) -> None:
        """Runs streams and groups to a time, with commits at these times."""
        for number in range(groups):
            scope = GroupScope(request=PlanRequest(table="t0000", query=Incremental()))
            self.service.join_group(f"g{number}", "r", GroupSpec(scope=scope, start=GroupStartLatest()), "once")
        while self.service.split_discovery.due():
            self.service.split_discovery.discover()
        starts = [self.service.start_stream(self.scope(number), StartLatest()) for number in range(streams)]
        self.looks_ms.clear()
        self.reads = 0
        works: list[Callable[[], None]] = [
            lambda number=number, start=start: self._stream(number, start, until_ms)  # type: ignore[misc]
            for number, start in enumerate(starts)
        ]
        works += [lambda: self._groups(until_ms), lambda: self._writer(commits_ms)]
        with self.time.joined(len(works)):
            threads = [threading.Thread(target=self._guarded, args=(work,)) for work in works]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
        if self.failures:
            raise self.failures[0]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            self.failures.append(error)
        finally:
            self.time.left()

    def _stream(self, number: int, point: StreamPoint, until_ms: int) -> None:
        scope, chance = self.scope(number), random.Random(number)
        while self.time.now_ms < until_ms:
            completed = self.newest
            with waiting_by(self.time.wait):
                batch = self.service.next_batch(scope, point)
            if batch.point == point and completed and _ms(point) < int(completed):
                self.hidden.append(f"stream {number} at {point.progress.position}: {completed}")
            if batch.point == point:
                self.time.wait(chance.randint(1, REST_MS) / 1000)
            point = batch.point

    def _groups(self, until_ms: int) -> None:
        while self.time.now_ms < until_ms:
            self.service.split_discovery.discover()
            self.time.wait(0.1)

    def _writer(self, commits_ms: tuple[int, ...]) -> None:
        for at_ms in commits_ms:
            if at_ms > self.time.now_ms:
                self.time.wait((at_ms - self.time.now_ms) / 1000)
            self.commit()


def _ms(point: StreamPoint) -> int:
    return time_of(point.progress.position.order_key)


@pytest.fixture
def lake(tmp_path: pathlib.Path) -> SimulatedLake:
    return SimulatedLake.create(tmp_path / "lake", 1, 3, OLD_MS)


def test_idle_table_is_looked_at_once_per_interval_by_20_streams_and_3_groups(lake: SimulatedLake) -> None:
    world = World(lake)
    world.run(10 * INTERVAL_MS, STREAMS, GROUPS)
    assert 9 <= len(world.looks_ms) <= 11, world.looks_ms
    gaps = [later - before for before, later in zip(world.looks_ms, world.looks_ms[1:], strict=False)]
    assert min(gaps) >= INTERVAL_MS, gaps
    assert world.reads <= STREAMS + GROUPS, "the first call of each stream reads the table, and no later one"


def test_streams_wait_a_second_at_most_of_a_longer_interval(lake: SimulatedLake) -> None:
    world = World(lake, interval_ms=60_000)
    world.run(5_000, STREAMS, GROUPS)
    assert 4 <= len(world.looks_ms) <= 6, world.looks_ms
    assert MAX_WAIT_MS == 1_000


def test_looks_of_each_stream_would_be_detected(lake: SimulatedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a call does not wait for the look that others share."""
    monkeypatch.setattr(CallLooks, "later", lambda looks, *, is_urgent: looks._watch.look_after(
        looks._path, looks._watch.begun(looks._path), 0).fingerprint)  # fmt: skip
    world = World(lake)
    world.run(INTERVAL_MS, STREAMS, GROUPS)
    assert len(world.looks_ms) > 3 * STREAMS


def _commits(seed: int) -> tuple[int, ...]:
    chance = random.Random(seed)
    return tuple(sorted(chance.sample(range(10, 6 * INTERVAL_MS), 8)))


@pytest.mark.parametrize("seed", range(4))
def test_commit_before_a_call_is_never_hidden(lake: SimulatedLake, seed: int) -> None:
    world = World(lake, interval_ms=random.Random(seed).choice([50, 500, INTERVAL_MS, 5_000]))
    world.run(8 * INTERVAL_MS, 6, 1, _commits(seed))
    assert world.hidden == []
    assert world.newest


def test_answer_of_an_earlier_look_would_be_detected(lake: SimulatedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: what the groups may see, an interval late, is not enough for a stream."""
    monkeypatch.setattr(CallLooks, "later", lambda looks, *, is_urgent: looks.recent())
    world = World(lake)
    world.run(8 * INTERVAL_MS, 6, 1, _commits(0))
    assert world.hidden != []


def test_call_with_a_fixed_end_does_not_wait(lake: SimulatedLake) -> None:
    world = World(lake)
    point = world.service.start_stream(world.scope(0), StartLatest())
    target = Position(InstantTime("99990101000000000"))
    waits: list[float] = []
    for _ in range(3):
        with waiting_by(lambda seconds, news: waits.append(seconds)):
            assert world.service.next_batch(replace(world.scope(0), target=target), point).point == point
    assert (waits, len(world.looks_ms)) == ([], 3)
    for _ in range(2):  # the first call reads the table
        with waiting_by(lambda seconds, news: waits.append(seconds)):
            world.service.next_batch(world.scope(0), point)
    assert waits == [1.0], "without an end it waits"


def test_new_commit_is_read_once_for_equal_streams(lake: SimulatedLake) -> None:
    """Each stream receives the batch and its plan, as a stream alone does."""
    world = World(lake)
    start = world.service.start_stream(world.scope(0), StartLatest())
    for number in range(STREAMS):
        with waiting_by(world.time.wait):
            world.service.next_batch(world.scope(number), start)
    world.commit()
    world.time.now_ms += INTERVAL_MS
    world.reads = 0
    batches: list[NextBatch] = []
    plans = set()
    costs = []
    for number in range(STREAMS):
        before = world.reads
        batches.append(world.service.next_batch(world.scope(number), start))
        request = batch_request(world.scope(number), batches[-1].point)
        assert request is not None
        plans.add(world.service.plan(request))
        costs.append(world.reads - before)
    assert set(batches) == {batches[0]} and batches[0].point != start
    assert len(plans) == 1 and len(next(iter(plans)).splits) == 1
    assert costs[0] > 0 and set(costs[1:]) == {0}
    alone = World(lake)
    assert alone.service.next_batch(alone.scope(0), start) == batches[0]


def test_batch_of_an_earlier_time_is_not_reused(lake: SimulatedLake) -> None:
    """After the interval the table is looked at again: a later call gets the newer commit too."""
    world = World(lake)
    after = StreamPoint(progress=world.service.start_stream(world.scope(0), StartAfter(EARLIEST)).progress)
    first = world.service.next_batch(world.scope(0), after)
    world.commit()
    world.time.now_ms += INTERVAL_MS
    second = world.service.next_batch(world.scope(1), after)
    assert _ms(second.point) > _ms(first.point)
