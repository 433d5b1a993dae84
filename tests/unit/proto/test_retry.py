"""When a failed call is retried, and for how long. The clock is a number."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import (
    ConfigurationError,
    Fenced,
    InvariantViolation,
    KafkaUnavailable,
    Overloaded,
    PenstockError,
    PermissionDenied,
    ServerUnavailable,
    StorageError,
    Unauthenticated,
    UnknownPlan,
)
from penstock.proto.retry import Retry, RetryPolicy

POLICY = RetryPolicy()


class Clock:
    """Milliseconds that pass only by waiting."""

    def __init__(self) -> None:
        self.now_ms = 5_000.0
        self.waits_s: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self.now_ms += seconds * 1000

    def retry(self, policy: RetryPolicy = POLICY, stopped: Callable[[], bool] = lambda: False) -> Retry:
        return Retry(policy=policy, now_ms=lambda: self.now_ms, wait=self.wait, chance=lambda: 0.0, stopped=stopped)


class Away:
    """A call that fails until a moment of the clock."""

    def __init__(self, clock: Clock, until_ms: float, error: Exception) -> None:
        self.clock, self.until_ms, self.error = clock, until_ms, error
        self.attempts_ms: list[float] = []

    def __call__(self) -> str:
        self.attempts_ms.append(self.clock.now_ms)
        if self.clock.now_ms < self.until_ms:
            raise self.error
        return "answer"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("error", [StorageError, ServerUnavailable, KafkaUnavailable, Overloaded])
def test_retries_outlast_a_restart_of_nine_seconds(clock: Clock, error: type[PenstockError]) -> None:
    call = Away(clock, clock.now_ms + 9_000, error("away"))
    assert clock.retry().call(call) == "answer"
    assert clock.waits_s == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]


@pytest.mark.parametrize(
    "error",
    [UnknownPlan, PermissionDenied, Unauthenticated, ConfigurationError, Fenced, PenstockError, InvariantViolation],
)
def test_permanent_error_is_raised_at_once(clock: Clock, error: type[Exception]) -> None:
    call = Away(clock, clock.now_ms + 1, error("no"))
    with pytest.raises(error, match="no"):
        clock.retry().call(call)
    assert clock.waits_s == []


def test_last_attempt_begins_when_the_time_is_over(clock: Clock) -> None:
    call = Away(clock, float("inf"), StorageError("away"))
    with pytest.raises(StorageError, match="away"):
        clock.retry(RetryPolicy(timeout_ms=10_000)).call(call)
    assert call.attempts_ms[-1] - call.attempts_ms[0] == pytest.approx(10_000)


def test_timeout_of_zero_is_one_attempt(clock: Clock) -> None:
    call = Away(clock, float("inf"), StorageError("away"))
    with pytest.raises(StorageError):
        clock.retry(RetryPolicy(timeout_ms=0)).call(call)
    assert len(call.attempts_ms) == 1


def test_attempts_are_counted(clock: Clock) -> None:
    call = Away(clock, float("inf"), StorageError("away"))
    with pytest.raises(StorageError):
        clock.retry(RetryPolicy(attempts=3)).call(call)
    assert len(call.attempts_ms) == 3


def test_call_that_retries_by_the_same_policy_is_not_retried_further(clock: Clock) -> None:
    call = Away(clock, float("inf"), StorageError("away"))
    retry = clock.retry(RetryPolicy(timeout_ms=10_000))
    with pytest.raises(StorageError):
        retry.call(lambda: retry.call(call))
    assert call.attempts_ms[-1] - call.attempts_ms[0] == pytest.approx(10_000)


def test_retry_delay_of_the_server_is_respected(clock: Clock) -> None:
    error = Overloaded("busy")
    error.retry_ms = 3_000
    call = Away(clock, clock.now_ms + 3_000, error)
    assert clock.retry().call(call) == "answer"
    assert clock.waits_s == [3.0]
    late = Away(clock, float("inf"), error)
    with pytest.raises(Overloaded):
        clock.retry(RetryPolicy(timeout_ms=2_000)).call(late)
    assert len(late.attempts_ms) == 1, "the answer may only come after the time is over"


def test_stop_during_a_delay_makes_one_last_attempt(clock: Clock) -> None:
    call = Away(clock, float("inf"), StorageError("away"))
    with pytest.raises(StorageError):
        clock.retry(stopped=lambda: bool(clock.waits_s)).call(call)
    assert len(call.attempts_ms) == 2


def test_wait_that_lasts_is_logged_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock.retry"):
        clock.retry().call(Away(clock, clock.now_ms + 500, ServerUnavailable("blip")))
        assert caplog.messages == []
        clock.retry().call(Away(clock, clock.now_ms + 9_000, ServerUnavailable("away")))
    assert caplog.messages == ["SERVER_UNAVAILABLE: retrying for up to 60 s: away"]


@given(
    failures=st.integers(1, 10_000),
    elapsed_ms=st.floats(0, 1e9),
    chance=st.floats(0, 1),
    retry_ms=st.integers(0, 120_000),
    timeout_ms=st.none() | st.integers(0, 10**9),
)
def test_delay_is_within_its_bounds(
    failures: int, elapsed_ms: float, chance: float, retry_ms: int, timeout_ms: int | None
) -> None:
    policy, error = RetryPolicy(timeout_ms=timeout_ms), Overloaded("busy")
    error.retry_ms = retry_ms
    delay_ms = policy.delay_ms(failures, elapsed_ms, error, chance)
    if delay_ms is None:
        assert timeout_ms is not None and (elapsed_ms >= timeout_ms or elapsed_ms + retry_ms > timeout_ms)
    else:
        assert retry_ms <= delay_ms <= max(retry_ms, policy.longest_delay_ms)
        assert timeout_ms is None or elapsed_ms + delay_ms <= timeout_ms * (1 + 1e-9)
        assert delay_ms > 0
