"""Record positions of a log block: the base rows that its records belong to (`RECORD_POSITIONS`, table version 8+).

Decides whether the positions of a slice may be used, and decodes them. Source: Hudi
`PositionBasedFileGroupRecordBuffer`; a block's records are in the order of their positions.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

import numpy as np

from penstock.proto.errors import CorruptBlock
from penstock.reader.log.block_selection import CountedBlock
from penstock.table.log.blocks import BlockKind
from penstock.table.log.positions import cardinality

_WITHOUT_RUNS: Final = 12346
_OFFSETS_FROM: Final = 4
_LARGEST_ARRAY: Final = 4096
_BITMAP_BYTES: Final = 8192


def usable_positions(
    blocks: Sequence[CountedBlock], records: Sequence[int], base_instant: str
) -> list[np.ndarray] | None:
    """Each block's base rows (int64, ascending, one per record), if every block has them for this base file.

    `records` is the number of records of each block. None if a block has no positions (inserts), positions for another
    base file, or another number of positions than records, or is an HFile, whose records are in the order of their
    keys: then records are matched by key. CorruptBlock for positions that are not a Roaring map.
    """
    usable = []
    for counted, count in zip(blocks, records, strict=True):
        header = counted.block.header
        if counted.block.kind is BlockKind.HFILE_DATA:
            return None
        if not base_instant or not header.record_positions or header.base_instant_of_positions != base_instant:
            return None
        if cardinality(header.record_positions, str(counted.place)) != count:
            return None
        usable.append(_positions(base64.b64decode(header.record_positions), str(counted.place)))
    return usable


def _positions(data: bytes, where: str) -> np.ndarray:
    """The positions of a map that `cardinality` has checked: portable Roaring bitmaps by high 32 bits."""
    place = 8
    parts = [np.empty(0, np.int64)]
    for _ in range(int.from_bytes(data[:8], "little")):
        high = int.from_bytes(data[place : place + 4], "little") << 32
        if high >= 1 << 63:
            raise CorruptBlock(f"{where}: a record position of {high} or more is beyond any file")
        place = _bitmap(data, place + 4, high, parts)
    return np.concatenate(parts)


def _bitmap(data: bytes, place: int, high: int, parts: list[np.ndarray]) -> int:
    """Appends one 32-bit bitmap's positions; returns the offset after it."""
    cookie = int.from_bytes(data[place : place + 4], "little")
    runs = b""
    if cookie == _WITHOUT_RUNS:
        containers = int.from_bytes(data[place + 4 : place + 8], "little")
        place += 8
    else:
        containers = (cookie >> 16) + 1
        runs = data[place + 4 : place + 4 + (containers + 7) // 8]
        place += 4 + len(runs)
    heads = np.frombuffer(data, "<u2", 2 * containers, place).astype(np.int64).reshape(-1, 2)
    place += 4 * containers
    if not runs or containers >= _OFFSETS_FROM:
        place += 4 * containers
    for number, (key, last) in enumerate(heads.tolist()):
        start = high + (key << 16)
        if runs and runs[number // 8] >> (number % 8) & 1:
            count = int.from_bytes(data[place : place + 2], "little")
            pairs = np.frombuffer(data, "<u2", 2 * count, place + 2).astype(np.int64).reshape(-1, 2)
            parts.extend(np.arange(start + first, start + first + more + 1) for first, more in pairs.tolist())
            place += 2 + 4 * count
        elif last + 1 > _LARGEST_ARRAY:
            bits = np.unpackbits(np.frombuffer(data, np.uint8, _BITMAP_BYTES, place), bitorder="little")
            parts.append(np.flatnonzero(bits) + start)
            place += _BITMAP_BYTES
        else:
            parts.append(np.frombuffer(data, "<u2", last + 1, place).astype(np.int64) + start)
            place += 2 * (last + 1)
    return place
