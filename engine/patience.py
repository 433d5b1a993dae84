"""How long a reader of a group waits and asks again; its clock, its waiting and its beats, for tests to stand in.

Shell: clocks and waiting. Not here: what is asked (`group_reader`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential, wait_random

from penstock.engine.heartbeats import HeartbeatThread
from penstock.proto.errors import PenstockError

_T = TypeVar("_T")

PATIENCE_MS: Final = 60_000
"""How long storage or a server that does not answer is asked again; a lease that ends before ends that too."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5


def monotonic_ms() -> int:
    """Milliseconds of a clock that never goes back, and goes on while the machine sleeps, where there is one: a lease
    ends then too."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return time.monotonic_ns() // 1_000_000


class Pulse(Protocol):
    """Something that beats until it is stopped."""

    def stop(self) -> None:
        """No beat begins after this."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Clock, waiting and beating of a reader, for tests to stand in. `wait` returns early when the event is set."""

    now_ms: Callable[[], int] = monotonic_ms
    wait: Callable[[threading.Event, float], object] = threading.Event.wait
    pulse: Callable[[Callable[[], float | None], float], Pulse] = HeartbeatThread


class Patience:
    """Asks again what failed and may be asked again."""

    def __init__(self, around: Surroundings, woken: threading.Event) -> None:
        """`woken` ends it when it is set."""
        self._around, self._woken = around, woken

    def asked(self, call: Callable[[], _T]) -> _T:
        """The call's answer. An error that is `retryable` is tried again, with growing pauses, until PATIENCE_MS are
        over or the reader is woken; then, and for any other error, it is raised."""
        give_up_ms = self._around.now_ms() + PATIENCE_MS

        def paused(seconds: float) -> None:
            self._around.wait(self._woken, seconds)

        def given_up(_: RetryCallState) -> bool:
            return self._woken.is_set() or self._around.now_ms() >= give_up_ms

        again: Callable[[Callable[[], _T]], _T] = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, PenstockError) and error.retryable),
            wait=wait_exponential(multiplier=_FIRST_PAUSE_S, max=_LONGEST_PAUSE_S) + wait_random(0, _FIRST_PAUSE_S),
            stop=given_up,
            sleep=paused,
            reraise=True,
        )
        return again(call)
