"""Encodes columns of Avro values, and joins them to records, without a loop over the rows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

Column: TypeAlias = tuple[np.ndarray, np.ndarray]
"""(int64 lengths, uint8 content): the bytes of each row's value, one after the other."""

_MAX_VARINT: Final = 10


def constant(data: bytes, rows: int) -> Column:
    """The same bytes for each row."""
    return np.full(rows, len(data), np.int64), np.tile(np.frombuffer(data, np.uint8), rows)


def varints(numbers: np.ndarray) -> Column:
    """Avro's int or long: zigzag, then seven bits a byte, the lowest first."""
    values = numbers.astype(np.int64)
    bits = ((values << 1) ^ (values >> 63)).view(np.uint64)
    shifts = np.arange(0, 7 * _MAX_VARINT, 7, dtype=np.uint64)
    sevens = bits[:, None] >> shifts
    lengths = np.maximum(1, (sevens != 0).sum(axis=1))
    places = np.arange(_MAX_VARINT)
    encoded = (sevens & np.uint64(127)).astype(np.uint8)
    encoded[places < lengths[:, None] - 1] |= 128
    return lengths, encoded[places < lengths[:, None]]


def little_endian(numbers: np.ndarray) -> Column:
    """Numbers of a fixed width: Avro's float, double and boolean."""
    width = numbers.dtype.itemsize
    stored = np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<"))
    return np.full(len(numbers), width, np.int64), stored.view(np.uint8)


def texts(array: pa.Array) -> Column:
    """The bytes of strings or binaries without nulls; their lengths are encoded apart."""
    _, offsets, data = array.buffers()
    if not len(array):
        return np.zeros(0, np.int64), np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    content = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
    return np.diff(bounds), content


def interleaved(columns: Sequence[Column]) -> bytes:
    """The bytes of each row: its value of each column in order. The columns have the same number of rows."""
    lengths = np.stack([lengths for lengths, _ in columns])
    sizes = lengths.sum(axis=0)
    starts = np.cumsum(sizes) - sizes
    output = np.empty(int(sizes.sum()), np.uint8)
    for column_lengths, content in columns:
        before = np.cumsum(column_lengths) - column_lengths
        output[np.repeat(starts - before, column_lengths) + np.arange(len(content))] = content
        starts = starts + column_lengths
    return output.tobytes()
