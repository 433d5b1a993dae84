"""Repeats a read of a table whose timeline another process archives."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from penstock.proto.errors import StorageError
from penstock.proto.retry import RetryPolicy

T = TypeVar("T")

_RETRY: Final = RetryPolicy(first_delay_ms=10, longest_delay_ms=500, attempts=8)


def read_current(read: Callable[[], T], *, sleep: Callable[[float], None] = time.sleep) -> T:
    """The result of `read`, which lists the timeline of a table and then reads the files of its instants.

    If an instant left the active timeline between both, `read` lists the timeline again: up to eight times, in about
    two seconds. An archival deletes the files of many instants one after the other, so that a second listing may be
    outdated, too. Other errors, and the last one, are raised.
    """
    for failures in range(1, _RETRY.attempts or 1):
        try:
            return read()
        except StorageError as error:
            if not error.left_timeline:
                raise
        sleep(_RETRY.backoff_ms(failures, chance=0) / 1000)
    return read()
