"""Finds the records of an Avro data block by their lengths.

Safety: reads are compared with `stop`, which the caller keeps inside `data`; begin and end have one length.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.reader.kernels.compilation import compiled_lean


@compiled_lean
def walk_prefixed(data: Any, start: int, stop: int, begin: Any, end: Any) -> Any:
    """Fills begin and end with the records of data[start:stop]: [int32 big-endian length, body], len(begin) times.

    Returns the first record whose length exceeds the range, len(begin) if bytes are left over, or -1 for valid input.
    """
    p = np.int64(start)
    for r in range(len(begin)):
        if stop - p < 4:
            return r
        length = (np.int64(data[p]) << 24) | (np.int64(data[p + 1]) << 16)
        length |= (np.int64(data[p + 2]) << 8) | np.int64(data[p + 3])
        p += 4
        if length > stop - p:  # also negative values of int32
            return r
        begin[r] = p
        p += length
        end[r] = p
    return -1 if p == stop else len(begin)
