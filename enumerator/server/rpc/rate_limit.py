"""Rate limits: a token bucket per peer, with an injected clock. Thread-safe."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from penstock.proto.errors import Overloaded

MAX_PEERS: Final = 10_000
"""The number of buckets. The bucket of the peer that was idle longest is evicted; a new one starts full."""


class PeerRates:
    """A bucket of `burst` calls for each peer, refilled at `per_second`. `per_second` 0: no limit. Any thread."""

    def __init__(self, per_second: float, burst: int, clock_s: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # calls left, at which time

    def take(self, peer: str) -> None:
        """Counts one call. Overloaded, with the time until the next one, if the peer has no call left."""
        if not self._per_second:
            return
        with self._lock:
            now_s = self._clock_s()
            left, then_s = self._buckets.pop(peer, (self._burst, now_s))
            left = min(self._burst, left + max(0.0, now_s - then_s) * self._per_second)
            enough = left >= 1
            self._buckets[peer] = (left - 1 if enough else left, now_s)
            while len(self._buckets) > MAX_PEERS:
                self._buckets.popitem(last=False)
        if enough:
            return
        error = Overloaded(
            f"too many calls from {peer}: at most {self._per_second:g} a second, {self._burst:g} at once "
            "(limits.ratePerSecond, limits.rateBurst of the server)"
        )
        error.retry_ms = max(1, math.ceil((1 - left) / self._per_second * 1000))
        raise error
