"""How far a stream may advance: the cap, the pinned target, rest while idle, patience with storage.

Pure but for what it is given: the enumerator's answer, a clock and a pause come in from outside. Knows no Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from penstock.proto.errors import StorageError
from penstock.proto.positions import Position

IDLE_S: Final = 0.2
"""Spark asks an idle source about 65 times a second; the table is looked at no more often than this."""
PATIENCE_S: Final = 60.0
"""How long an unreachable storage or server is retried before the query fails (Spark itself does not retry)."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0

T = TypeVar("T")


def with_patience(call: Callable[[], T], clock: Callable[[], float], pause: Callable[[float], None]) -> T:
    """The call's answer; a StorageError is retried with growing pauses until PATIENCE_S have passed, then raised."""
    give_up, wait = clock() + PATIENCE_S, _FIRST_PAUSE_S
    while True:
        try:
            return call()
        except StorageError:
            if clock() + wait > give_up:
                raise
        pause(wait)
        wait = min(wait * 2, _LONGEST_PAUSE_S)


class StreamProgress:
    """Answers "up to where now?" for one run of a stream. Used by one thread."""

    def __init__(
        self,
        newest: Callable[[Position | None, int], Position],
        clock: Callable[[], float],
        pause: Callable[[float], None],
    ) -> None:
        """`newest(after, max_commits)` as in `Enumerator.newest_position`; `clock` in seconds, never going back."""
        self._newest = newest
        self._clock = clock
        self._pause = pause
        self._target: Position | None = None
        self._idle_at: Position | None = None
        self._idle_until_s = 0.0

    def pin(self) -> None:
        """Fixes the newest position now as the end of this run: nothing that completes later is taken."""
        self._target = with_patience(lambda: self._newest(None, 0), self._clock, self._pause)

    def advance(self, start: Position, max_commits: int) -> Position:
        """The end of the next micro-batch: never behind `start`, at most `max_commits` data commits ahead (0: no cap),
        never beyond a pinned target; `start` itself when there is nothing new."""
        if self._target is not None and start >= self._target:
            return start
        if start == self._idle_at and self._clock() < self._idle_until_s:
            return start
        found = with_patience(lambda: self._newest(start, max_commits), self._clock, self._pause)
        if self._target is not None:
            found = min(found, self._target)
        if found > start:
            self._idle_at = None
            return found
        self._idle_at, self._idle_until_s = start, self._clock() + IDLE_S
        return start
