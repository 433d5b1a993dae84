"""The clocks of the enumerator. Whoever needs one takes it as a parameter; these are the defaults."""

from __future__ import annotations

import time


def monotonic_ms() -> int:
    """Milliseconds since an unspecified start; never runs backwards. For leases, intervals and times to live."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970 UTC. For times that are compared with file times and instants, or displayed."""
    return time.time_ns() // 1_000_000
