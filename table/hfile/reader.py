"""HFiles, version 3: sorted rows with values, as the metadata table keeps them (HBase, Hudi `HFileReaderImpl`).

Belongs here: reading trailer, index and data blocks with every length checked. Not here: what a value means
(`penstock.table.metadata`), the layout's parts (`hfile_layout`). Nothing is read that is not asked for: a lookup
touches the blocks that can hold its rows.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, TypeVar

import pyarrow as pa

from penstock.proto.errors import CorruptFile, StorageError
from penstock.table.hfile.layout import (
    BLOCK_HEADER_BYTES,
    DATA,
    FILE_INFO,
    INTERMEDIATE_INDEX,
    LEAF_INDEX,
    ROOT_INDEX,
    TRAILER_BYTES,
    BlockHeader,
    ChecksumType,
    Codec,
    IndexEntry,
    LayoutError,
    Trailer,
    parse_block_header,
    parse_cells,
    parse_file_info,
    parse_inner_index,
    parse_root_index,
    parse_trailer,
)

MAX_BLOCK_BYTES: Final = 512 << 20
"""Largest block, stored or uncompressed, that is read."""

MAX_BLOWN_UP: Final = 1100
"""No gzip stream holds more bytes for each of its own."""

_GZIP: Final = 31
_CASTAGNOLI: Final = 0x82F63B78

_T = TypeVar("_T")


class HFile:
    """One file, opened: its trailer and root index are read, the rest when it is asked for.

    `source` is random access to exactly the file; `where` names it for errors. CorruptFile, from any method, for bytes
    that are no HFile of version 3 or contradict themselves; UnsupportedFeature is never raised: a compression that is
    not read is CorruptFile too, since the caller can do without. StorageError if reading fails.
    """

    def __init__(self, source: pa.NativeFile, where: str) -> None:
        self._source = source
        self._where = where
        self._end, self._trailer = self._read_trailer()
        self._root = self._read_root()

    @property
    def entry_count(self) -> int:
        """How many cells the file says it has."""
        return self._trailer.entry_count

    @property
    def minor_version(self) -> int:
        """3: HBase's writer; 0: Hudi's own."""
        return self._trailer.minor

    def info(self) -> dict[bytes, bytes]:
        """The file's own properties, such as `schema`."""
        if not self._trailer.file_info_offset:
            return {}
        data = self._block(self._trailer.file_info_offset, (FILE_INFO,))
        try:
            return parse_file_info(data)
        except LayoutError as error:
            raise self._corrupt(f"file info: {error}") from None

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """Every (row, value), rows ascending."""
        count = 0
        for entry, end in self._data_blocks(None):
            for cell in self._cells(entry, end):
                count += 1
                yield cell
        if count != self._trailer.entry_count:
            raise self._corrupt(f"{count} entries, the trailer says {self._trailer.entry_count}")

    def lookup(self, rows: Collection[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """(row, value) of those of the rows that are there, ascending."""
        wanted = sorted(set(rows))
        for entry, end in self._data_blocks(wanted):
            for row, value in self._cells(entry, end):
                place = bisect_left(wanted, row)
                if place < len(wanted) and wanted[place] == row:
                    yield row, value

    def _data_blocks(self, wanted: Sequence[bytes] | None) -> Iterator[tuple[IndexEntry, bytes | None]]:
        """The data blocks that can hold wanted rows (None: all), in file order, each with the row that all of its own
        are before (None: there is no such row).

        Offsets must ascend at every level: a damaged index leads neither in circles nor to one block many times. Rows
        must ascend too, so that a lookup and a scan find the same.
        """
        levels = max(self._trailer.index_levels, 1)
        reached = [-1] * levels

        def walk(
            entries: Sequence[IndexEntry], level: int, begin: bytes, end: bytes | None
        ) -> Iterator[tuple[IndexEntry, bytes | None]]:
            for place, entry in enumerate(entries):
                if entry.offset <= reached[level]:
                    raise self._corrupt(f"index level {level} goes back to byte {entry.offset}")
                reached[level] = entry.offset
                following = entries[place + 1].row if place + 1 < len(entries) else end
                if entry.row < begin or (following is not None and following <= entry.row):
                    raise self._corrupt(f"index level {level} has row {entry.row[:60]!r} out of its order")
                if wanted is not None and not _any_between(wanted, entry.row, following):
                    continue
                if level + 1 == levels:
                    yield entry, following
                else:
                    yield from walk(self._inner_index(entry), level + 1, entry.row, following)

        return walk(self._root, 0, b"", None)

    def _inner_index(self, entry: IndexEntry) -> list[IndexEntry]:
        data = self._block(entry.offset, (LEAF_INDEX, INTERMEDIATE_INDEX))
        try:
            return parse_inner_index(data)
        except LayoutError as error:
            raise self._corrupt(f"index block at byte {entry.offset}: {error}") from None

    def _cells(self, entry: IndexEntry, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        data = self._block(entry.offset, (DATA,))
        before = None
        try:
            for row, value in parse_cells(data):
                if before is not None and row <= before:
                    raise LayoutError(f"row {row[:60]!r} behind {before[:60]!r}, expected ascending rows")
                if row < entry.row or (end is not None and row >= end):
                    raise LayoutError(f"row {row[:60]!r} in the block of {entry.row[:60]!r}, which the index denies")
                before = row
                yield row, value
        except LayoutError as error:
            raise self._corrupt(f"data block at byte {entry.offset}: {error}") from None

    def _read_trailer(self) -> tuple[int, Trailer]:
        size = self._guarded(self._source.size)
        if size < TRAILER_BYTES:
            raise self._corrupt(f"{size} bytes, expected a trailer of {TRAILER_BYTES} at the end")
        data = self._read(size - TRAILER_BYTES, TRAILER_BYTES)
        try:
            return size - TRAILER_BYTES, parse_trailer(data)
        except LayoutError as error:
            raise self._corrupt(str(error)) from None

    def _read_root(self) -> list[IndexEntry]:
        trailer = self._trailer
        if trailer.data_index_count == 0:
            if trailer.entry_count:
                raise self._corrupt(f"{trailer.entry_count} entries and no index")
            return []
        data = self._block(trailer.load_on_open_offset, (ROOT_INDEX,))
        try:
            return parse_root_index(data, trailer.data_index_count, trailer.index_levels)
        except LayoutError as error:
            raise self._corrupt(str(error)) from None

    def _block(self, offset: int, magics: Collection[bytes]) -> bytes:
        """The block at this place, uncompressed and held against its checksums (those of gzip, if it is gzip)."""
        if not 0 <= offset <= self._end - BLOCK_HEADER_BYTES:
            raise self._corrupt(f"block at byte {offset}, expected one before byte {self._end}")
        head = self._read(offset, BLOCK_HEADER_BYTES)
        try:
            header = parse_block_header(head)
        except LayoutError as error:
            raise self._corrupt(f"block at byte {offset}: {error}") from None
        if header.magic not in magics:
            raise self._corrupt(f"block at byte {offset} is {header.magic!r}, expected {b' or '.join(magics)!r}")
        left = self._end - offset - BLOCK_HEADER_BYTES
        if header.stored_bytes > min(left, MAX_BLOCK_BYTES):
            raise self._corrupt(f"block at byte {offset} of {header.stored_bytes} bytes, {left} are left")
        body = self._read(offset + BLOCK_HEADER_BYTES, header.stored_bytes)
        payload = body[: header.data_end - BLOCK_HEADER_BYTES]
        self._check_sums(offset, header, head + payload, body[len(payload) :])
        return self._uncompressed(offset, header, payload)

    def _check_sums(self, offset: int, header: BlockHeader, covered: bytes, sums: bytes) -> None:
        step = header.bytes_per_checksum
        if header.checksum is ChecksumType.NULL or step <= 0 or self._trailer.codec is Codec.GZ:
            return
        sum_of = zlib.crc32 if header.checksum is ChecksumType.CRC32 else crc32c
        chunks = range(0, len(covered), step)
        if len(sums) < 4 * len(chunks):
            raise self._corrupt(f"block at byte {offset} has {len(sums)} bytes of checksums for {len(chunks)} chunks")
        for number, start in enumerate(chunks):
            got = int.from_bytes(sums[4 * number : 4 * number + 4], "big")
            if sum_of(covered[start : start + step]) != got:
                raise self._corrupt(f"block at byte {offset}: its checksum does not fit")

    def _uncompressed(self, offset: int, header: BlockHeader, payload: bytes) -> bytes:
        size = header.uncompressed_bytes
        if self._trailer.codec is Codec.NONE:
            if size != len(payload):
                raise self._corrupt(f"block at byte {offset} says {size} bytes and has {len(payload)}")
            return payload
        if size > min(MAX_BLOCK_BYTES, MAX_BLOWN_UP * len(payload)):
            raise self._corrupt(f"block at byte {offset} of {len(payload)} bytes says that it holds {size}")
        stream = zlib.decompressobj(_GZIP)
        try:
            data = stream.decompress(payload, size + 1)
        except zlib.error as error:
            raise self._corrupt(f"block at byte {offset} does not uncompress: {error}") from None
        if len(data) != size or not stream.eof:
            raise self._corrupt(f"block at byte {offset} uncompresses to {len(data)} bytes or more, expected {size}")
        return data

    def _read(self, offset: int, size: int) -> bytes:
        data = self._guarded(lambda: self._source.read_at(size, offset))
        if len(data) != size:
            raise self._corrupt(f"{len(data)} of {size} bytes at byte {offset}")
        return bytes(data)

    def _guarded(self, action: Callable[[], _T]) -> _T:
        try:
            return action()
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"{self._where} cannot be read: {str(error)[:200]}; asking again may help") from error

    def _corrupt(self, detail: str) -> CorruptFile:
        return CorruptFile(f"{self._where} is damaged: {detail}")


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_CASTAGNOLI if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC_TABLE: Final = _crc_table()


def crc32c(data: bytes) -> int:
    """The CRC-32C (Castagnoli) of the bytes. Slow: HFiles that are compressed do not need it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _any_between(rows: Sequence[bytes], begin: bytes, end: bytes | None) -> bool:
    """Whether any of the sorted rows is at or behind `begin` and before `end`. A row before the file's first block is
    nowhere."""
    start = bisect_left(rows, begin)
    stop = len(rows) if end is None else bisect_left(rows, end)
    return start < stop
