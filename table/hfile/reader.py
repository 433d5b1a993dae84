"""Reads HFiles of version 3: sorted rows with values, as in the metadata table (HBase, Hudi `HFileReaderImpl`).

Reads trailer, index and data blocks, and checks every length. A lookup reads only the blocks that can contain its rows.
`layout` parses the blocks.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptFile, StorageError, UnsupportedFeature
from penstock.table.hfile.crc32c import crc32c_of_chunks
from penstock.table.hfile.hadoop_blocks import hadoop_decompressed
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
    UnknownCompression,
    parse_block_header,
    parse_cells,
    parse_file_info,
    parse_inner_index,
    parse_root_index,
    parse_trailer,
)

MAX_BLOCK_BYTES: Final = 512 << 20
"""Largest block that is read, in stored or uncompressed bytes."""

MAX_EXPANSION: Final = 1100
"""Upper limit of the expansion of a compressed block."""

_GZIP: Final = 31

_T = TypeVar("_T")


class HFile:
    """An open HFile. Reads trailer and root index at once, and other blocks on request.

    `source` is random access to the file; `where` names it in errors. All methods raise CorruptFile for bytes that are
    not a consistent HFile of version 3, and StorageError if reading fails. UnsupportedFeature for a compression of
    HBase other than GZ, NONE, SNAPPY and LZ4.
    """

    def __init__(self, source: pa.NativeFile, where: str) -> None:
        self._source = source
        self._where = where
        self._end, self._trailer = self._read_trailer()
        self._root = self._read_root()

    @property
    def entry_count(self) -> int:
        """Number of cells according to the trailer."""
        return self._trailer.entry_count

    def info(self) -> dict[bytes, bytes]:
        """The properties in the file info block, such as `schema`."""
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
        """(row, value) of the rows that the file contains, ascending."""
        sorted_rows = sorted(set(rows))
        for entry, end in self._data_blocks(sorted_rows):
            for row, value in self._cells(entry, end):
                index = bisect_left(sorted_rows, row)
                if index < len(sorted_rows) and sorted_rows[index] == row:
                    yield row, value

    def _data_blocks(self, rows: Sequence[bytes] | None) -> Iterator[tuple[IndexEntry, bytes | None]]:
        """The data blocks that can contain the sorted rows (None: all blocks), in file order.

        Each with the upper bound of its rows, exclusive (None: no bound). Offsets must ascend at every level, so that a
        damaged index leads to no block twice. Rows must ascend too, so that a lookup and a scan have the same result.
        """
        levels = max(self._trailer.index_levels, 1)
        last_offset = [-1] * levels

        def blocks(
            entries: Sequence[IndexEntry], level: int, begin: bytes, end: bytes | None
        ) -> Iterator[tuple[IndexEntry, bytes | None]]:
            for place, entry in enumerate(entries):
                if entry.offset <= last_offset[level]:
                    raise self._corrupt(f"index level {level} returns to byte {entry.offset}")
                last_offset[level] = entry.offset
                following = entries[place + 1].row if place + 1 < len(entries) else end
                if entry.row < begin or (following is not None and following <= entry.row):
                    raise self._corrupt(f"index level {level} has row {entry.row[:60]!r} out of order")
                if rows is not None and not _any_between(rows, entry.row, following):
                    continue
                if level + 1 == levels:
                    yield entry, following
                else:
                    yield from blocks(self._inner_index(entry), level + 1, entry.row, following)

        return blocks(self._root, 0, b"", None)

    def _inner_index(self, entry: IndexEntry) -> list[IndexEntry]:
        data = self._block(entry.offset, (LEAF_INDEX, INTERMEDIATE_INDEX))
        try:
            return parse_inner_index(data)
        except LayoutError as error:
            raise self._corrupt(f"index block at byte {entry.offset}: {error}") from None

    def _cells(self, entry: IndexEntry, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        data = self._block(entry.offset, (DATA,))
        previous = None
        try:
            for row, value in parse_cells(data):
                if previous is not None and row <= previous:
                    raise LayoutError(f"row {row[:60]!r} after {previous[:60]!r}, expected ascending rows")
                if row < entry.row or (end is not None and row >= end):
                    raise LayoutError(
                        f"row {row[:60]!r} in the block of {entry.row[:60]!r}, which contradicts the index"
                    )
                previous = row
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
        except UnknownCompression as error:
            raise UnsupportedFeature(
                f"{self._where} is compressed by {error}, expected GZ, NONE, SNAPPY or LZ4; write it "
                "again with another `hoodie.hfile.compression.algorithm`"
            ) from None
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
        """The uncompressed block at this position, after checking its checksums (those of gzip for a gzip block)."""
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
        self._verify_checksums(offset, header, head + payload, body[len(payload) :])
        return self._uncompressed(offset, header, payload)

    def _verify_checksums(self, offset: int, header: BlockHeader, covered: bytes, sums: bytes) -> None:
        step = header.bytes_per_checksum
        if header.checksum is ChecksumType.NULL or step <= 0 or self._trailer.codec is Codec.GZ:
            return
        chunks = range(0, len(covered), step)
        if len(sums) < 4 * len(chunks):
            raise self._corrupt(f"block at byte {offset} has {len(sums)} bytes of checksums for {len(chunks)} chunks")
        if header.checksum is ChecksumType.CRC32:
            actual = np.fromiter((zlib.crc32(covered[start : start + step]) for start in chunks), np.uint32)
        else:
            actual = crc32c_of_chunks(covered, step)
        if not np.array_equal(actual, np.frombuffer(sums, ">u4", len(chunks))):
            raise self._corrupt(f"block at byte {offset}: its checksum does not match")

    def _uncompressed(self, offset: int, header: BlockHeader, payload: bytes) -> bytes:
        size = header.uncompressed_bytes
        if self._trailer.codec is Codec.NONE:
            if size != len(payload):
                raise self._corrupt(f"block at byte {offset} should have {size} bytes and has {len(payload)}")
            return payload
        if size > min(MAX_BLOCK_BYTES, MAX_EXPANSION * len(payload)):
            raise self._corrupt(f"block at byte {offset} of {len(payload)} bytes should expand to {size}")
        if self._trailer.codec is not Codec.GZ:
            try:
                return hadoop_decompressed(payload, size, "snappy" if self._trailer.codec is Codec.SNAPPY else "lz4")
            except LayoutError as error:
                raise self._corrupt(f"block at byte {offset} cannot be decompressed: {error}") from None
        stream = zlib.decompressobj(_GZIP)
        try:
            data = stream.decompress(payload, size + 1)
        except zlib.error as error:
            raise self._corrupt(f"block at byte {offset} cannot be decompressed: {error}") from None
        if len(data) != size or not stream.eof:
            raise self._corrupt(f"block at byte {offset} decompresses to {len(data)} bytes or more, expected {size}")
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
            raise StorageError(f"{self._where} cannot be read: {str(error)[:200]}; a retry may succeed") from error

    def _corrupt(self, detail: str) -> CorruptFile:
        return CorruptFile(f"{self._where} is damaged: {detail}")


def _any_between(rows: Sequence[bytes], begin: bytes, end: bytes | None) -> bool:
    """Whether any of the sorted rows is in [begin, end)."""
    start = bisect_left(rows, begin)
    stop = len(rows) if end is None else bisect_left(rows, end)
    return start < stop
