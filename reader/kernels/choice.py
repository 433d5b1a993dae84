"""Decides whether a split is read by the compiled kernels, or by Python and Arrow functions with the same rows.

A process that calls a kernel imports numba and loads machine code, which takes half a second of processor time; in a
new installation it compiles for seconds. For a few records the slower functions have ended before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from penstock.proto.model.changes import GroupChanges
from penstock.proto.model.hybrid import KafkaRange
from penstock.proto.model.splits import Split

SLOW_BYTES: Final = 256 << 10
"""The bytes of records that a process reads without kernels, in all its splits together."""
WHOLE_FILE_BYTES: Final = 256 << 10
"""A base file of at most this size is read whole, and checked by a kernel."""
WHOLE_FILE_COST: Final = 128
"""The bytes as which such a file counts. The checks of 2,000 of them take as long as the loading of the kernels."""
BASE_BYTES_FOR_ONE: Final = 128
"""Bytes of a base file that count as one byte of a log: only their keys are compared with the log's."""
LOOKED_UP_KEYS: Final = 10 << 20
"""The keys that a process looks up by Arrow functions where no other work needs kernels: 0.2 s of processor time more
than by the kernel, half of what its loading takes."""
KNOWN_KEY_COST: Final = 8
"""The look-ups as which each key of a log counts: Arrow builds its table again for every call."""


def kernels_are_loaded() -> bool:
    """Whether this process has paid for the kernels already."""
    return "penstock.reader.kernels.cache" in sys.modules


class KernelChoice:
    """The choices of a process. That of `for_split` is final for its split."""

    def __init__(self, are_loaded: Callable[[], bool] = kernels_are_loaded) -> None:
        self._are_loaded, self._left_bytes, self._left_keys = are_loaded, SLOW_BYTES, LOOKED_UP_KEYS

    def for_split(self, split: Split) -> bool:
        """Whether the split is read by the kernels: the others have read enough, or the kernels are loaded."""
        return self._are_loaded() or self.for_bytes(slow_bytes(split))

    def for_bytes(self, size_bytes: int) -> bool:
        """Whether so many bytes of records are decoded by the kernels, in a split that may use them."""
        if self._are_loaded() or size_bytes > self._left_bytes:
            return True
        self._left_bytes -= size_bytes  # without a lock: threads that meet here read some more bytes without kernels
        return False

    def for_keys(self, known: int, looked_up: int) -> bool:
        """Whether keys are looked up among `known` ones by the kernel, in a split that may use kernels. Records in
        Parquet need no other one."""
        cost = KNOWN_KEY_COST * known + looked_up
        if self._are_loaded() or cost > self._left_keys:
            return True
        self._left_keys -= cost  # without a lock, as above
        return False


def slow_bytes(split: Split) -> int:
    """The bytes of a split that kernels decode, compare or check: a part of a base file with logs, none of one without
    unless it is small; also of the slices whose keys a row lineage needs. Records of a topic count eight times: their
    sizes are unknown."""
    origins = split.ancestry.origins if split.ancestry else ()
    total = sum(slow_bytes(item) for origin in origins for item in origin.slices)
    if isinstance(split.part, KafkaRange):
        return 8 * split.size_bytes
    if isinstance(split.part, GroupChanges):
        return total + split.size_bytes
    if split.logs:
        base_bytes = split.base.size_bytes if split.base else 0
        total += sum(log.size_bytes for log in split.logs) + base_bytes // BASE_BYTES_FOR_ONE
    elif split.base is not None and split.base.size_bytes <= WHOLE_FILE_BYTES:
        total += WHOLE_FILE_COST
    return total


KERNELS: Final = KernelChoice()
"""The choices of this process."""
