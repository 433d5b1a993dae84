"""The clock, the waits and the heartbeats of a reader of a group, which tests replace.

Not here: how long a failed call is repeated (`proto.retry`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.engine.group.lease import HeartbeatThread


def monotonic_ms() -> int:
    """Milliseconds of a clock that never goes back, and goes on while the machine sleeps, where there is one: a lease
    ends then too."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return time.monotonic_ns() // 1_000_000


class Heartbeat(Protocol):
    """Something that beats until it is stopped."""

    def stop(self) -> None:
        """No beat begins after this."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Clock, waiting and beating of a reader, for tests to stand in. `wait` returns early when the event is set."""

    now_ms: Callable[[], int] = monotonic_ms
    wait: Callable[[threading.Event, float], object] = threading.Event.wait
    pulse: Callable[[Callable[[], float | None], float], Heartbeat] = HeartbeatThread
