"""The bounds of held calls: how many, how long, and when their member asks again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.enumerator.server.config.settings import LimitSettings
from penstock.enumerator.server.rpc.held_calls import LEAST_ROUND_MS, HeldCall, HeldCalls
from penstock.enumerator.server.rpc.limits import MAX_HELD
from penstock.proto.errors import StorageError
from penstock.proto.model.groups import MAX_WAIT_MS, Assignments, EndOfGroup, NothingYet


@dataclass
class Call:
    """A call of a connection."""

    connection: str = "a"
    remaining_s: float = 30.0
    has_ended: bool = False
    callbacks: list[Callable[[], None]] = field(default_factory=list)

    def time_remaining(self) -> float:
        return self.remaining_s

    def peer(self) -> str:
        return self.connection

    def add_callback(self, callback: Callable[[], None]) -> bool:
        self.callbacks.append(callback)
        return not self.has_ended

    def is_active(self) -> bool:
        return not self.has_ended


class Waited(threading.Event):
    """An event whose waits move a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 100.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now_s += 0.0 if self.is_set() else timeout or 0.0
        return self.is_set()


def longest_ms(call: Call, wait_ms: int) -> int:
    """How long the call waits in all."""
    news = Waited()
    with HeldCalls(LimitSettings(), lambda: news.now_s).hold(call, wait_ms) as held:
        while held.wait(0.3, news):
            pass
    assert len(call.callbacks) <= 1
    return round((news.now_s - 100) * 1000)


@pytest.mark.parametrize(
    ("wait_ms", "remaining_s", "longest"),
    [(700, 30.0, 700), (10**9, 30.0, MAX_WAIT_MS), (900, 1.0, 500), (0, 30.0, 0)],
)
def test_wait_is_bounded_by_the_request_the_server_and_the_deadline(
    wait_ms: int, remaining_s: float, longest: int
) -> None:
    assert longest_ms(Call(remaining_s=remaining_s), wait_ms) == longest


def may_wait(held: HeldCall) -> bool:
    news = threading.Event()
    news.set()
    return held.wait(1.0, news)


def test_held_calls_are_bounded_in_all_and_for_each_connection() -> None:
    calls = HeldCalls(LimitSettings(calls=10_000, streams_per_connection=16))
    with ExitStack() as open_calls:

        def hold(connection: str) -> bool:
            return may_wait(open_calls.enter_context(calls.hold(Call(connection), 1000)))

        assert [hold("a") for _ in range(5)] == [True] * 4 + [False]
        assert sum(hold(f"b{number}") for number in range(MAX_HELD)) == MAX_HELD - 4
        assert not hold("c")
    with calls.hold(Call("a"), 1000) as held:
        assert may_wait(held), "the others have ended"


@pytest.mark.parametrize(("limits", "held"), [({"calls": 3}, 0), ({"calls": 8}, 2), ({"streams_per_connection": 3}, 0)])
def test_small_limits_of_a_server_leave_room_for_other_calls(limits: dict[str, Any], held: int) -> None:
    calls = HeldCalls(LimitSettings(**limits))
    with ExitStack() as open_calls:
        assert sum(may_wait(open_calls.enter_context(calls.hold(Call(), 1000))) for _ in range(9)) == held


def test_end_of_the_call_ends_the_wait() -> None:
    call, news = Call(), threading.Event()
    with HeldCalls(LimitSettings()).hold(call, 1000) as held:
        news.set()
        assert held.wait(1.0, news)
        news.clear()
        call.has_ended = True
        call.callbacks[0]()
        with pytest.raises(StorageError, match="cancelled"):
            held.wait(1000.0, news)
    with HeldCalls(LimitSettings()).hold(Call(has_ended=True), 1000) as held, pytest.raises(StorageError):
        held.wait(1000.0, threading.Event())


@pytest.mark.parametrize(("waited_s", "retry_ms"), [(0.03, LEAST_ROUND_MS - 30), (0.5, 0)])
def test_member_asks_again_soon_after_a_wait_and_later_without_one(waited_s: float, retry_ms: int) -> None:
    news = Waited()
    calls = HeldCalls(LimitSettings(), lambda: news.now_s)
    with calls.hold(Call(), 1000) as held:
        assert held.answered(NothingYet(500, caught_up=True)) == NothingYet(500, caught_up=True)
        held.wait(waited_s, news)
        assert held.answered(NothingYet(500, caught_up=True)) == NothingYet(retry_ms, caught_up=True)
        for answer in (Assignments(()), EndOfGroup()):
            assert held.answered(answer) == answer
