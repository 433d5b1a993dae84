"""The class of all events."""

from __future__ import annotations

from typing import Generic, TypeVar

A = TypeVar("A")


class Event(Generic[A]):
    """An event; `decide` answers it with an A."""

    __slots__ = ()
