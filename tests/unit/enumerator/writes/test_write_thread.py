"""The thread of writes: it recovers before it starts, and goes on after an exception."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock.enumerator.writes import write_thread
from penstock.enumerator.writes.write_thread import WriteThread

WAIT_S = 30


class RecordedWrites:
    """Records the calls. The first tick fails."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.has_ticked_again = threading.Event()

    def recover(self) -> None:
        self.calls.append("recover")

    def tick(self) -> None:
        self.calls.append("tick")
        if self.calls.count("tick") == 1:
            raise RuntimeError("a bug")
        self.has_ticked_again.set()


def test_thread_recovers_and_ticks_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(write_thread, "TICK_S", 0.001)
    writes: Any = RecordedWrites()
    thread = WriteThread(writes)
    thread.start()
    assert writes.calls[0] == "recover"
    assert writes.has_ticked_again.wait(WAIT_S)
    thread.stop()
    count = len(writes.calls)
    assert "unexpected exception" in caplog.text
    assert len(writes.calls) == count, "it has ended"
