"""Parses the framing of a log file: magic, size, type, headers, content, footers, reverse pointer. Pure.

Source: Hudi `HoodieLogFormat`. Gives the position and header of each block; `deletes` and the reader decode contents.
Each length is checked before use, and nothing outside of the given bytes is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import pyarrow as pa

from penstock.proto.errors import CorruptBlock
from penstock.proto.value_classes import dataclass
from penstock.table.log.remote_bytes import RemoteBytes

MAGIC: Final = b"#HUDI#"
_NEXT_MAGIC: Final = re.compile(re.escape(MAGIC))
_INSTANT: Final = re.compile(r"[0-9]{1,24}")

_PREFIX: Final = len(MAGIC) + 8
"""Magic and size. The size counts the bytes after it; the reverse pointer at the end is size + 6."""
_SMALLEST: Final = 4 + 4 + 4 + 8 + 4 + 8
"""Format version, type, header count, content length, footer count, reverse pointer."""

_INSTANT_TIME, _TARGET_INSTANT, _SCHEMA, _COMMAND, _COMPACTED, _POSITIONS, _IS_PARTIAL, _POSITIONS_BASE = (
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
)


class BlockKind(IntEnum):
    """The type of a block: the ordinals of Hudi `HoodieLogBlock.HoodieLogBlockType`."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockHeader:
    """A block's header (Hudi `HeaderMetadataType`); '' for an entry that the block does not have."""

    instant_time: str
    """Requested time of the instant that wrote the block, 1 to 24 digits."""
    target_instant_time: str = ""
    """The instant that a command block refers to."""
    schema_json: str = ""
    """Avro schema of the records."""
    command: str = ""
    """'0' for a rollback of `target_instant_time`."""
    compacted_block_times: tuple[str, ...] = ()
    """Instants of the blocks that a log compaction replaced."""
    record_positions: str | None = None
    """Positions of the records in the base file, base64 (see `positions`)."""
    base_instant_of_positions: str = ""
    """Instant of the base file for which `record_positions` are valid."""
    is_partial: bool = False
    """Whether the records have a part of the columns only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBlock:
    """A complete block of a log file."""

    kind: BlockKind
    """Its type."""
    header: BlockHeader
    """Its header."""
    offset: int
    """First byte of the block in the file."""
    content_start: int
    """First byte of its content in the file."""
    content_end: int
    """End of its content; at least 12 bytes of the block follow (footer count, reverse pointer)."""
    end: int
    """End of the block."""


@dataclass(frozen=True, slots=True)
class SchemaBlock:
    """A complete Avro block whose header has a schema but no instant."""

    schema_json: str
    """Avro schema of the records."""
    offset: int
    """First byte of the block in the file."""
    content_start: int
    """First byte of its content in the file."""
    content_end: int
    """End of its content."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of bytes that is not a complete block."""

    start: int
    """First byte in the file."""
    end: int
    """End of the range."""
    reason: str
    """What was found and what was expected."""


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """The location of a block, for errors."""

    table: str
    """The table, redacted."""
    file: str
    """Path of the log file."""
    offset: int
    """First byte of the block in the file."""
    instant: str
    """The instant that wrote it."""

    def __str__(self) -> str:
        return f"table {self.table}: {self.file}: block at byte {self.offset} of instant {self.instant}"


_View = memoryview | RemoteBytes


def read_blocks(data: memoryview | pa.Buffer | RemoteBytes, file: str) -> Iterator[LogBlock | Damage]:
    """Every block of a log file, in file order, and every damaged range between them.

    The items cover the file without overlap. A block is complete by Hudi's rule (`HoodieLogFileReader`): it begins with
    the magic, its size stays within the file, its reverse pointer has the same size, and the magic or the end of the
    file (or too few bytes for a magic) follows. Otherwise a Damage ends at the next magic; with `RemoteBytes`, at the
    end of the file. A complete block with an inconsistent header or footer is a Damage up to its end. The content is
    not read. CorruptBlock, with `file`, for a format version other than 1 and an unknown block type.
    """
    view = data if isinstance(data, RemoteBytes) else memoryview(data).cast("B")
    offset = 0
    while offset < len(view):
        end = _end_of_block(view, offset)
        if isinstance(end, str):
            following = len(view) if isinstance(view, RemoteBytes) else _next_magic(view, offset)
            yield Damage(offset, following, end)
            offset = following
        else:
            yield _read_block(view, offset, end, file)
            offset = end


def read_schema_blocks(data: memoryview | pa.Buffer, file: str) -> Iterator[SchemaBlock | Damage]:
    """As `read_blocks`, for archived timelines, whose blocks have a schema but no instant.

    A Damage is the last item: later blocks are not searched.
    """
    view = memoryview(data).cast("B")
    place = 0
    while place < len(view):
        end = _end_of_block(view, place)
        if isinstance(end, str):
            yield Damage(place, _next_magic(view, place), end)
            return
        yield _schema_block(view, place, end, file)
        place = end


def _schema_block(view: memoryview, offset: int, end: int, file: str) -> SchemaBlock | Damage:
    version, ordinal = _integer(view, offset + _PREFIX, 4), _integer(view, offset + _PREFIX + 4, 4)
    if version != 1 or ordinal != BlockKind.AVRO_DATA:
        raise CorruptBlock(f"{file}: block at byte {offset}: format {version}, type {ordinal}; expected 1, Avro")
    header = _entries(view, offset + _PREFIX + 8, end - 8)
    if isinstance(header, str):
        return Damage(offset, end, f"header: {header}")
    entries, start = header
    length = _integer(view, start, 8) if end - start >= 20 else -1
    if not 0 <= length <= end - 12 - (start + 8):
        return Damage(offset, end, f"content of {length} bytes where {end - start - 20} are left")
    try:
        schema = str(entries.get(_SCHEMA, b""), "utf-8")
    except UnicodeDecodeError as error:
        return Damage(offset, end, f"schema is not UTF-8: {error.reason}")
    return SchemaBlock(schema, offset, start + 8, start + 8 + length)


def _end_of_block(view: _View, place: int) -> int | str:
    """The end of the block at `place`, or the reason why there is none."""
    if bytes(view[place : place + len(MAGIC)]) != MAGIC:
        return "no magic"
    if len(view) - place < _PREFIX:
        return "the file ends in the block's size"
    size = _integer(view, place + len(MAGIC), 8)
    end = place + _PREFIX + size
    if size < _SMALLEST or end > len(view):
        return f"block size {size} where {len(view) - place - _PREFIX} bytes follow"
    pointer = _integer(view, end - 8, 8)
    if pointer != size + len(MAGIC):
        return f"reverse pointer {pointer}, expected {size + len(MAGIC)}"
    if len(view) - end >= len(MAGIC) and bytes(view[end : end + len(MAGIC)]) != MAGIC:
        return "neither a block nor the end of the file follows"
    return end


def _next_magic(view: memoryview, place: int) -> int:
    """The first magic after the one at `place`, or the end of the file."""
    after = place + len(MAGIC) if bytes(view[place : place + len(MAGIC)]) == MAGIC else place + 1
    match = _NEXT_MAGIC.search(view, min(after, len(view)))
    return match.start() if match else len(view)


def _read_block(view: _View, offset: int, end: int, file: str) -> LogBlock | Damage:
    version, ordinal = _integer(view, offset + _PREFIX, 4), _integer(view, offset + _PREFIX + 4, 4)
    if version != 1:
        raise CorruptBlock(
            f"{file}: block at byte {offset}: log format version {version}; expected version 1, as of Hudi 0.4 to 1.2"
        )
    if ordinal not in BlockKind.__members__.values():
        raise CorruptBlock(f"{file}: block at byte {offset}: unknown block type {ordinal}")
    trailer = end - 8
    header = _entries(view, offset + _PREFIX + 8, trailer)
    if isinstance(header, str):
        return Damage(offset, end, f"header: {header}")
    texts, start = header
    if trailer - start < 8:
        return Damage(offset, end, "no room for the content's length")
    length = _integer(view, start, 8)
    content_end = start + 8 + length
    if length < 0 or content_end > trailer - 4:
        return Damage(offset, end, f"content of {length} bytes where {trailer - start - 12} are left")
    footer = _entries(view, content_end, trailer)
    if isinstance(footer, str):
        return Damage(offset, end, f"footer: {footer}")
    if footer[1] != trailer:
        return Damage(offset, end, f"{trailer - footer[1]} bytes between footer and reverse pointer")
    block_header = _header(texts)
    if isinstance(block_header, str) or ordinal == BlockKind.CORRUPT:
        return Damage(
            offset, end, block_header if isinstance(block_header, str) else "a block that the writer marked as corrupt"
        )
    return LogBlock(
        kind=BlockKind(ordinal),
        header=block_header,
        offset=offset,
        content_start=start + 8,
        content_end=content_end,
        end=end,
    )


def _entries(view: _View, place: int, limit: int) -> tuple[dict[int, memoryview], int] | str:
    """(ordinal -> bytes, the position after the entries), or the error. Of a repeated ordinal the last entry counts."""
    if limit - place < 4:
        return "no room for the number of entries"
    count = _integer(view, place, 4)
    place += 4
    if not 0 <= count <= (limit - place) // 8:
        return f"{count} entries in {limit - place} bytes"
    entries: dict[int, memoryview] = {}
    for number in range(count):
        if limit - place < 8:
            return f"entry {number} of {count} exceeds the block"
        ordinal, length = _integer(view, place, 4), _integer(view, place + 4, 4)
        place += 8
        if not 0 <= length <= limit - place:
            return f"entry {number} of {length} bytes where {limit - place} are left"
        entries[ordinal] = view[place : place + length]
        place += length
    return entries, place


def _header(entries: dict[int, memoryview]) -> BlockHeader | str:
    """The known entries as a header, or the error. Unknown ordinals are ignored."""
    try:
        texts = {known: str(entries[known], "utf-8") for known in _KNOWN if known in entries}
    except UnicodeDecodeError as error:
        return f"header is not UTF-8: {error.reason}"
    instant = texts.get(_INSTANT_TIME, "")
    if not _INSTANT.fullmatch(instant):
        return f"INSTANT_TIME is {instant[:40]!r}, expected 1 to 24 digits"
    return BlockHeader(
        instant_time=instant,
        target_instant_time=texts.get(_TARGET_INSTANT, ""),
        schema_json=texts.get(_SCHEMA, ""),
        command=texts.get(_COMMAND, ""),
        compacted_block_times=tuple(time for time in texts.get(_COMPACTED, "").split(",") if time),
        record_positions=texts.get(_POSITIONS),
        base_instant_of_positions=texts.get(_POSITIONS_BASE, ""),
        is_partial=texts.get(_IS_PARTIAL, "").lower() == "true",
    )


_KNOWN: Final = (
    _INSTANT_TIME,
    _TARGET_INSTANT,
    _SCHEMA,
    _COMMAND,
    _COMPACTED,
    _POSITIONS,
    _IS_PARTIAL,
    _POSITIONS_BASE,
)


def _integer(view: _View, place: int, width: int) -> int:
    return int.from_bytes(view[place : place + width], "big", signed=True)
