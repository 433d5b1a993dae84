"""Bounds the calls that a server holds until there is something to answer, so that other calls always find a thread."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Protocol

from penstock.enumerator.server.config.settings import LimitSettings
from penstock.enumerator.server.rpc.limits import MAX_HELD, require_deadline
from penstock.proto.errors import StorageError
from penstock.proto.model.groups import MAX_WAIT_MS, GroupAnswer, NothingYet

LEAST_ROUND_MS: Final = 100
"""A member asks at most once in this time: after a shorter wait the answer tells it to wait for the rest."""


class Context(Protocol):
    """What a held call needs of gRPC's `ServicerContext`."""

    def time_remaining(self) -> float | None:
        """Seconds until the deadline of the call."""
        ...

    def peer(self) -> str:
        """The connection of the call."""
        ...

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Calls `callback` when the call has ended; False if it has ended."""
        ...

    def is_active(self) -> bool:
        """Whether the call has not ended."""
        ...


class HeldCalls:
    """At most MAX_HELD calls of all connections are held at a time, and at most a quarter of `limits.calls` and of
    `limits.streamsPerConnection`. Further calls are answered at once. Any thread."""

    def __init__(self, limits: LimitSettings, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._most, self._most_of_peer = min(MAX_HELD, limits.calls // 4), limits.streams_per_connection // 4
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()

    @contextmanager
    def hold(self, context: Context, wait_ms: int) -> Iterator[HeldCall]:
        """A call that may wait for `wait_ms`, MAX_WAIT_MS, or half of its remaining time, whichever is least; not at
        all if too many are held. StorageError: its deadline has passed."""
        wait_s = min(wait_ms, MAX_WAIT_MS) / 1000
        peer, may_wait = context.peer(), wait_s > 0
        with self._lock:
            may_wait = may_wait and self._held.total() < self._most and self._held[peer] < self._most_of_peer
            if may_wait:
                self._held[peer] += 1
        try:
            wait_s = min(wait_s, require_deadline(context.time_remaining()) / 2) if may_wait else 0.0
            yield HeldCall(context, wait_s, self._clock_s)
        finally:
            if may_wait:
                with self._lock:
                    self._held[peer] -= 1
                    if not self._held[peer]:
                        del self._held[peer]


class HeldCall:
    """One call, which may wait for `wait_s` in all."""

    def __init__(self, context: Context, wait_s: float, clock_s: Callable[[], float]) -> None:
        self._context, self._clock_s = context, clock_s
        self._begin_s = clock_s()
        self._until_s = self._begin_s + wait_s
        self._has_callback = False
        self._waited = False

    def wait(self, seconds: float, news: threading.Event) -> bool:
        """See `call_waits.Wait`. `news` is the same event in all waits of the call; the end of the call sets it."""
        left_s = self._until_s - self._clock_s()
        if left_s <= 0:
            return False
        self._waited = True
        if not self._has_callback and self._context.add_callback(news.set):
            self._has_callback = True
        if self._has_callback:
            news.wait(min(seconds, left_s))
        if not self._context.is_active():
            raise StorageError("the call was cancelled while it waited for splits")
        return True

    def answered(self, answer: GroupAnswer) -> GroupAnswer:
        """The answer; after a wait the member may ask again at once, or after LEAST_ROUND_MS."""
        if not self._waited or not isinstance(answer, NothingYet):
            return answer
        waited_ms = round((self._clock_s() - self._begin_s) * 1000)
        return replace(answer, retry_ms=max(0, min(answer.retry_ms, LEAST_ROUND_MS - waited_ms)))
