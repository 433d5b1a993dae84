"""How far a stream may advance: limits, a fixed end, waits while the table is idle, and the idle timeout.

The enumerator, the clock and the wait are passed in. Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from penstock.proto.model.hybrid import Phase
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import RoundLimits
from penstock.proto.model.streams import END_OF_TIME_US, NextBatch, NoBatch, StreamPoint, Watermark

IDLE_S: Final = 0.2
"""The minimum interval between reads of the table while nothing is new."""
REST_S: Final = 0.05
"""The wait before an answer of a stream that has ended: Spark calls an idle source about 65 times a second through a
socket. Short, because another source of the query may have rows."""

NextBatchCall = Callable[[StreamPoint, RoundLimits, Position | None], NextBatch]
"""Requests the batch after a point, within limits, up to a target."""


class StreamProgress:
    """Decides where the next micro-batch of one run of a stream ends. Used by one thread."""

    def __init__(
        self,
        next_batch: NextBatchCall,
        clock: Callable[[], float],
        pause: Callable[[float], None],
        idle_timeout_us: int | None = None,
        pause_idle: Callable[[float], None] | None = None,
    ) -> None:
        """`clock` returns seconds and never runs backwards. After each whole `idle_timeout_us` without a new commit the
        watermark advances by that time. `pause_idle` waits before the next read of an idle table, and may end early if
        the table has changed; None: `pause`."""
        self._next_batch = next_batch
        self._clock = clock
        self._pause, self._pause_idle = pause, pause_idle or pause
        self._idle_timeout_us = idle_timeout_us
        self._target: Position | None = None
        self._ends_with_topic = self._drained = False
        self._idle_at: StreamPoint | None = None
        self._idle_until_s = 0.0
        self._quiet_since_s: float | None = None

    def pin(self, newest: Callable[[], Position]) -> None:
        """Fixes the newest position as the end of this run: instants that complete later are not read."""
        self._target = newest()

    def pin_to_topic(self) -> None:
        """Ends this run of a hybrid stream after the first batch that reads the topic to its end, or if the stream
        cannot leave the lake."""
        self._ends_with_topic = True

    def begin(self, point: StreamPoint) -> None:
        """Sets where a new stream starts: a run with a fixed end ends there at the earliest."""
        if self._target is not None:
            self._target = max(self._target, point.progress.position)

    def advance(self, start: StreamPoint, limits: RoundLimits) -> NextBatch:
        """The next micro-batch after `start`, never beyond a pinned target; with the point `start` itself when there
        is nothing new."""
        now = self._clock()
        if self._quiet_since_s is None:
            self._quiet_since_s = now
        if start.ended or self._drained:
            self._pause(REST_S)
            return NextBatch(point=start)
        if start == self._idle_at and now < self._idle_until_s:
            # Then the table is read: an earlier answer would hide a commit that `processAllAvailable` has to wait for.
            self._pause_idle(self._idle_until_s - now)
        batch = self._next_batch(start, limits, self._target)
        if batch.point != start:
            self._drained = self._ends_with_topic and _takes_all(batch.point)
            self._idle_at, self._quiet_since_s = None, self._clock()
            return batch
        self._idle_at, self._idle_until_s = start, self._clock() + IDLE_S
        if batch.held:
            self._quiet_since_s = self._clock()  # rows wait at the server: the watermark may not pass them
            return batch
        return NextBatch(point=self._after_silence(start))

    def within_target(self, start: StreamPoint, limits: RoundLimits) -> NextBatch:
        """The batch after `start` within other limits, without waiting."""
        batch = self._next_batch(start, limits, self._target)
        self._drained = self._ends_with_topic and _takes_all(batch.point)
        return batch

    def _after_silence(self, start: StreamPoint) -> StreamPoint:
        """The point, with its watermark advanced by each whole idle timeout since the last new batch.

        Not in a run with a fixed end. The time is measured in this process: a restart begins again.
        """
        known = start.watermark.at_us
        bounded = self._target is not None or self._ends_with_topic
        if self._idle_timeout_us is None or known is None or bounded or self._quiet_since_s is None:
            return start
        passed = int((self._clock() - self._quiet_since_s) * 1_000_000 / self._idle_timeout_us)
        moved_us = min(known + passed * self._idle_timeout_us, END_OF_TIME_US)
        if passed < 1 or moved_us <= known:
            return start
        self._quiet_since_s += passed * self._idle_timeout_us / 1_000_000
        self._idle_at = None
        return replace(start, watermark=Watermark(moved_us, start.watermark.high_us), content=NoBatch())


def _takes_all(point: StreamPoint) -> bool:
    """Whether the batch that ends here reads the topic to its end at the time of planning."""
    kafka = point.progress.kafka
    return kafka is not None and kafka.phase is Phase.KAFKA and kafka.behind == 0
