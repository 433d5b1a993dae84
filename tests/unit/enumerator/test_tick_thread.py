"""A thread of the server: it goes on after an exception, and ends when it is stopped."""

from __future__ import annotations

import threading

import pytest

from penstock.enumerator.tick_thread import TickThread

WAIT_S = 30


def test_thread_ticks_until_it_is_stopped(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []
    has_ticked_again = threading.Event()

    def tick() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("a bug")
        has_ticked_again.set()

    thread = TickThread("a-thread", tick, 0.001)
    thread.start()
    assert has_ticked_again.wait(WAIT_S)
    thread.stop()
    count = len(calls)
    assert "a-thread: unexpected exception" in caplog.text
    assert len(calls) == count, "it has ended"


def test_thread_ticks_at_once_when_it_is_woken() -> None:
    has_ticked = threading.Event()
    thread = TickThread("a-thread", has_ticked.set, 86_400.0)
    thread.start()
    thread.wake()
    assert has_ticked.wait(WAIT_S)
    thread.stop()
