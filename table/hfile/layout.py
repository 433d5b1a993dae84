"""The parts of an HFile version 3 as values: trailer, block header, index entries, key-value cells. Pure.

Source: HBase `HFileBlock`, `FixedFileTrailer`, `HFile.proto`; Hudi `org.apache.hudi.io.hfile`. Belongs here: bytes in,
checked values out; LayoutError says what does not fit. Not here: reading the file (`hfile`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Final

TRAILER_BYTES: Final = 4096
"""The trailer takes so many bytes at the end of every version 3 file."""

BLOCK_HEADER_BYTES: Final = 33

DATA: Final = b"DATABLK*"
LEAF_INDEX: Final = b"IDXLEAF2"
INTERMEDIATE_INDEX: Final = b"IDXINTE2"
ROOT_INDEX: Final = b"IDXROOT2"
FILE_INFO: Final = b"FILEINF2"

_TRAILER_MAGIC: Final = b'TRABLK"$'
_INFO_MAGIC: Final = b"PBUF"
_MID_KEY_BYTES: Final = 16
"""Behind the entries of a root index of several levels HBase writes where the middle key is."""
_MAX_LEVELS: Final = 8
_MINORS: Final = (0, 1, 2, 3)

_HEADER = struct.Struct(">8siiqBii")
_INDEX_ENTRY = struct.Struct(">qi")
_TWO_LENGTHS = struct.Struct(">ii")


class LayoutError(ValueError):
    """Bytes that do not fit the format: what was got and what was expected."""


class Codec(IntEnum):
    """How blocks are compressed: the ordinals of HBase `Compression.Algorithm` that are read."""

    GZ = 1
    NONE = 2


class ChecksumType(IntEnum):
    """HBase `ChecksumType`."""

    NULL = 0
    CRC32 = 1
    CRC32C = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailer:
    """What the trailer says; offsets are checked against the file by whoever follows them."""

    minor: int
    file_info_offset: int
    load_on_open_offset: int
    data_index_count: int
    entry_count: int
    index_levels: int
    codec: Codec


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockHeader:
    """A block's header. `stored_bytes` counts what follows the header, checksums included; `data_end` is where the
    payload ends, counted from the begin of the header."""

    magic: bytes
    stored_bytes: int
    uncompressed_bytes: int
    checksum: ChecksumType
    bytes_per_checksum: int
    data_end: int


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A block by its place, and a row that none before it and no row of an earlier block reaches."""

    offset: int
    stored_bytes: int
    row: bytes


def parse_trailer(data: bytes) -> Trailer:
    """The trailer from the file's last TRAILER_BYTES bytes; absent numbers are 0, as in protobuf."""
    if len(data) != TRAILER_BYTES:
        raise LayoutError(f"{len(data)} bytes at the end, expected a trailer of {TRAILER_BYTES}")
    version = int.from_bytes(data[-4:], "big")
    major, minor = version & 0xFFFFFF, version >> 24
    if major != 3 or minor not in _MINORS:
        raise LayoutError(f"version {major}.{minor}, expected 3.0 to 3.3")
    if data[:8] != _TRAILER_MAGIC:
        raise LayoutError(f"trailer begins with {data[:8]!r}, expected {_TRAILER_MAGIC!r}")
    size, start = varint(data, 8)
    if start + size > TRAILER_BYTES - 4:
        raise LayoutError(f"trailer message of {size} bytes, at most {TRAILER_BYTES - 4 - start} fit")
    numbers = {field: value for field, value in protobuf_fields(data[start : start + size]) if isinstance(value, int)}
    codec = numbers.get(12, 0)
    if codec not in list(Codec):
        raise LayoutError(f"compression {codec}: this build reads GZ (1) and none (2)")
    levels = numbers.get(8, 0)
    if levels > _MAX_LEVELS:
        raise LayoutError(f"{levels} index levels, at most {_MAX_LEVELS} are read")
    return Trailer(
        minor=minor,
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

    Lengths of keys are Hadoop's variable-length integers; Hudi 1.1's writer wrote protobuf's, which are the same below
    128 (HUDI pull request 18465). Whichever takes in the block to its last byte is the right one.
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
            raise LayoutError("an entry leaves the block")
        offset, stored = _INDEX_ENTRY.unpack_from(data, at)
        length, at = length_at(data, at + _INDEX_ENTRY.size)
        if not 0 <= length <= len(data) - at:
            raise LayoutError(f"key of {length} bytes with {len(data) - at} left")
        entries.append(IndexEntry(offset, stored, row_of(data[at : at + length])))
        at += length
    if len(data) - at not in ((0,) if levels < 2 else (0, _MID_KEY_BYTES)):
        raise LayoutError(f"{len(data) - at} bytes behind the last entry")
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
        _, at = hadoop_vint(data, value_at + value_bytes)  # the version (mvcc), always 0


def row_of(key: bytes) -> bytes:
    """The row in a cell's key: two bytes of length, the row, then what tells cells of one row apart (early builds of
    Hudi's own writer left that out)."""
    size = int.from_bytes(key[:2], "big", signed=True)
    if len(key) < 2 or not 0 <= size <= len(key) - 2:
        raise LayoutError(f"key of {len(key)} bytes says that its row has {size}")
    return key[2 : 2 + size]


def parse_file_info(data: bytes) -> dict[bytes, bytes]:
    """Names and values of a file info block. Empty for a block of the layout before protobuf, which nothing needs."""
    if data[:4] != _INFO_MAGIC:
        return {}
    size, start = varint(data, 4)
    if start + size > len(data):
        raise LayoutError(f"file info of {size} bytes with {len(data) - start} left")
    found: dict[bytes, bytes] = {}
    for field, value in protobuf_fields(data[start : start + size]):
        if field == 1 and isinstance(value, bytes):
            pair = {number: part for number, part in protobuf_fields(value) if isinstance(part, bytes)}
            found[pair.get(1, b"")] = pair.get(2, b"")
    return found


def protobuf_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of a protobuf message: whole numbers, and bytes of what has a length. Fixed-width fields
    are passed over."""
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
                    raise LayoutError(f"field {field} leaves its message")
            case _:
                raise LayoutError(f"field {field} of wire type {kind}")


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A protobuf varint at `at`, and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise LayoutError("a number leaves its block")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise LayoutError("a number longer than 10 bytes")


def hadoop_vint(data: bytes, at: int) -> tuple[int, int]:
    """A number as Hadoop `WritableUtils.writeVLong` writes it, and the place behind it."""
    if at >= len(data):
        raise LayoutError("a number leaves its block")
    first = data[at] - 256 if data[at] > 127 else data[at]
    at += 1
    if first >= -112:
        return first, at
    size = -112 - first if first >= -120 else -120 - first
    if at + size > len(data):
        raise LayoutError("a number leaves its block")
    value = int.from_bytes(data[at : at + size], "big")
    return (value if first >= -120 else ~value), at + size
