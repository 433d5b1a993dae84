"""Reads a timeline that others change: files that their writer has not completed yet, and instants that are archived.

Hudi before 1.0 writes a timeline file in place on some file systems
(`HoodieWrapperFileSystem.createImmutableFileInPath`), so a listing shows the name before all bytes are written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from penstock.proto.errors import CorruptFile, StorageError
from penstock.proto.retry import RetryPolicy

T = TypeVar("T")

FRESH_NS: Final = 3 * 10**9
"""A file that was last changed longer ago is complete."""
_RETRY: Final = RetryPolicy(first_delay_ms=10, longest_delay_ms=700, attempts=8)
_LISTED_AGAIN: Final = RetryPolicy(first_delay_ms=10, longest_delay_ms=500, attempts=8)


def read_when_complete(
    read: Callable[[], bytes],
    parse: Callable[[bytes], T],
    modified_ns: Callable[[], int | None],
    *,
    sleep: Callable[[float], None] = time.sleep,
    wall_ns: Callable[[], int] = time.time_ns,
) -> T:
    """The result of `parse` for the file's bytes.

    A file that `parse` refuses with CorruptFile is read again with the delays of a `RetryPolicy`, for about 1.5 s,
    while `modified_ns` (nanoseconds since the epoch; 0 or None: unknown) is within FRESH_NS of now. Then raises the
    CorruptFile of `parse`. Errors of `read` are raised at once.
    """
    for failures in range(1, _RETRY.attempts or 1):
        try:
            return parse(read())
        except CorruptFile:
            changed = modified_ns()
            if not changed or abs(wall_ns() - changed) > FRESH_NS:
                break
        sleep(_RETRY.backoff_ms(failures, chance=0) / 1000)
    return parse(read())


def read_current(read: Callable[[], T], *, sleep: Callable[[float], None] = time.sleep) -> T:
    """The result of `read`, which lists the timeline of a table and then reads the files of its instants.

    If an instant left the active timeline between both, `read` lists the timeline again: up to eight times, in about
    two seconds. An archival deletes the files of many instants one after the other, so that a second listing may be
    outdated, too. Other errors, and the last one, are raised.
    """
    for failures in range(1, _LISTED_AGAIN.attempts or 1):
        try:
            return read()
        except StorageError as error:
            if not error.left_timeline:
                raise
        sleep(_LISTED_AGAIN.backoff_ms(failures, chance=0) / 1000)
    return read()
