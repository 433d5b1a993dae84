"""The pace of a listing, which is spread over time, and the delay until the next one. Pure."""

from __future__ import annotations

from typing import Final

from penstock.proto.retry import RetryPolicy

CHECKED_STEPS: Final = 16
"""Steps between two pauses."""
LEAST_PER_SECOND: Final = 50.0
"""Steps a second, at least."""
SPREAD: Final = 0.5
"""The part of the interval over which a listing is spread."""
RETRY: Final = RetryPolicy(timeout_ms=None, first_delay_ms=1_000, longest_delay_ms=60_000)
"""Delays after failed listings; without end."""


def pause_s(steps: int, spent_s: float, expected_steps: int, interval_s: float) -> float:
    """How long to pause after `steps` steps in `spent_s` seconds. The first listing expects 0 steps, and has no pauses.

    A listing of as many steps as the last one takes at most half of the interval, unless the catalog is slower.
    """
    if not expected_steps or steps % CHECKED_STEPS:
        return 0.0
    per_second = max(LEAST_PER_SECOND, expected_steps / (interval_s * SPREAD))
    return max(0.0, steps / per_second - spent_s)


def delay_s(interval_s: float, spent_s: float, failures: int) -> float:
    """How long to wait after a listing that took `spent_s` seconds: until the interval is over since its start, but at
    least a tenth of the interval. After a failure the delays grow to the interval, or a minute if that is less."""
    rest_s = max(interval_s - spent_s, interval_s / 10)
    return min(interval_s, RETRY.backoff_ms(failures, chance=0) / 1000) if failures else rest_s
