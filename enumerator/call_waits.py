"""How the call of this thread can wait for something that is due later: a server sets it for each call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Wait = Callable[[float, threading.Event], bool]
"""Waits for seconds, or until the event is set. False, at once, if the call may not wait: too many calls wait, or it
has waited for as long as it may. StorageError if the call has ended meanwhile."""


def _not_at_all(seconds: float, news: threading.Event) -> bool:
    """A call outside a server does not wait."""
    return False


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
