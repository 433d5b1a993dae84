"""Decodes the Avro data content of a log block to Arrow record batches of the table's types.

This module finds the bounds of records, selects the compiled kernel or fastavro, splits the work into chunks and names
the block in errors. `log.block_selection` decides which blocks count, `merge` which
record wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NoReturn, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptBlock, InvariantViolation, SchemaMismatch
from penstock.reader.avro.arrays import BadRecord, BadValue
from penstock.reader.avro.compiled import CompiledReader, StructureCheck, TextBuffer, frozen
from penstock.reader.avro.fallback import FallbackReader
from penstock.reader.kernels import avro as kernel
from penstock.reader.kernels.deletes import decode_delete_list
from penstock.reader.split.emit import CHUNK_BYTES, CHUNK_ROWS
from penstock.reader.values.widening import HUDI_TOO, NotExact, widened
from penstock.table.log.blocks import BlockPlace
from penstock.table.log.deletes import decode_deletes
from penstock.table.schema.arrow import arrow_type
from penstock.table.schema.avro import (
    ArrayType,
    AvroField,
    AvroType,
    EnumType,
    Fixed,
    MapType,
    RecordSchema,
    RecordType,
    Vector,
    parse_record_schema,
)
from penstock.table.schema.compatibility import Promoted, Refused, compatible, lost_variant_part, missing_column

FALLBACK_CHUNK_BYTES: Final = 2 << 20
"""Fewer bytes for fastavro: each byte may become a Python object."""

Bytes: TypeAlias = memoryview | pa.Buffer | np.ndarray | bytes


@runtime_checkable
class ByteRanges(Protocol):
    """A file whose bytes are read one range at a time."""

    def part(self, begin: int, end: int) -> tuple[pa.Buffer, int]:
        """(bytes that contain begin..end-1 of the file or reach to its end, the offset of the first byte)."""
        ...


def record_bounds(
    data: Bytes, where: BlockPlace, start: int = 0, end: int | None = None, *, compiled: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """(begin, end), int64, of the records of an Avro data block's content data[start:end], as offsets into `data`.

    Layout: int32 version (0 to 3: the same layout), int32 count, count x (int32 length, body), big-endian
    (`HoodieAvroDataBlock`). Pass the whole log file and the block's content_start and content_end, and the same `data`
    to `AvroDecoder.decode`, so that nothing is copied. CorruptBlock unless the content is exactly that.
    """
    view = _as_array(data)
    end = len(view) if end is None else end
    if not 0 <= start <= end <= len(view):
        raise InvariantViolation(f"content {start} to {end} of {len(view)} bytes")
    if end - start < 8:
        raise CorruptBlock(f"{where}: content of {end - start} bytes, expected version and record count; {_ADVICE}")
    version, count = (int.from_bytes(view[at : at + 4].tobytes(), "big", signed=True) for at in (start, start + 4))
    if version not in (0, 1, 2, 3):
        raise CorruptBlock(f"{where}: Avro data block version {version}, expected 0 to 3; {_ADVICE}")
    if not 0 <= count <= (end - start - 8) // 4:
        raise CorruptBlock(f"{where}: {count} records cannot be in {end - start} bytes; {_ADVICE}")
    begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    find_bounds = kernel.walk_prefixed if compiled else _prefixed_bounds
    bad = int(find_bounds(frozen(view), start + 8, end, begins, ends))
    if bad == count:
        raise CorruptBlock(f"{where}: bytes are left over after record {count - 1}; {_ADVICE}")
    if bad >= 0:
        raise CorruptBlock(f"{where}: record {bad} of {count} extends beyond the block; {_ADVICE}")
    return begins, ends


class AvroDecoder:
    """Decodes records of one writer schema to columns of the table. Immutable, usable from any thread.

    `schema` is the Arrow schema of every batch: the requested columns in order, with the table's types. Build one
    decoder per (writer schema, columns) pair: building takes about a millisecond for hundreds of columns.
    """

    def __init__(
        self,
        writer: RecordSchema,
        columns: Sequence[str],
        target: RecordSchema,
        *,
        compiled: bool = True,
        where: str = "log block",
    ) -> None:
        """`columns` are distinct names of `target`, the table's schema; they are matched with the writer's by exact
        name.

        A column that the writer lacks is null. SchemaMismatch, beginning with `where`, for a type change that is not a
        promotion (`table.schema.compatibility`). `compiled=False` uses fastavro, as far as records have the bytes that
        fastavro would write; the kernels decide about others. The results are the same.
        """
        written, table_fields = writer.by_name(), target.by_name()
        if len(set(columns)) != len(columns) or not set(columns) <= table_fields.keys():
            raise InvariantViolation(f"columns {list(columns)!r} are not distinct columns of the table")
        self.schema: pa.Schema = pa.schema([pa.field(name, arrow_type(table_fields[name].type)) for name in columns])
        promoted = {name for name in columns if _is_promoted(written.get(name), table_fields[name], where)}
        self._promotions: dict[int, tuple[AvroType, AvroType]] = {
            place: (written[name].type, table_fields[name].type)
            for place, name in enumerate(columns)
            if name in promoted
        }
        writer = _stored(writer)
        written = writer.by_name()
        decoded = {name: (written if name in promoted else table_fields)[name].type for name in columns}
        present = [name for name in columns if name in written]
        self._places = [present.index(name) if name in written else None for name in columns]
        self._symbols_bytes = sum(_longest_symbol(written[name].type) for name in present)
        self._fallback = FallbackReader(writer, [(name, decoded[name]) for name in present])
        self.is_compiled: Final = compiled
        """Whether the kernel decodes, and fastavro only a record that is too large for it."""
        self._check = StructureCheck(writer)
        self._compiled = CompiledReader(writer, [(name, decoded[name]) for name in present])

    def decode(
        self, data: Bytes | ByteRanges, begin: np.ndarray, end: np.ndarray, where: BlockPlace
    ) -> Iterator[pa.RecordBatch]:
        """Batches of the records data[begin[i]:end[i]], in this order: any selection of the records of `record_bounds`.
        Of a `ByteRanges`, one part is held at a time.

        A batch has at most 8192 rows, and at most 16 MiB of records (2 MiB with fastavro) or a single one; fewer if
        enums have long symbols. CorruptBlock, naming place and record number (of those passed in), if a record does not
        fit the writer's schema or a value its type.
        """
        begin, end = np.asarray(begin, np.int64), np.asarray(end, np.int64)
        if begin.shape != end.shape:
            raise InvariantViolation(f"{begin.shape} beginnings of records, {end.shape} ends")
        buffer = TextBuffer()
        limit_bytes = FALLBACK_CHUNK_BYTES * 8 // max(self._symbols_bytes, 8)
        if self.is_compiled:
            limit_bytes = min(CHUNK_BYTES, self._compiled.most_bytes)
        most_rows = max(1, min(CHUNK_ROWS, CHUNK_BYTES // max(self._symbols_bytes, 1)))
        for first, last in _chunks(end - begin, limit_bytes, most_rows):
            begins, ends = begin[first:last], end[first:last]
            if isinstance(data, ByteRanges):
                part, at = data.part(int(begins.min()), int(ends.max()) + kernel.OVERRUN)
                view, begins, ends = _as_array(part), begins - at, ends - at
            else:
                view = _as_array(data)
            if not _are_inside(begins, ends, len(view)):
                raise InvariantViolation(f"record bounds leave {len(view)} bytes")
            most = len(begins)
            while len(begins):
                most = min(most, len(begins))
                try:
                    rows, arrays = self._read(frozen(view), begins[:most], ends[:most], buffer)
                except BadRecord as bad:
                    number = last - len(begins) + bad.row
                    place = f"record {number} of {len(begin)} (bytes {begin[number]} to {end[number]})"
                    _raise_corrupt(where, place, bad)
                except BadValue as bad_value:
                    number = last - len(begins)
                    place = f"one of the records {number} to {number + most - 1} of {len(begin)}"
                    _raise_corrupt(where, place, bad_value)
                columns = [
                    pa.nulls(rows, field.type) if place is None else arrays[place]
                    for place, field in zip(self._places, self.schema, strict=True)
                ]
                for number in self._promotions:
                    columns[number] = self._widened(number, columns[number], where)
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
                begins, ends = begins[rows:], ends[rows:]
                most = 2 * rows  # after a cut, the next records are about as large

    def _widened(self, place: int, column: pa.Array, where: BlockPlace) -> pa.Array:
        try:
            return widened(column, *self._promotions[place])
        except NotExact as error:
            raise SchemaMismatch(f"{where}: column {self.schema.field(place).name}: {error}; {HUDI_TOO}") from None

    def _read(
        self, view: np.ndarray, begin: np.ndarray, end: np.ndarray, buffer: TextBuffer
    ) -> tuple[int, list[pa.Array]]:
        """(rows, columns) of the first records, at least one. By the kernel; by fastavro a record that is too large for
        it, which the kernel checks first: fastavro accepts records that do not fit their schema, such as a union's
        branch -1."""
        if not self.is_compiled:
            try:
                return len(begin), self._fallback.read(view, begin, end, canonical=True)
            except (BadRecord, BadValue):
                pass
        view, begin, end = _with_overrun(view, begin, end)
        columns = self._compiled.read(view, begin, end, buffer)
        if columns is None:
            self._check.check(view, begin[:1], end[:1])
            columns = 1, self._fallback.read(view, begin[:1], end[:1])
        return columns


def warm_up() -> None:
    """Compiles the kernels of log records and deletes or loads them from the cache, for the start of a worker."""
    place = BlockPlace("", "", 0, "")
    content = b"\0\0\0\3" + b"\0\0\0\1" + b"\0\0\0\1" + b"\2"
    schema = parse_record_schema('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}')
    begin, end = record_bounds(content, place)
    for _ in AvroDecoder(schema, ["a"], schema).decode(content, begin, end, place):
        pass
    decode_deletes(b"\0\0\0\3" + b"\0\0\0\1" + b"\0", place, decode_delete_list)


_ADVICE: Final = "the file is damaged or incomplete: restore it from a copy, or roll the instant back in Hudi"


def _raise_corrupt(where: BlockPlace, place: str, problem: Exception) -> NoReturn:
    raise CorruptBlock(f"{where}: {place}: {problem}; {_ADVICE}") from None


def _is_promoted(written: AvroField | None, table_fields: AvroField, where: str) -> bool:
    """Whether the block's values have a narrower type than the table's."""
    name = table_fields.name
    if written is not None and (reason := lost_variant_part(written.type, table_fields.type, name)):
        raise SchemaMismatch(f"{where}: {reason}")
    answer = (
        missing_column(table_fields, name) if written is None else compatible(written.type, table_fields.type, name)
    )
    if isinstance(answer, Refused):
        raise SchemaMismatch(f"{where}: {answer.reason}; Hudi neither makes nor reads this")
    return isinstance(answer, Promoted)


def _stored(writer: RecordSchema) -> RecordSchema:
    """The schema with vectors as the bytes that they are stored as."""
    if not any(isinstance(field.type, Vector) for field in writer.fields):
        return writer
    fields = (
        replace(field, type=Fixed(field.type.size)) if isinstance(field.type, Vector) else field
        for field in writer.fields
    )
    return replace(writer, fields=tuple(fields))


def _as_array(data: Bytes) -> np.ndarray:
    return np.asarray(data, np.uint8) if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)


def _are_inside(begin: np.ndarray, end: np.ndarray, size: int) -> bool:
    return bool(begin.min() >= 0 and (begin <= end).all() and end.max() <= size)


def _longest_symbol(avro_type: AvroType) -> int:
    """The most bytes of an enum symbol in the type; 0 without an enum."""
    match avro_type:
        case EnumType(symbols):
            return max(len(symbol.encode()) for symbol in symbols)
        case ArrayType(inner) | MapType(inner):
            return _longest_symbol(inner)
        case RecordType(fields):
            return max(_longest_symbol(field.type) for field in fields)
        case _:
            return 0


def _chunks(sizes: np.ndarray, limit_bytes: int, most_rows: int) -> Iterator[tuple[int, int]]:
    """Runs first..last-1 of records: as many as fit the limits of rows and bytes, or a single one."""
    totals = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        before = int(totals[first - 1]) if first else 0
        by_bytes = int(np.searchsorted(totals, before + limit_bytes, side="right"))
        last = min(first + most_rows, max(first + 1, by_bytes))
        yield first, last
        first = last


def _with_overrun(view: np.ndarray, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same records in a buffer that extends `kernel.OVERRUN` bytes after each; in a log file it always does."""
    if int(end.max()) + kernel.OVERRUN <= len(view):
        return view, begin, end
    low, high = int(begin.min()), int(end.max())
    padded = np.concatenate([view[low:high], np.zeros(kernel.OVERRUN, np.uint8)])
    return padded, begin - low, end - low


def _prefixed_bounds(data: np.ndarray, start: int, stop: int, begin: np.ndarray, end: np.ndarray) -> int:
    """`kernels.avro.walk_prefixed` without a compiler."""
    view, place = data.data, start
    for number in range(len(begin)):
        if stop - place < 4:
            return number
        length = int.from_bytes(view[place : place + 4], "big")
        place += 4
        if length > stop - place:
            return number
        begin[number], end[number] = place, place + length
        place += length
    return -1 if place == stop else len(begin)
