"""The order of concurrent calls and the bounds in docs/operations.md, without storage."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from threading import Event, Thread

import pytest

from penstock.enumerator.server.rpc.turns import MAX_PARKED, MAX_RUNNING, MAX_WAITING, Turns, most_waiting
from penstock.proto.errors import Overloaded, StorageError


def test_each_table_has_one_call_beyond_four_and_64_run_at_most() -> None:
    turns = Turns()
    with ExitStack() as running:
        for _ in range(4):
            running.enter_context(turns.of("slow", 0))
        with pytest.raises(StorageError, match="table slow: the deadline passed"):
            running.enter_context(turns.of("slow", 0))
        for number in range(60):
            running.enter_context(turns.of(f"t{number}", 0))
            with pytest.raises(StorageError):
                running.enter_context(turns.of(f"t{number}", 0))
        assert MAX_RUNNING == 64
        with pytest.raises(StorageError):
            running.enter_context(turns.of("t60", 0))
    with turns.of("slow", 0):
        pass


def test_unresponsive_tables_leave_threads_to_others() -> None:
    waiting: list[int] = []
    for _ in range(20):
        waiting.append(most_waiting(sum(waiting)))
    assert waiting[:6] == [32, 16, 8, 4, 2, 1]
    assert sum(waiting[:6]) < MAX_WAITING == 64


def test_call_beyond_32_waiting_calls_of_a_table_is_overloaded() -> None:
    turns, ended = Turns(), []
    assert most_waiting(0) == 32

    def wait(begun: Event) -> None:
        begun.set()
        with turns.of("slow", 60):
            ended.append(1)

    with ExitStack() as running:
        for _ in range(4):
            running.enter_context(turns.of("slow", 0))
        callers = []
        for _ in range(32):
            begun = Event()
            callers.append(Thread(target=wait, args=(begun,)))
            callers[-1].start()
            assert begun.wait(30)
        refusal, end_s = "", time.monotonic() + 10
        while not refusal:  # the last caller may not wait for its turn yet
            try:
                running.enter_context(turns.of("slow", 0))
            except Overloaded as error:
                refusal = str(error)
            except StorageError:
                assert time.monotonic() < end_s, "no call is refused"
        assert "32 calls wait" in refusal
        running.enter_context(turns.of("other", 0))
    for caller in callers:
        caller.join(30)
    assert len(ended) == 32


def test_parked_call_leaves_its_turn_to_others() -> None:
    turns = Turns()
    with ExitStack() as running:
        for _ in range(3):
            running.enter_context(turns.of("busy", 0))
        with turns.of("t", 0):
            inside: list[str] = []

            def others() -> None:
                with turns.of("busy", 0), turns.of("t", 0):
                    inside.append("others run")

            with pytest.raises(StorageError):
                running.enter_context(turns.of("busy", 0))
            turns.park("t", 0, others)
            assert inside == ["others run"]
            with pytest.raises(StorageError):
                running.enter_context(turns.of("busy", 0))


def test_parked_calls_are_bounded_and_unresponsive_tables_leave_places_to_others() -> None:
    turns, parked, let_go = Turns(), Counter[str](), Event()

    def call(table: str, begun: Event) -> None:
        with turns.of(table, 60):
            turns.park(table, 60, lambda: (parked.update([table]), begun.set(), let_go.wait(60)))
            begun.set()

    callers = []
    for table, calls in (("slow", MAX_PARKED), ("other", MAX_PARKED)):
        for _ in range(calls):
            begun = Event()
            callers.append(Thread(target=call, args=(table, begun)))
            callers[-1].start()
            assert begun.wait(30), "a call without room does not wait"
    assert parked == {"slow": MAX_PARKED // 2, "other": MAX_PARKED // 4}
    let_go.set()
    for caller in callers:
        caller.join(30)
    parked.clear()
    call("slow", Event())
    assert parked == {"slow": 1}, "the places are free again"


def test_call_that_gets_no_turn_after_its_wait_is_refused() -> None:
    turns = Turns()
    with ExitStack() as running:
        for _ in range(3):
            running.enter_context(turns.of("busy", 0))
        with pytest.raises(StorageError, match="the server is overloaded"), turns.of("busy", 0):
            turns.park("busy", 0, lambda: running.enter_context(turns.of("busy", 0)))
    for _ in range(2):
        with ExitStack() as again:
            for _ in range(4):
                again.enter_context(turns.of("busy", 0))
