"""Sets of aligned readers in a simulation keep their bounds, and each broken decision is detected."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pytest

from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.streams import alignment, alignment_sets
from penstock.enumerator.streams.alignment import (
    AlignedMember,
    ceiling_of,
    units_within,
)
from penstock.enumerator.streams.alignment_sets import (
    AlignmentSets,
)
from penstock.proto.model.streams import (
    EventTimeCeiling,
    NextBatch,
    StreamPoint,
    StreamScope,
)
from tests.unit.enumerator.scripted_service import Clock
from tests.unit.enumerator.streams.test_alignment import member, point, scope


class CheckFailed(AssertionError):
    """A bound of the simulation is violated."""


@dataclass
class Reader:
    """A stream over scripted commits in order; `bounds` of each. It is silent while `stopped`."""

    name: str
    bounds: list[EventTimeSpan]
    known: int = 0
    done: int = 0
    stopped: bool = False
    watermark_us: int | None = None
    active_ms: int = 0
    seen_ms: int = -(10**9)

    def read(self, count: int) -> StreamPoint:
        """The point after the next commits. Its watermark is below everything that is known to come, at most the
        highest known event time, and never lower than before."""
        self.done += count
        known = [span.high_us for span in self.bounds[: self.known] if span.high_us is not None]
        coming = [span.low_us for span in self.bounds[self.done : self.known] if span.low_us is not None]
        at_us = min([max(known), *(low - 1 for low in coming)])
        self.watermark_us = at_us if self.watermark_us is None else max(self.watermark_us, at_us)
        return self.point()

    def point(self) -> StreamPoint:
        return point(self.done, self.watermark_us)


@dataclass
class World:
    """Streams of one set under random commits, stops and restarts, against the bounds of alignment."""

    seed: int
    units: Callable[[Iterable[EventTimeSpan], EventTimeCeiling], int] = units_within
    clock: Clock = field(default_factory=Clock)
    drift: int = 200
    idle_ms: int = 5_000

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.sets = AlignmentSets(self.clock)
        self.readers = [Reader(f"r{number}", self._commits()) for number in range(self.random.randint(2, 4))]

    def _commits(self) -> list[EventTimeSpan]:
        """Commits with growing event times; some overlap, some leave a gap, some are wider than the drift."""
        low, result = self.random.randint(0, 500), []
        step = self.random.choice([10, 50, 300])
        for _ in range(60):
            width = self.random.choice([0, 20, 150, 260])
            result.append(EventTimeSpan(low, low + width))
            low += self.random.randint(1, step) + (1_000 if self.random.random() < 0.03 else 0)
        return result

    def run(self) -> None:
        for _ in range(700):
            self.clock.now_ms += self.random.choice([1, 50, 400])
            for reader in self.readers:
                if self.random.random() < 0.2:
                    reader.known = min(len(reader.bounds), reader.known + self.random.randint(1, 8))
                if self.random.random() < 0.005:
                    reader.stopped = not reader.stopped
            running = [reader for reader in self.readers if not reader.stopped]
            if running:
                self._call(self.random.choice(running))
        self._drain()

    def _drain(self) -> None:
        """Everything that is known is read by streams that run, whatever the others do."""
        for reader in self.readers:
            reader.known = len(reader.bounds)
        running = [reader for reader in self.readers if not reader.stopped]
        for _ in range(3_000):
            self.clock.now_ms += 100
            for reader in running:
                self._call(reader)
            if all(reader.done == len(reader.bounds) for reader in running):
                return
        raise CheckFailed("deadlock: a stream is never finished")

    def _call(self, reader: Reader) -> None:
        now_ms = self.clock.now_ms
        if now_ms - reader.seen_ms >= self.idle_ms:
            reader.active_ms = now_ms  # it joins
        reader.seen_ms = now_ms
        others = [
            other for other in self.readers if other is not reader and now_ms - other.active_ms < self.idle_ms
            and now_ms - other.seen_ms < self.idle_ms
        ]  # fmt: skip
        own, start, waiting = reader.watermark_us, reader.done, reader.known > reader.done
        aligned = scope(reader.name, drift=self.drift, idle_us=self.idle_ms * 1_000)
        assert aligned.alignment is not None

        def plan(of: StreamScope, at: StreamPoint) -> NextBatch:
            assert of.ceiling is not None
            count = self.units(reader.bounds[reader.done : reader.known], of.ceiling)
            return NextBatch(point=reader.read(count)) if count else NextBatch(point=at, held=waiting)

        _, batch = self.sets.next_batch(aligned, aligned.alignment, reader.point(), plan)
        if batch.held or reader.done > start:
            reader.active_ms = now_ms
        self._check(reader, own, others, start, waiting)

    def _check(self, reader: Reader, own: int | None, others: list[Reader], start: int, waiting: bool) -> None:
        marks = [other.watermark_us for other in others]
        is_slowest = own is None or all(mark is not None and own <= mark for mark in marks)
        read = reader.bounds[start : reader.done]
        if is_slowest:
            if waiting and not read:
                raise CheckFailed("the slowest stream is held")
            allowed = max([own or 0, read[0].low_us or 0]) + self.drift if read else 0
            if len(read) > 1 and max(span.high_us or 0 for span in read) > allowed:
                raise CheckFailed("the slowest stream reads more than its drift in a round of several commits")
            return
        lowest = min([mark for mark in marks if mark is not None], default=0)
        if read and (None in marks or max(span.high_us or 0 for span in read) > lowest + self.drift):
            raise CheckFailed("a stream reads more than the drift ahead of the slowest one")


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_simulated_sets_keep_their_bounds(first: int) -> None:
    for seed in range(first, first + 20):
        World(seed).run()


def _no_cut(units: Iterable[EventTimeSpan], ceiling: EventTimeCeiling) -> int:
    return len(list(units))


def _cut_at_first_low(units: Iterable[EventTimeSpan], ceiling: EventTimeCeiling) -> int:
    """Counts commits whose lowest event time is allowed, not the highest."""
    return units_within([EventTimeSpan(span.low_us, span.low_us) for span in units], ceiling)


def _slowest_too(units: Iterable[EventTimeSpan], ceiling: EventTimeCeiling) -> int:
    """Holds the slowest stream at its ceiling too."""
    return units_within(units, replace(ceiling, is_lowest=False))


BROKEN_CUTS = {"no cut": _no_cut, "lows": _cut_at_first_low, "slowest held": _slowest_too}
BROKEN_PARTS: dict[str, tuple[object, str, object]] = {
    "idle members hold": (alignment, "is_active", lambda member, now_ms: True),
    "nobody holds": (alignment, "is_active", lambda member, now_ms: False),
    "highest instead of lowest": (
        alignment_sets,
        "ceiling_of",
        lambda own, drift, others, now_ms: ceiling_of(
            own, drift, [member(max([other.watermark_us or 0 for other in others], default=own or 0))], 0
        ),
    ),
    "held members are idle": (
        alignment_sets,
        "replace",
        lambda value, **changes: (
            replace(value, **{name: change for name, change in changes.items() if name != "active_ms"})
            if isinstance(value, AlignedMember)
            else replace(value, **changes)
        ),
    ),
}


def fails(units: Callable[[Iterable[EventTimeSpan], EventTimeCeiling], int] = units_within) -> bool:
    for seed in range(20):
        try:
            World(seed, units).run()
        except CheckFailed:
            return True
    return False


@pytest.mark.parametrize("broken", BROKEN_CUTS)
def test_each_broken_cut_is_detected(broken: str) -> None:
    assert fails(BROKEN_CUTS[broken])


@pytest.mark.parametrize("broken", BROKEN_PARTS)
def test_each_broken_decision_is_detected(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, replacement = BROKEN_PARTS[broken]
    monkeypatch.setattr(where, name, replacement)
    assert fails()
