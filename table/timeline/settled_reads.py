"""Reads files that their writer may not have finished: Hudi before 1.0 writes a timeline file in place on file systems
that let it (`HoodieWrapperFileSystem.createImmutableFileInPath`), so its name is there before its bytes.

Shell around a clock. Not here: what the bytes mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from penstock.proto.errors import CorruptFile
from penstock.proto.retry import RetryPolicy

T = TypeVar("T")

FRESH_NS: Final = 3 * 10**9
"""A file that was changed this long ago is what its writer left."""
_RETRY: Final = RetryPolicy(first_delay_ms=10, longest_delay_ms=700, attempts=8)


def read_when_complete(
    read: Callable[[], bytes],
    parse: Callable[[bytes], T],
    modified_ns: Callable[[], int | None],
    *,
    pause: Callable[[float], None] = time.sleep,
    wall_ns: Callable[[], int] = time.time_ns,
) -> T:
    """What `parse` makes of the bytes; a file that it refuses is read again for a second and a half, but only while
    `modified_ns` (nanoseconds since the epoch; 0 or None: not known) says that it was changed just now. Then the
    CorruptFile of `parse`; errors of `read`."""
    for failures in range(1, _RETRY.attempts or 1):
        try:
            return parse(read())
        except CorruptFile:
            changed = modified_ns()
            if not changed or abs(wall_ns() - changed) > FRESH_NS:
                break
        pause(_RETRY.backoff_ms(failures, chance=0) / 1000)
    return parse(read())
