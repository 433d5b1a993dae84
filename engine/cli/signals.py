"""Handles SIGTERM and Ctrl-C for a command that stops by itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ended_by_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Calls `stop` at the first SIGTERM or SIGINT while the block runs; the second one has its usual effect. Outside
    the main thread it does nothing: Python handles signals only there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Callable[[int, FrameType | None], object] | int | signal.Handlers] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        for handled in before:
            signal.signal(handled, before[handled])
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.getsignal(number) or signal.SIG_DFL
        signal.signal(number, handle)
    try:
        yield
    finally:
        for handled in before:
            signal.signal(handled, before[handled])
