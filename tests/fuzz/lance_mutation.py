"""Mutations of Lance files within their framing: one part is changed, and its stated position and size stay true."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

_FOOTER = struct.Struct("<QQQIIHH4s")
_PART = struct.Struct("<QQ")


def mutated_part(data: bytes, change: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    """The file with one change: of the descriptor, of a column's metadata, of the values of all columns, or of the
    footer with the tables of positions. ValueError or struct.error if its framing is damaged."""
    end = len(data) - _FOOTER.size
    columns_at, table_at, buffers_at, _, columns, *_ = _FOOTER.unpack(data[end:])
    if not columns_at <= table_at <= buffers_at <= end:
        raise ValueError("positions out of order")
    match rng.randrange(4):
        case 0:
            return _with_part(data, buffers_at, change)
        case 1:
            return _with_part(data, table_at + _PART.size * rng.randrange(columns), change)
        case 2:
            values = change(data[:columns_at])
            return (values + bytes(columns_at))[:columns_at] + data[columns_at:]
        case _:
            return data[:table_at] + change(data[table_at:])


def _with_part(data: bytes, entry: int, change: Callable[[bytes], bytes]) -> bytes:
    """The file with a changed part after its tables. `entry` is the place of its position and size."""
    end = len(data) - _FOOTER.size
    position, size = _PART.unpack(data[entry : entry + _PART.size])
    if size <= 0 or position + size > end:
        raise ValueError("a part outside of the file")
    part = change(data[position : position + size])
    return data[:entry] + _PART.pack(end, len(part)) + data[entry + _PART.size : end] + part + data[end:]
