"""How long a failed call is repeated, and how long to wait before each attempt: one policy for clients, Spark, consumer
groups and discovery.

`RetryPolicy` is pure: attempt, elapsed time, error and a random number come in. `Retry` runs a call by it with a clock,
a wait and a source of randomness that are passed in.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from penstock.proto.errors import PenstockError

T = TypeVar("T")

log = logging.getLogger("penstock.retry")

DEFAULT_TIMEOUT_MS: Final = 60_000
"""The default of the option `retryTimeout`."""
_JITTER: Final = 0.2
_LOGGED_AFTER_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When a failed call is made again. Only an error that is `retryable` is; any other ends the retries at once.

    `timeout_ms` counts from the first attempt; the last attempt begins when it ends. None: there is no end.
    Delays double from `first_delay_ms` to `longest_delay_ms`, and are up to a fifth shorter by chance. `attempts`
    counts the first one; None: as many as fit into the time.

    A call that retries may itself be retried by the same policy: when the inner one has given up, so does the outer.
    """

    timeout_ms: int | None = DEFAULT_TIMEOUT_MS
    first_delay_ms: int = 100
    longest_delay_ms: int = 5_000
    attempts: int | None = None

    def delay_ms(self, failures: int, elapsed_ms: float, error: BaseException, chance: float) -> float | None:
        """The delay before the next attempt, in milliseconds; None: give up and raise the error.

        `failures`: attempts so far, 1 or more. `chance`: a random number of 0 to 1. An error that says how long to
        wait (`retry_ms`) is not asked about earlier; where that is behind the end, there is no further attempt.
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
        """The delay after so many failures in a row (1 or more), whatever they were."""
        doubled_ms = float(self.first_delay_ms * (1 << min(failures - 1, 32)))
        return min(self.longest_delay_ms, doubled_ms) * (1 - _JITTER * chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Makes a call until it is answered or the policy gives up. Any thread.

    `now_ms` never runs backwards; `wait` takes seconds; `stopped` ends the retries after the attempt under way.
    """

    policy: RetryPolicy
    now_ms: Callable[[], float] = lambda: time.monotonic() * 1000
    wait: Callable[[float], object] = time.sleep
    chance: Callable[[], float] = random.random
    stopped: Callable[[], bool] = lambda: False

    def call(self, operation: Callable[[], T]) -> T:
        """The answer of the first attempt that succeeds; else the error of the last one. The first delay that ends more
        than a second after the call began is logged as a warning."""
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
