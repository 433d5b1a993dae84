"""Encodes Avro's whole numbers, and copies encoded values to their places in records.

Safety of `encode_longs`: `lengths` has as many elements as `numbers`, and `content` has MAX_LONG_BYTES for each.
Safety of `place_values`: `at` and `lengths` have the same number of elements; the lengths are not negative and add up
to the size of `content`; for each row, `at` and the length after it are within `output`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.reader.kernels.compilation import compiled_lean

MAX_LONG_BYTES: Final = 10
"""The most bytes of a long."""


@compiled_lean
def encode_longs(numbers: Any, lengths: Any, content: Any) -> Any:
    """Writes each int64 as Avro's int or long into `content` (uint8), and its number of bytes (int64) into `lengths`.
    Returns the bytes written."""
    at = 0
    for row in range(len(numbers)):
        number = numbers[row]
        bits = (np.uint64(number) << np.uint64(1)) ^ np.uint64(number >> np.int64(63))
        start = at
        while bits >= np.uint64(128):
            content[at] = np.uint8(bits & np.uint64(127)) | np.uint8(128)
            bits >>= np.uint64(7)
            at += 1
        content[at] = np.uint8(bits)
        at += 1
        lengths[row] = at - start
    return at


@compiled_lean
def place_values(at: Any, lengths: Any, content: Any, output: Any) -> Any:
    """Copies each row's value, `lengths[row]` bytes of `content` (uint8, in row order), to `at[row]` in `output`, and
    moves `at[row]` (int64) after it."""
    source = 0
    for row in range(len(lengths)):
        target = at[row]
        size = lengths[row]
        for place in range(size):
            output[target + place] = content[source + place]
        source += size
        at[row] = target + size
    return source
