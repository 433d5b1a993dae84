"""Protobuf messages of file footers, read field by field, without generated classes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

_MOST_NUMBER_BYTES: Final = 1_000_000
"""The bytes of all tags, lengths and integers of a descriptor, which are decoded one by one. A column has about 20."""
_ALL_BITS: Final = (1 << 64) - 1
_SHIFTS: Final = range(0, 70, 7)


class WireMessage:
    """A protobuf message with nested ones. pa.ArrowInvalid for damage, and for more than `_MOST_NUMBER_BYTES`."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._remaining = _MOST_NUMBER_BYTES

    def fields(self, place: int, end: int) -> Iterator[tuple[int, int | range]]:
        """The fields between two positions: (number, integer or positions of bytes)."""
        while place < end:
            tag, place = self._number(place, end)
            if tag >> 32:  # libraries of protobuf drop the bits above, and so see another field
                raise pa.ArrowInvalid(f"a descriptor with tag {tag}")
            kind = tag & 7
            if kind == 0:
                value, place = self._number(place, end)
                yield tag >> 3, value
                continue
            if kind == 2:
                size, place = self._number(place, end)
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
            else:
                raise pa.ArrowInvalid(f"a descriptor with wire type {kind}")
            if place + size > end:
                raise pa.ArrowInvalid("a descriptor that ends inside of a field")
            yield tag >> 3, range(place, place + size)
            place += size

    def numbers(self, packed: range) -> Iterator[int]:
        """The integers of a packed field."""
        place = packed.start
        while place < packed.stop:
            value, place = self._number(place, packed.stop)
            yield value

    def _number(self, place: int, end: int) -> tuple[int, int]:
        """The varint at a position, and the position after it."""
        value = 0
        for shift in _SHIFTS:
            if place >= end:
                break
            byte = self.data[place]
            place += 1
            value |= (byte & 127) << shift
            if byte < 128:
                self._remaining -= shift // 7 + 1
                if self._remaining < 0:
                    raise pa.ArrowInvalid(f"a descriptor with more than {_MOST_NUMBER_BYTES} bytes of numbers")
                return value & _ALL_BITS, place
        raise pa.ArrowInvalid("a descriptor with a damaged number")


def read_exactly(source: pa.NativeFile, position: int, size: int) -> bytes:
    """The bytes of a message in an open file. pa.ArrowInvalid if the file ends before; OSError."""
    source.seek(position)
    data = bytes(source.read(size))
    if len(data) != size:
        raise pa.ArrowInvalid(f"{len(data)} of {size} bytes at {position}: it is truncated")
    return data
