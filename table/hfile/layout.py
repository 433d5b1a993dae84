"""Parses the parts of an HFile version 3: trailer, block header, index entries, key-value cells. Pure.

Source: HBase `HFileBlock`, `FixedFileTrailer`, `HFile.proto`; Hudi `org.apache.hudi.io.hfile`. LayoutError names a
value that does not follow the format. `reader` reads the file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import pairwise
from typing import Final

from penstock.proto.value_classes import dataclass

TRAILER_BYTES: Final = 4096
"""Size of the trailer at the end of every version 3 file."""

BLOCK_HEADER_BYTES: Final = 33

DATA: Final = b"DATABLK*"
LEAF_INDEX: Final = b"IDXLEAF2"
INTERMEDIATE_INDEX: Final = b"IDXINTE2"
ROOT_INDEX: Final = b"IDXROOT2"
FILE_INFO: Final = b"FILEINF2"

TRAILER_MAGIC: Final = b'TRABLK"$'
INFO_MAGIC: Final = b"PBUF"
_MID_KEY_BYTES: Final = 16
"""Size of the position of the middle key, which HBase writes after the entries of a multi-level root index."""
_MAX_LEVELS: Final = 8
_MINORS: Final = (0, 1, 2, 3)

_HEADER = struct.Struct(">8siiqBii")
_INDEX_ENTRY = struct.Struct(">qi")
_TWO_LENGTHS = struct.Struct(">ii")


class LayoutError(ValueError):
    """Bytes that do not follow the format. The text has the actual and the expected value."""


class UnknownCompression(ValueError):
    """A compression of HBase that this release does not read. The text is its name."""


class Codec(IntEnum):
    """Compression of blocks: the supported ordinals of HBase `Compression.Algorithm`."""

    GZ = 1
    NONE = 2
    SNAPPY = 3
    LZ4 = 4


_NOT_READ: Final = {0: "LZO", 5: "BZIP2", 6: "ZSTD"}
"""The other ordinals of `Compression.Algorithm`."""


class ChecksumType(IntEnum):
    """HBase `ChecksumType`."""

    NULL = 0
    CRC32 = 1
    CRC32C = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailer:
    """The trailer of a file. Its offsets are not checked against the size of the file."""

    file_info_offset: int
    """Position of the file info block; 0 without one."""
    load_on_open_offset: int
    """Position of the root index block."""
    data_index_count: int
    """Number of entries of the root index."""
    entry_count: int
    """Number of cells."""
    index_levels: int
    """Number of index levels."""
    codec: Codec
    """Compression of blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockHeader:
    """The header of a block."""

    magic: bytes
    """Type of the block."""
    stored_bytes: int
    """Number of bytes after the header, checksums included."""
    uncompressed_bytes: int
    """Size of the payload after decompression."""
    checksum: ChecksumType
    """Type of the checksums."""
    bytes_per_checksum: int
    """Number of bytes that each checksum covers."""
    data_end: int
    """End of the payload, from the start of the header."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The position of a block."""

    offset: int
    """First byte of the block in the file."""
    stored_bytes: int
    """Size of the block in the file."""
    row: bytes
    """A lower bound of the block's rows, greater than all rows of earlier blocks."""


def parse_trailer(data: bytes) -> Trailer:
    """The trailer from the file's last TRAILER_BYTES bytes; absent numbers are 0, as in protobuf.

    UnknownCompression for one that is not read. Hudi takes an absent compression for NONE; it is damage here, because
    no writer omits it and an empty trailer would be a file without rows.
    """
    if len(data) != TRAILER_BYTES:
        raise LayoutError(f"{len(data)} bytes at the end, expected a trailer of {TRAILER_BYTES}")
    version = int.from_bytes(data[-4:], "big")
    major, minor = version & 0xFFFFFF, version >> 24
    if major != 3 or minor not in _MINORS:
        raise LayoutError(f"version {major}.{minor}, expected 3.0 to 3.3")
    if data[:8] != TRAILER_MAGIC:
        raise LayoutError(f"trailer begins with {data[:8]!r}, expected {TRAILER_MAGIC!r}")
    size, start = varint(data, 8)
    if start + size > TRAILER_BYTES - 4:
        raise LayoutError(f"trailer message of {size} bytes, at most {TRAILER_BYTES - 4 - start} fit")
    numbers = {field: value for field, value in protobuf_fields(data[start : start + size]) if isinstance(value, int)}
    codec = numbers.get(12, -1)
    if codec in _NOT_READ:
        raise UnknownCompression(_NOT_READ[codec])
    if codec not in list(Codec):
        raise LayoutError(f"compression {codec}, expected 0 to 6")
    levels = numbers.get(8, 0)
    if levels > _MAX_LEVELS:
        raise LayoutError(f"{levels} index levels, at most {_MAX_LEVELS} are read")
    return Trailer(
        file_info_offset=numbers.get(1, 0),
        load_on_open_offset=numbers.get(2, 0),
        data_index_count=numbers.get(5, 0),
        entry_count=numbers.get(7, 0),
        index_levels=levels,
        codec=Codec(codec),
    )


def parse_block_header(data: bytes) -> BlockHeader:
    """A block's header from its BLOCK_HEADER_BYTES bytes."""
    if len(data) != BLOCK_HEADER_BYTES:
        raise LayoutError(f"{len(data)} bytes, expected a block header of {BLOCK_HEADER_BYTES}")
    magic, stored, uncompressed, _, checksum, per_checksum, data_end = _HEADER.unpack(data)
    if stored < 0 or uncompressed < 0 or not BLOCK_HEADER_BYTES <= data_end <= BLOCK_HEADER_BYTES + stored:
        raise LayoutError(f"block of {stored} bytes, {uncompressed} uncompressed, with its payload up to {data_end}")
    if checksum not in list(ChecksumType):
        raise LayoutError(f"checksum type {checksum}, expected 0, 1 or 2")
    return BlockHeader(
        magic=magic,
        stored_bytes=stored,
        uncompressed_bytes=uncompressed,
        checksum=ChecksumType(checksum),
        bytes_per_checksum=per_checksum,
        data_end=data_end,
    )


def parse_root_index(data: bytes, count: int, levels: int) -> list[IndexEntry]:
    """The entries of a root index block.

    Key lengths are Hadoop's variable-length integers. Hudi 1.1 wrote those of protobuf, which are the same below 128
    (HUDI pull request 18465). The encoding that consumes the block exactly is the right one.
    """
    problem = ""
    for length_at in (hadoop_vint, varint):
        try:
            return _root_entries(data, count, levels, length_at)
        except LayoutError as error:
            problem = problem or str(error)
    raise LayoutError(f"root index of {count} entries: {problem}")


def _root_entries(
    data: bytes, count: int, levels: int, length_at: Callable[[bytes, int], tuple[int, int]]
) -> list[IndexEntry]:
    if count > len(data) // (_INDEX_ENTRY.size + 3):
        raise LayoutError(f"{count} entries in {len(data)} bytes")
    entries: list[IndexEntry] = []
    at = 0
    for _ in range(count):
        if at + _INDEX_ENTRY.size > len(data):
            raise LayoutError("an entry exceeds the block")
        offset, stored = _INDEX_ENTRY.unpack_from(data, at)
        length, at = length_at(data, at + _INDEX_ENTRY.size)
        if not 0 <= length <= len(data) - at:
            raise LayoutError(f"key of {length} bytes with {len(data) - at} left")
        entries.append(IndexEntry(offset, stored, row_of(data[at : at + length])))
        at += length
    if len(data) - at not in ((0,) if levels < 2 else (0, _MID_KEY_BYTES)):
        raise LayoutError(f"{len(data) - at} bytes after the last entry")
    return entries


def parse_inner_index(data: bytes) -> list[IndexEntry]:
    """The entries of a leaf or intermediate index block."""
    if len(data) < 4:
        raise LayoutError("an index block without its count")
    count = int.from_bytes(data[:4], "big", signed=True)
    start = 4 + 4 * (count + 1)
    if count < 0 or start > len(data):
        raise LayoutError(f"index of {count} entries in {len(data)} bytes")
    places = struct.unpack_from(f">{count + 1}i", data, 4)
    entries: list[IndexEntry] = []
    for begin, end in pairwise(places):
        if not 0 <= begin <= end - _INDEX_ENTRY.size <= len(data) - start - _INDEX_ENTRY.size:
            raise LayoutError(f"index entry from {begin} to {end} in {len(data) - start} bytes")
        offset, stored = _INDEX_ENTRY.unpack_from(data, start + begin)
        entries.append(IndexEntry(offset, stored, row_of(data[start + begin + _INDEX_ENTRY.size : start + end])))
    return entries


def parse_cells(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(row, value) of each cell of a data block, in its order."""
    at = 0
    while at < len(data):
        if at + _TWO_LENGTHS.size > len(data):
            raise LayoutError(f"a cell begins {len(data) - at} bytes before the block's end")
        key_bytes, value_bytes = _TWO_LENGTHS.unpack_from(data, at)
        at += _TWO_LENGTHS.size
        if key_bytes < 0 or value_bytes < 0 or key_bytes + value_bytes >= len(data) - at:
            raise LayoutError(f"cell of {key_bytes} + {value_bytes} bytes with {len(data) - at} left")
        value_at = at + key_bytes
        yield row_of(data[at:value_at]), data[value_at : value_at + value_bytes]
        _, at = hadoop_vint(data, value_at + value_bytes)  # the MVCC version, always 0


def row_of(key: bytes) -> bytes:
    """The row in a cell's key: two bytes of length, the row, then column, timestamp and type of the cell.

    Early builds of Hudi's writer left the latter out.
    """
    size = int.from_bytes(key[:2], "big", signed=True)
    if len(key) < 2 or not 0 <= size <= len(key) - 2:
        raise LayoutError(f"key of {len(key)} bytes has a row of {size} bytes")
    return key[2 : 2 + size]


def parse_file_info(data: bytes) -> dict[bytes, bytes]:
    """Name -> value of a file info block; empty for a block in the format before protobuf, which is not required."""
    if data[:4] != INFO_MAGIC:
        return {}
    size, start = varint(data, 4)
    if start + size > len(data):
        raise LayoutError(f"file info of {size} bytes with {len(data) - start} left")
    info: dict[bytes, bytes] = {}
    for field, value in protobuf_fields(data[start : start + size]):
        if field == 1 and isinstance(value, bytes):
            pair = {number: part for number, part in protobuf_fields(value) if isinstance(part, bytes)}
            info[pair.get(1, b"")] = pair.get(2, b"")
    return info


def protobuf_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of a protobuf message: integers and length-delimited bytes. Skips fixed-width fields."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        field, kind = tag >> 3, tag & 7
        match kind:
            case 0:
                value, at = varint(data, at)
                yield field, value
            case 2:
                size, at = varint(data, at)
                if size > len(data) - at:
                    raise LayoutError(f"field {field} of {size} bytes with {len(data) - at} left")
                yield field, data[at : at + size]
                at += size
            case 1 | 5:
                at += 8 if kind == 1 else 4
                if at > len(data):
                    raise LayoutError(f"field {field} exceeds its message")
            case _:
                raise LayoutError(f"field {field} of wire type {kind}")


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The protobuf varint at `at`, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise LayoutError("a number exceeds its block")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise LayoutError("a number longer than 10 bytes")


def hadoop_vint(data: bytes, at: int) -> tuple[int, int]:
    """A number as Hadoop `WritableUtils.writeVLong` writes it, and the position after it."""
    if at >= len(data):
        raise LayoutError("a number exceeds its block")
    first = data[at] - 256 if data[at] > 127 else data[at]
    at += 1
    if first >= -112:
        return first, at
    size = -112 - first if first >= -120 else -120 - first
    if at + size > len(data):
        raise LayoutError("a number exceeds its block")
    value = int.from_bytes(data[at : at + size], "big")
    return (value if first >= -120 else ~value), at + size
