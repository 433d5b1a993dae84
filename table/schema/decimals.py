"""Converts Avro decimals (big-endian two's complement bytes) to Arrow decimals and back, and single numbers. Exact."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa

_WIDTH: Final = 16


def decimals_from_bytes(content: pa.BinaryArray, target: pa.DataType) -> pa.Array:
    """Converts the unscaled numbers of a binary array to `target`, a decimal128. Nulls stay null.

    ValueError for a value without bytes, beyond 128 bits, or of more digits than `target` has.
    """
    rows = len(content)
    offsets = np.frombuffer(content.buffers()[1], np.int32)[content.offset : content.offset + rows + 1]
    lengths = np.diff(offsets)
    lengths[np.asarray(content.is_null())] = 0
    if ((lengths == 0) & np.asarray(content.is_valid())).any():
        raise ValueError("a decimal without bytes")
    packed = np.zeros((rows, _WIDTH), np.uint8)
    data = np.frombuffer(content.buffers()[2] or b"", np.uint8)
    filled = lengths > 0
    first = offsets[:-1]
    if filled.any():
        packed[filled & (data[np.where(filled, first, 0)] >= 128)] = 255
    for place in range(
        int(lengths.max(initial=0))
    ):  # place 0 is the lowest byte; one iteration for each byte, not each row
        here = lengths > place
        bytes_here = data[(first + lengths - 1 - place)[here]]
        if place < _WIDTH:
            packed[here, _WIDTH - 1 - place] = bytes_here
        elif (bytes_here != np.where(packed[here, 0] >= 128, 255, 0)).any():
            raise ValueError("a decimal beyond 128 bits")
    halves = np.ascontiguousarray(packed[:, ::-1])
    array = pa.Array.from_buffers(target, rows, [_validity(content), pa.py_buffer(halves)])
    array.validate(full=True)  # ArrowInvalid is a ValueError
    return array


def decimals_to_bytes(decimals: pa.Array) -> pa.BinaryArray:
    """The unscaled numbers of a decimal128 array without nulls, each in as few bytes as possible (Java
    `BigInteger.toByteArray`)."""
    rows = len(decimals)
    start = decimals.offset * _WIDTH
    data = np.frombuffer(decimals.buffers()[1] or b"", np.uint8)[start : start + rows * _WIDTH]
    big_endian = data.reshape(rows, _WIDTH)[:, ::-1]
    sign = np.where(big_endian[:, :1] >= 128, 255, 0)
    # a first byte is redundant if it and the first bit of the next one only repeat the sign
    redundant = (big_endian[:, :-1] == sign) & ((big_endian[:, 1:] >= 128) == (sign == 255))
    skipped = np.cumprod(redundant, axis=1).sum(axis=1)
    kept = np.arange(_WIDTH) >= skipped[:, None]
    offsets = np.concatenate([[0], np.cumsum(_WIDTH - skipped)]).astype(np.int32)
    content = np.ascontiguousarray(big_endian[kept])
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(content)])


def scaled(unscaled: int, scale: int) -> Decimal:
    """The number unscaled * 10^-scale with all its digits. `Decimal.scaleb` rounds to the digits of the context."""
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -scale))


def _validity(array: pa.Array) -> pa.Buffer | None:
    if not array.null_count:
        return None
    return pa.py_buffer(np.packbits(np.asarray(array.is_valid()), bitorder="little"))
