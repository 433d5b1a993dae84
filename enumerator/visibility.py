"""The tables that the caller of this thread may use: a server sets it for each call, by its access rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

MayUse = Callable[[str, str, str], bool]
"""Whether the caller has the right (`read`, `consume`, `admin`) on a group of a table."""


def _all(right: str, table: str, group: str) -> bool:
    return True


_MAY: ContextVar[MayUse] = ContextVar("penstock_may_use", default=_all)
EVERYTHING: Final[MayUse] = _all
"""The caller has all rights: there are no access rules."""


@contextmanager
def restricted(may: MayUse) -> Iterator[None]:
    """Sets the rights of the caller in this thread while the block runs."""
    token = _MAY.set(may)
    try:
        yield
    finally:
        _MAY.reset(token)


def may_use() -> MayUse:
    """The rights of the caller of this thread; EVERYTHING outside a server with access rules."""
    return _MAY.get()
