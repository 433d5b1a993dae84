"""Reads files that their writer may not have finished: Hudi before 1.0 writes a timeline file in place on file systems
that let it (`HoodieWrapperFileSystem.createImmutableFileInPath`), so its name is there before its bytes.

Shell around a clock. Not here: what the bytes mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from penstock.proto.errors import CorruptFile

T = TypeVar("T")

FRESH_NS: Final = 3 * 10**9
"""A file that was changed this long ago is what its writer left."""
_PAUSES_S: Final = (0.01, 0.03, 0.06, 0.1, 0.2, 0.4, 0.7)


def read_settled(
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
    for pause_s in _PAUSES_S:
        try:
            return parse(read())
        except CorruptFile:
            changed = modified_ns()
            if not changed or abs(wall_ns() - changed) > FRESH_NS:
                break
        pause(pause_s)
    return parse(read())
