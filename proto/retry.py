"""The retry policy of clients, Spark, consumer groups and discovery: how long a failed call is repeated, and the delay
before each attempt.

`RetryPolicy` is pure: its inputs are attempt, elapsed time, error and a random number. `Retry` applies it to a call
with an injected clock, wait and source of randomness.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from penstock.proto.errors import PenstockError
from penstock.proto.value_classes import dataclass

T = TypeVar("T")

log = logging.getLogger("penstock.retry")

DEFAULT_TIMEOUT_MS: Final = 60_000
"""The default of the option `retryTimeout`."""
_JITTER: Final = 0.2
_LOGGED_AFTER_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When a failed call is repeated. Only errors that are `retryable` are; any other is raised at once.

    Delays double from `first_delay_ms` to `longest_delay_ms`; each is shortened by a random part of up to a fifth. A
    call that retries may itself be retried by the same policy: when the inner retries end, so do the outer ones.
    """

    timeout_ms: int | None = DEFAULT_TIMEOUT_MS
    """The time from the first attempt to the start of the last one; None: unlimited."""
    first_delay_ms: int = 100
    """The delay before the second attempt."""
    longest_delay_ms: int = 5_000
    """The longest delay."""
    attempts: int | None = None
    """The maximum number of attempts, the first included; None: as many as fit into the time."""

    def delay_ms(self, failures: int, elapsed_ms: float, error: BaseException, chance: float) -> float | None:
        """The delay before the next attempt, in milliseconds; None: stop and raise the error.

        `failures`: attempts so far, 1 or more. `chance`: a random number of 0 to 1. If the error has a delay of its own
        (`retry_ms`), the next attempt is not earlier than that; if that is after the timeout, there is none.
        """
        if not isinstance(error, PenstockError) or not error.retryable:
            return None
        if self.attempts is not None and failures >= self.attempts:
            return None
        delay_ms = max(self.backoff_ms(failures, chance), error.retry_ms)
        if self.timeout_ms is None:
            return delay_ms
        left_ms = self.timeout_ms - elapsed_ms
        if left_ms <= 0 or error.retry_ms > left_ms:
            return None
        return min(delay_ms, left_ms)

    def backoff_ms(self, failures: int, chance: float) -> float:
        """The delay after this number of consecutive failures (1 or more) of any kind."""
        doubled_ms = float(self.first_delay_ms * (1 << min(failures - 1, 32)))
        return min(self.longest_delay_ms, doubled_ms) * (1 - _JITTER * chance)


def _chance() -> float:
    import random  # late: most calls succeed at once

    return random.Random().random()  # the program's own random numbers stay as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Repeats a call by a policy until it succeeds or the policy ends the retries. Any thread."""

    policy: RetryPolicy
    """The policy."""
    now_ms: Callable[[], float] = lambda: time.monotonic() * 1000
    """A monotonic clock, in milliseconds."""
    wait: Callable[[float], object] = time.sleep
    """Waits for a number of seconds."""
    chance: Callable[[], float] = _chance
    """A source of random numbers of 0 to 1."""
    stopped: Callable[[], bool] = lambda: False
    """Whether to end the retries after the current attempt."""

    def call(self, operation: Callable[[], T]) -> T:
        """The result of the first attempt that succeeds; raises the error of the last one.

        The first delay that ends more than a second after the start of the call is logged as a warning.
        """
        begin_ms = self.now_ms()
        failures = 0
        is_logged = False
        while True:
            try:
                return operation()
            except PenstockError as error:
                failures += 1
                elapsed_ms = self.now_ms() - begin_ms
                delay_ms = self.policy.delay_ms(failures, elapsed_ms, error, self.chance())
                if delay_ms is None or self.stopped():
                    raise
                if not is_logged and elapsed_ms + delay_ms > _LOGGED_AFTER_MS:
                    log.warning("%s: retrying%s: %s", error.code, _until(self.policy), error)
                    is_logged = True
            self.wait(delay_ms / 1000)


def _until(policy: RetryPolicy) -> str:
    return "" if policy.timeout_ms is None else f" for up to {policy.timeout_ms / 1000:g} s"
