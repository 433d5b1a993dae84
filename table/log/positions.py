"""Parses the record positions of a block's header: base64 of Java's `Roaring64NavigableMap.serializePortable` (the
portable Roaring format). The reader decides whether positions are usable.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import numpy as np

from penstock.proto.errors import CorruptBlock

_WITH_RUNS: Final = 12347
_WITHOUT_RUNS: Final = 12346
_OFFSETS_FROM: Final = 4
"""In a bitmap with runs, container offsets are present from this number of containers on."""
_LARGEST_ARRAY: Final = 4096
_BITMAP_BYTES: Final = 8192


def cardinality(base64_text: str, where: str = "record positions") -> int:
    """The number of positions. CorruptBlock, beginning with `where`, unless the bytes are exactly one such bitmap.

    Checks every container: its positions ascend, and their number is that in its header.
    """
    try:
        data = base64.b64decode(base64_text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorruptBlock(f"{where}: not base64: {error}") from None
    cursor = _Cursor(data, where)
    total, last = 0, -1
    for _ in range(cursor.number(8)):
        high = cursor.number(4)
        if high <= last:
            raise cursor.damage(f"high half {high} after {last}")
        last = high
        total += _bitmap_cardinality(cursor)
    if cursor.left:
        raise cursor.damage(f"{cursor.left} bytes left over")
    return total


class _Cursor:
    """Reads the little-endian format; checks every read against the remaining bytes."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data, self._where, self._place = data, where, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._place

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise self.damage(f"{size} bytes expected where {self.left} are left")
        self._place += size
        return self._data[self._place - size : self._place]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def shorts(self, count: int) -> np.ndarray:
        return np.frombuffer(self.take(2 * count), "<u2").astype(np.int64)

    def damage(self, text: str) -> CorruptBlock:
        return CorruptBlock(f"{self._where}: byte {self._place} of the positions: {text}")


def _bitmap_cardinality(cursor: _Cursor) -> int:
    """The cardinality of a 32-bit Roaring bitmap: cookie, keys and cardinalities, offsets, containers."""
    cookie = cursor.number(4)
    runs = b""
    if cookie & 0xFFFF == _WITH_RUNS:
        containers = (cookie >> 16) + 1
        runs = cursor.take((containers + 7) // 8)
    elif cookie == _WITHOUT_RUNS:
        containers = cursor.number(4)
    else:
        raise cursor.damage(f"cookie {cookie}")
    if containers > 1 << 16:
        raise cursor.damage(f"{containers} containers")
    keys, counts = cursor.shorts(2 * containers).reshape(-1, 2).T
    if (np.diff(keys) <= 0).any():
        raise cursor.damage("containers out of order")
    if not runs or containers >= _OFFSETS_FROM:
        cursor.take(4 * containers)
    for number, count in enumerate((counts + 1).tolist()):
        is_run = bool(runs) and bool(runs[number // 8] >> (number % 8) & 1)
        if _container_cardinality(cursor, is_run, count) != count:
            raise cursor.damage(f"container {number} does not hold {count} positions")
    return int((counts + 1).sum())


def _container_cardinality(cursor: _Cursor, is_run: bool, count: int) -> int:
    """The number of positions in the next container; -1 if they do not ascend."""
    if is_run:
        starts, lengths = cursor.shorts(2 * cursor.number(2)).reshape(-1, 2).T
        if (starts + lengths > 0xFFFF).any() or (starts[1:] <= (starts + lengths)[:-1]).any():
            return -1
        return int((lengths + 1).sum())
    if count > _LARGEST_ARRAY:
        bits = np.frombuffer(cursor.take(_BITMAP_BYTES), np.uint8)
        return int(np.bitwise_count(bits).sum())
    return count if (np.diff(cursor.shorts(count)) > 0).all() else -1
