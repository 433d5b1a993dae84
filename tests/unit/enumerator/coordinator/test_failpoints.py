"""Failpoints: the form of the variable, and when the process is killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from penstock.enumerator.coordinator import failpoints
from penstock.proto.errors import ConfigurationError


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    failpoints.arm({})


def hits(name: str, times: int) -> list[int]:
    """The calls, of `times` in total, at which the process would have been killed with SIGKILL."""
    killed: list[int] = []
    for time in range(1, times + 1):
        failpoints.hit(name, lambda pid, number, time=time: killed.append(time if number == signal.SIGKILL else -1))
    return killed


def test_failpoint_does_nothing_if_unset() -> None:
    failpoints.arm({})
    assert hits("append.before", 3) == hits("append.after", 3) == []


def test_failpoint_kills_the_process_once_at_its_count() -> None:
    failpoints.arm({"PENSTOCK_FAILPOINTS": " append.before=kill@3; append.after=kill;"})
    assert hits("append.before", 9) == [3]
    assert hits("append.after", 9) == [1]


@pytest.mark.parametrize("text", ["append.before", "append.befor=kill", "append.after=kill@0", "append.after=exit"])
def test_failpoint_with_an_invalid_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"PENSTOCK_FAILPOINTS: got .* expected NAME=kill"):
        failpoints.parsed(text)
