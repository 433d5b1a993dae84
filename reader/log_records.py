"""The log of a split read to the rows that win: what decides first (keys, ordering, deletes), then winners' rows only.

Belongs here: the two passes over the counting blocks. Not here: which blocks count (`log_blocks`), what wins
(`merge.fold`), decoding (`avro_records`). When `read_log` returns, nothing of the raw bytes is held any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptBlock, UnsupportedFeature
from penstock.proto.splits import Scan, Split
from penstock.reader.avro_records import AvroDecoder, record_bounds
from penstock.reader.log_blocks import CountedBlock, CountedBlocks
from penstock.reader.log_files import LogFiles
from penstock.reader.merge.fold import RecordKind, fold
from penstock.reader.merge.keys import RecordTable, number_keys, number_positions
from penstock.reader.merge.log_rows import LogRows
from penstock.reader.merge.ordering import OrderingValues
from penstock.reader.merge.stream import LogWinners
from penstock.reader.ordering_column import check_order_kept, check_same_type, has_foreign_values
from penstock.reader.record_positions import usable_positions
from penstock.reader.report import SplitTally
from penstock.reader.shape import ReadShape
from penstock.reader.virtual_keys import NoKey, record_keys
from penstock.table.log.blocks import BlockKind, read_blocks
from penstock.table.log.delete_walk import LONG, DeleteWalk, walk_deletes
from penstock.table.log.deletes import DeleteRecords, decode_deletes
from penstock.table.schema.avro import AvroField, Primitive, RecordSchema, parse_record_schema
from penstock.table.schema.history import Place

ONE_PASS_BYTES: Final = 256 << 10
"""Up to so many bytes of data blocks, full rows are decoded at once: a second pass would cost more than it saves."""


@dataclass(slots=True)
class _Gathered:
    """Pass 1, in arrival order: what decides, record by record."""

    keys: list[pa.Array] = field(default_factory=list)
    kinds: list[np.ndarray] = field(default_factory=list)
    ordering: list[pa.Array] = field(default_factory=list)
    rows: list[pa.RecordBatch] = field(default_factory=list)
    data_blocks: list[_DataBlock] = field(default_factory=list)
    records: int = 0
    block_records: list[int] = field(default_factory=list)

    def add(self, keys: pa.Array, kinds: np.ndarray, ordering: pa.Array | None) -> None:
        self.keys.append(keys)
        self.kinds.append(kinds)
        if ordering is not None:
            self.ordering.append(ordering)
        self.records += len(keys)


@dataclass(frozen=True, slots=True)
class _DataBlock:
    """Where a data block's records are, and the arrival number of the first."""

    counted: CountedBlock
    begin: np.ndarray
    end: np.ndarray
    first: int


def read_log(
    files: LogFiles, scan: Scan, split: Split, shape: ReadShape, tally: SplitTally, *, compiled: bool
) -> LogWinners | None:
    """The winners of a split's logs, rows with `shape.stored` columns; None if no record counts.

    `compiled=False` keeps to fastavro and Arrow functions; the answers are the same. CorruptBlock for damage,
    CorruptFile for a log that is gone or cut, UnsupportedFeature for counting blocks that are not read: each names
    table, file and block.
    """
    try:
        with tally.phase("open"):
            blocks = _counting_blocks(files, scan, split)
        return _LogReader(files, scan, split, shape, compiled).winners(blocks, tally)
    finally:
        files.release()


def _counting_blocks(files: LogFiles, scan: Scan, split: Split) -> list[CountedBlock]:
    counted = CountedBlocks(scan.table, scan.visible)
    for place, log in enumerate(split.logs):
        counted.add_file(place, log.path, read_blocks(files.data(place), f"table {scan.table}: {log.path}"))
    return counted.in_order()


class _LogReader:
    """One read of one split's log."""

    def __init__(self, files: LogFiles, scan: Scan, split: Split, shape: ReadShape, compiled: bool) -> None:
        self._files, self._scan, self._split, self._shape = files, scan, split, shape
        self._compiled = compiled
        self._decoders: dict[tuple[int, tuple[str, ...]], AvroDecoder] = {}
        self._writers: dict[tuple[str, tuple[Place, ...] | None], RecordSchema] = {}

    def winners(self, blocks: Sequence[CountedBlock], tally: SplitTally) -> LogWinners | None:
        content_bytes = sum(found.block.content_end - found.block.content_start for found in blocks)
        keys_only = self._shape.log_keys
        everything = tuple(dict.fromkeys((*keys_only, *self._shape.stored)))
        one_pass = content_bytes <= ONE_PASS_BYTES or set(everything) == set(keys_only)
        with tally.phase("log_decode"):
            gathered = self._gather(blocks, everything if one_pass else keys_only, keep_rows=one_pass)
        if not gathered.records:
            return None
        with tally.phase("build"):
            table, numbers = self._numbered(blocks, gathered)
            kinds = np.concatenate(gathered.kinds)
            ordering = self._ordering(gathered)
            folded = fold(self._scan.merge, numbers, table.count, kinds, None if ordering is None else ordering.ranks())
            standing = folded.standing
            data = kinds[standing] == RecordKind.DATA
            arrivals = np.sort(standing[data])
            row_of = np.where(data, np.searchsorted(arrivals, standing), -1)
        with tally.phase("log_decode"):
            rows = self._rows(gathered, kinds, arrivals, one_pass)
        return LogWinners(
            table=table,
            kinds=kinds[standing],
            ordering=None if ordering is None else ordering.take(standing),
            row_of=row_of,
            rows=rows,
            folded=folded,
        )

    def _numbered(self, blocks: Sequence[CountedBlock], gathered: _Gathered) -> tuple[RecordTable, np.ndarray]:
        """By position where Hudi does so too (every block has them for this base file), else by key. The rows differ
        only where the base holds a key twice."""
        if self._split.base is not None:
            positions = usable_positions(blocks, gathered.block_records, self._split.base_instant)
            if positions is not None:
                where = f"table {self._scan.table}: base file {self._split.base.path}"
                return number_positions(positions, gathered.keys, where)
        return number_keys(gathered.keys, compiled=self._compiled)

    def _gather(self, blocks: Iterable[CountedBlock], columns: tuple[str, ...], *, keep_rows: bool) -> _Gathered:
        gathered = _Gathered()
        for found in blocks:
            before = gathered.records
            if found.block.kind is BlockKind.DELETE:
                self._gather_deletes(found, gathered)
            else:
                self._gather_data(found, gathered, columns, keep_rows)
            gathered.block_records.append(gathered.records - before)
        return gathered

    def _gather_deletes(self, found: CountedBlock, gathered: _Gathered) -> None:
        block = found.block
        content = memoryview(self._files.data(found.log))[block.content_start : block.content_end]
        deletes = decode_deletes(content, found.place, _compiled_walk() if self._compiled else walk_deletes)
        if not len(deletes):
            return
        kinds = np.full(len(deletes), RecordKind.DEFAULT_DELETE, np.uint8)
        ordering = None
        if self._shape.ordering:
            self._check_unit(deletes)
            ordering, default = deletes.ordering_as(self._ordering_type)
            if block.header.schema_json and has_foreign_values(deletes, default):
                check_same_type(self._writer(found), self._ordering_field, str(found.place))
            kinds[~default] = RecordKind.DELETE
        gathered.add(deletes.keys, kinds, ordering)

    def _check_unit(self, deletes: DeleteRecords) -> None:
        """A plain long says no unit: for a column of micros it is micros, for one of millis it may be either."""
        ordering = self._shape.record.by_name()[self._shape.ordering]
        if ordering.type == Primitive("long", "timestamp-millis") and (deletes.kinds == LONG).any():
            raise UnsupportedFeature(
                f"{deletes.place}: deletes ordered by column {ordering.name!r} (timestamp-millis) by plain longs"
            )

    def _gather_data(self, found: CountedBlock, gathered: _Gathered, columns: tuple[str, ...], keep_rows: bool) -> None:
        block, data = found.block, self._files.data(found.log)
        begin, end = record_bounds(data, found.place, block.content_start, block.content_end, compiled=self._compiled)
        gathered.data_blocks.append(_DataBlock(found, begin, end, gathered.records))
        for batch in self._decoder(found, columns).decode(data, begin, end, found.place):
            try:
                keys = record_keys(batch, self._shape.key_fields)
            except NoKey as error:
                raise CorruptBlock(f"{found.place}: a record {error}: restore the file") from None
            ordering = batch.column(self._shape.ordering) if self._shape.ordering else None
            gathered.add(keys, self._kinds(batch, ordering), ordering)
            if keep_rows:
                gathered.rows.append(batch.select(self._shape.stored))

    def _kinds(self, batch: pa.RecordBatch, ordering: pa.Array | None) -> np.ndarray:
        """Rows whose delete mark is true are deletes; without a value of their own (null, or the int 0 that Hudi takes
        for none) default ones (`OrderingValues.isDefault`)."""
        kinds = np.full(batch.num_rows, RecordKind.DATA, np.uint8)
        if not self._shape.delete_mark:
            return kinds
        marked = batch.column(self._shape.delete_mark).fill_null(False).to_numpy(zero_copy_only=False)
        if not marked.any():
            return kinds
        if ordering is None:
            default = np.ones(batch.num_rows, bool)
        else:
            default = ordering.is_null().to_numpy(zero_copy_only=False)
            if pa.types.is_int32(ordering.type):
                default = default | (ordering.fill_null(0).to_numpy() == 0)
        kinds[marked] = RecordKind.DELETE
        kinds[marked & default] = RecordKind.DEFAULT_DELETE
        return kinds

    def _ordering(self, gathered: _Gathered) -> OrderingValues | None:
        if not self._shape.ordering:
            return None
        return OrderingValues(pa.chunked_array(gathered.ordering, self._ordering_type).combine_chunks())

    @property
    def _ordering_field(self) -> AvroField:
        return self._shape.record.by_name()[self._shape.ordering]

    @property
    def _ordering_type(self) -> pa.DataType:
        return self._shape.table.field(self._shape.ordering).type

    def _rows(self, gathered: _Gathered, kinds: np.ndarray, arrivals: np.ndarray, one_pass: bool) -> LogRows:
        """The full rows of the records `arrivals` (ascending)."""
        if not one_pass:
            return LogRows(self._decode_winners(gathered.data_blocks, arrivals))
        rows = LogRows(gathered.rows)
        if len(arrivals) == len(rows):
            return rows
        among_data = np.cumsum(self._is_decoded(gathered, kinds)) - 1
        return LogRows(rows.take(among_data[arrivals], len(arrivals), 1 << 62))

    def _is_decoded(self, gathered: _Gathered, kinds: np.ndarray) -> np.ndarray:
        """Which records came from data blocks (those marked as deleted are among them)."""
        decoded = np.zeros(len(kinds), bool)
        for block in gathered.data_blocks:
            decoded[block.first : block.first + len(block.begin)] = True
        return decoded

    def _decode_winners(self, blocks: Sequence[_DataBlock], arrivals: np.ndarray) -> Iterator[pa.RecordBatch]:
        for block in blocks:
            first, last = np.searchsorted(arrivals, (block.first, block.first + len(block.begin)))
            if first == last:
                continue
            mine = arrivals[first:last] - block.first
            decoder = self._decoder(block.counted, self._shape.stored)
            data = self._files.data(block.counted.log)
            yield from decoder.decode(data, block.begin[mine], block.end[mine], block.counted.place)

    def _decoder(self, found: CountedBlock, columns: tuple[str, ...]) -> AvroDecoder:
        writer = self._writer(found)
        known = self._decoders.get((id(writer), columns))
        if known is None:
            if self._shape.ordering and (written := writer.by_name().get(self._shape.ordering)) is not None:
                check_order_kept(written.type, self._ordering_field, str(found.place))
            known = AvroDecoder(writer, columns, self._shape.record, compiled=self._compiled, where=str(found.place))
            self._decoders[id(writer), columns] = known
        return known

    def _writer(self, found: CountedBlock) -> RecordSchema:
        """The schema that the block's records were written with, columns called as the table calls them."""
        schema_json = found.block.header.schema_json
        names = self._shape.file_names(found.block.header.instant_time, str(found.place))
        own = None if names is None else names.own
        known = self._writers.get((schema_json, own))
        if known is None:
            known = parse_record_schema(schema_json, str(found.place))
            if names is not None:
                known = replace(known, fields=tuple(names.in_table(field) for field in known.fields))
            self._writers[schema_json, own] = known
        return known


def _compiled_walk() -> DeleteWalk:
    from penstock.reader.kernels.deletes import walk_deletes as compiled_walk_deletes

    walk: DeleteWalk = compiled_walk_deletes
    return walk
