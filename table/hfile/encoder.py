"""Encodes HFiles of version 3, as in logs and base files of the metadata table. Pure.

Source: Hudi `HFileWriterImpl`. `reader` decodes them. The index has one level, as Hudi's; its keys have the long form
of HBase, which Hudi's and HBase's readers accept.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from penstock.table.hfile.layout import (
    BLOCK_HEADER_BYTES,
    DATA,
    FILE_INFO,
    INFO_MAGIC,
    ROOT_INDEX,
    TRAILER_BYTES,
    TRAILER_MAGIC,
    Codec,
)

BLOCK_BYTES: Final = 64 << 10
"""Size from which a new data block begins, uncompressed: Hudi's `hoodie.hfile.block.size` is 1 MiB."""
MAX_ROW_BYTES: Final = (1 << 15) - 1

_COMPARATOR: Final = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_CHUNK: Final = 16 << 10
_KEY_TAIL: Final = b"\0" + struct.pack(">q", (1 << 63) - 1) + b"\4"
"""After the row: no column family, the latest timestamp, type put."""
_VERSION: Final = 3


def encode_hfile(
    cells: Iterable[tuple[bytes, bytes]], info: Mapping[str, bytes], *, block_bytes: int = BLOCK_BYTES
) -> bytes:
    """The bytes of a file with these (row, value), which `reader.HFile` reads. Blocks are compressed by gzip.

    cells: rows ascend and are unique. info: properties of the file, such as `schema`; the required ones are added.
    ValueError for rows in another order, and for one of more than MAX_ROW_BYTES.
    """
    rows = list(cells)
    for (row, _), (following, _) in pairwise(rows):
        if row >= following:
            raise ValueError(f"HFile: row {following[:60]!r} after {row[:60]!r}, expected ascending rows")
    if any(len(row) > MAX_ROW_BYTES for row, _ in rows):
        raise ValueError(f"HFile: a row of more than {MAX_ROW_BYTES} bytes")
    file = _File()
    index, data_bytes = _data_blocks(file, rows, block_bytes)
    root = b"".join(struct.pack(">qi", offset, size) + _hadoop_vint(len(key)) + key for offset, size, key in index)
    root_at = file.add(ROOT_INDEX, root)
    file.add(ROOT_INDEX, b"")  # of meta blocks: readers expect it
    info_at = file.add(FILE_INFO, _file_info({**info, **_required_info(rows)}))
    numbers = {
        1: info_at,
        2: root_at,
        3: data_bytes,
        4: 0,
        5: len(index),
        6: 0,
        7: len(rows),
        8: 1,
        9: index[0][0] if index else 0,
        10: index[-1][0] if index else 0,
    }
    message = b"".join(_varint(number << 3) + _varint(value) for number, value in numbers.items())
    message += _varint(11 << 3 | 2) + _varint(len(_COMPARATOR)) + _COMPARATOR + _varint(12 << 3) + _varint(Codec.GZ)
    trailer = TRAILER_MAGIC + _varint(len(message)) + message
    return bytes(file.content) + trailer.ljust(TRAILER_BYTES - 4, b"\0") + struct.pack(">i", _VERSION)


@dataclass(slots=True)
class _File:
    """The blocks so far."""

    content: bytearray = field(default_factory=bytearray)
    last: dict[bytes, int] = field(default_factory=dict)
    """Type -> position of its last block."""

    def add(self, magic: bytes, data: bytes) -> int:
        """Appends a block; its position. Its checksums have the type none, and are 0."""
        offset = len(self.content)
        payload = gzip.compress(data, 6, mtime=0)
        end = BLOCK_HEADER_BYTES + len(payload)
        checksums = bytes(4 * -(-end // _CHUNK))
        header = struct.pack(
            ">8siiqBii", magic, len(payload) + len(checksums), len(data), self.last.get(magic, -1), 0, _CHUNK, end
        )
        self.content += header + payload + checksums
        self.last[magic] = offset
        return offset


def _data_blocks(
    file: _File, rows: list[tuple[bytes, bytes]], block_bytes: int
) -> tuple[list[tuple[int, int, bytes]], int]:
    """(position, size, first key) of each data block, and their uncompressed size."""
    index: list[tuple[int, int, bytes]] = []
    part: list[bytes] = []
    first, size, total = b"", 0, 0

    def flush() -> None:
        offset = file.add(DATA, b"".join(part))
        index.append((offset, len(file.content) - offset, first))
        part.clear()

    for row, value in rows:
        key = struct.pack(">H", len(row)) + row + _KEY_TAIL
        cell = struct.pack(">ii", len(key), len(value)) + key + value + b"\0"
        if part and size + len(cell) > block_bytes:
            flush()
            size = 0
        if not part:
            first = key
        part.append(cell)
        size += len(cell)
        total += len(cell)
    if part:
        flush()
    return index, total


def _required_info(rows: list[tuple[bytes, bytes]]) -> dict[str, bytes]:
    last = struct.pack(">H", len(rows[-1][0])) + rows[-1][0] if rows else b""
    count = max(len(rows), 1)
    return {
        "hfile.LASTKEY": last,
        "hfile.AVG_KEY_LEN": struct.pack(">i", sum(len(row) for row, _ in rows) // count),
        "hfile.AVG_VALUE_LEN": struct.pack(">i", sum(len(value) for _, value in rows) // count),
        "hfile.CREATE_TIME_TS": struct.pack(">q", 0),
        "KEY_VALUE_VERSION": struct.pack(">i", 1),
        "MAX_MEMSTORE_TS_KEY": struct.pack(">q", 0),
    }


def _file_info(info: Mapping[str, bytes]) -> bytes:
    pairs = b""
    for name, value in sorted(info.items()):
        text = name.encode()
        pair = b"\x0a" + _varint(len(text)) + text + b"\x12" + _varint(len(value)) + value
        pairs += b"\x0a" + _varint(len(pair)) + pair
    return INFO_MAGIC + _varint(len(pairs)) + pairs


def _varint(number: int) -> bytes:
    """A number that is not negative, as in protobuf."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _hadoop_vint(number: int) -> bytes:
    """A number that is not negative, as Hadoop `WritableUtils.writeVLong` writes it."""
    if number < 128:
        return bytes([number])
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([256 - 112 - len(data)]) + data
