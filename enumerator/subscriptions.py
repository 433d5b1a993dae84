"""`Subscriptions`: the handlers of an observer, by the type of event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.enumerator.observer import Observation

_E = TypeVar("_E")


class Subscriptions:
    """The handlers of an observer, by the type of event. Subscribe in the constructor, before the first event."""

    def __init__(self) -> None:
        self._handlers: dict[type[Any], Callable[[Any], None]] = {}

    def subscribe(self, kind: type[_E], handler: Callable[[_E], None]) -> None:
        """Calls `handler` with each event of the type `kind`."""
        self._handlers[kind] = handler

    def dispatch(self, event: Observation) -> None:
        """Calls the handler of the event's type, if there is one."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)
