"""How the call of this thread can wait for something that is due later: a server sets it for each call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Wait = Callable[[float, threading.Event], object]
"""Waits for seconds, or until the event is set, or returns at once if no more calls may wait. StorageError if the call
has ended meanwhile."""


def _not_at_all(seconds: float, news: threading.Event) -> None:
    """A call outside a server does not wait."""


_WAIT: ContextVar[Wait] = ContextVar("penstock_call_wait", default=_not_at_all)


@contextmanager
def waiting_by(wait: Wait) -> Iterator[None]:
    """Sets how the call of this thread waits while the block runs."""
    token = _WAIT.set(wait)
    try:
        yield
    finally:
        _WAIT.reset(token)


def call_wait() -> Wait:
    """How the call of this thread waits."""
    return _WAIT.get()
