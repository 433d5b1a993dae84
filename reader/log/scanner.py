"""The log of a split read to the rows that win: what decides first (keys, ordering, deletes), then winners' rows only.

Belongs here: the two passes over the counting blocks. Not here: which blocks count (`log_blocks`), what wins
(`merge.fold`), decoding (`block_records`). When `read_log` returns, nothing of the raw bytes is held any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptBlock
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import EventTimeOrdering, RowsOf, VisibleInstants, WholeRecords
from penstock.reader.log.block_decoder import BlockDecoder
from penstock.reader.log.block_selection import CountedBlock, CountedBlocks
from penstock.reader.log.damage import whole_blocks
from penstock.reader.log.file_bytes import HELD_BYTES, LogFiles
from penstock.reader.log.record_positions import usable_positions
from penstock.reader.merge.chains import Chains, chains
from penstock.reader.merge.filling import EarlyGaps, Filler, composed
from penstock.reader.merge.fold import RecordKind, fold
from penstock.reader.merge.gaps import HELD, absent, fills_from_newer, gaps_of, shows_last_writer
from penstock.reader.merge.keys import RecordTable, number_keys, number_positions
from penstock.reader.merge.log_rows import LogRows
from penstock.reader.merge.ordering import OrderingTuples
from penstock.reader.merge.ordering_columns import check_same_type, has_foreign_values, in_column_units
from penstock.reader.merge.stream import LogWinners
from penstock.reader.split.context import SplitContext
from penstock.reader.values.record_keys import RECORD_KEY, NoKey
from penstock.table.log.blocks import BlockKind, read_blocks
from penstock.table.log.delete_list import DeleteListDecoder, decode_delete_list
from penstock.table.log.deletes import DeleteRecords, decode_deletes
from penstock.table.schema.avro import OPERATION

ONE_PASS_BYTES: Final = 256 << 10
"""Up to so many bytes of data blocks, full rows are decoded at once: a second pass would cost more than it saves."""

_FILL_MODES: Final = 9
"""The first table version with partial update modes; below it payload classes fill gaps."""


@dataclass(slots=True)
class _Gathered:
    """Pass 1, in arrival order: what decides, record by record."""

    keys: list[pa.Array] = field(default_factory=list)
    kinds: list[np.ndarray] = field(default_factory=list)
    ordering: list[Sequence[pa.Array]] = field(default_factory=list)
    rows: list[pa.RecordBatch] = field(default_factory=list)
    data_blocks: list[_DataBlock] = field(default_factory=list)
    records: int = 0
    block_records: list[int] = field(default_factory=list)

    def add(self, keys: pa.Array, kinds: np.ndarray, ordering: Sequence[pa.Array]) -> None:
        self.keys.append(keys)
        self.kinds.append(kinds)
        self.ordering.append(ordering)
        self.records += len(keys)


@dataclass(frozen=True, slots=True)
class _DataBlock:
    """Where a data block's records are (see `BlockDecoder.bounds`), and the arrival number of the first."""

    counted: CountedBlock
    begin: np.ndarray
    end: np.ndarray
    first: int


def read_log(context: SplitContext, *, held_bytes: int = HELD_BYTES) -> LogWinners | None:
    """The winners of a split's logs, as rows with the columns `schema.stored`; None if no record counts.

    Gaps that lose no record are counted in the report. `held_bytes` is that of `LogFiles`. CorruptBlock for other
    damage, CorruptFile for a log that is gone or cut off, UnsupportedFeature for counted blocks that are not supported:
    each names table, file and block.
    """
    files = LogFiles(context.storage, context.split.logs, context.scan.table, held_bytes)
    try:
        with context.tally.phase("open"):
            blocks = _counted_blocks(files, context)
        return _LogReader(files, context).winners(blocks)
    finally:
        files.release()


def unmerged_records(context: SplitContext) -> Iterator[pa.RecordBatch]:
    """Every record that counts, unmerged, in the order of the log, with the columns `schema.stored`.

    Delete markers are ignored. A record of a delete block has its key alone. Errors as for `read_log`.
    """
    schema = context.schema
    files = LogFiles(context.storage, context.split.logs, context.scan.table)
    try:
        blocks = _counted_blocks(files, context)
        decoder = BlockDecoder(files, context)
        stored = pa.schema([schema.table.field(name) for name in schema.stored])
        for counted in blocks:
            if counted.block.kind is not BlockKind.DELETE:
                yield from decoder.decode(counted, schema.stored, *decoder.bounds(counted))
                continue
            content = memoryview(files.data(counted.log))[counted.block.content_start : counted.block.content_end]
            walk = _compiled_walk() if context.options.compiled else decode_delete_list
            keys = decode_deletes(content, counted.place, walk).keys
            columns = [_of_delete(name, keys, stored) for name in stored.names]
            yield pa.RecordBatch.from_arrays(columns, schema=stored)
    finally:
        files.release()


def _of_delete(name: str, keys: pa.Array, schema: pa.Schema) -> pa.Array:
    if name == RECORD_KEY:
        return keys
    if name == OPERATION:
        return pa.repeat(pa.scalar("D"), len(keys))
    return pa.nulls(len(keys), schema.field(name).type)


@dataclass(frozen=True, slots=True)
class _VisibleHere(VisibleInstants):
    """The scan's visible instants but for those whose blocks one split leaves out."""

    left_out: frozenset[InstantTime] = frozenset()

    def holds(self, requested_time: str) -> bool:
        return requested_time not in self.left_out and VisibleInstants.holds(self, requested_time)


def _counted_blocks(files: LogFiles, context: SplitContext) -> list[CountedBlock]:
    scan, split = context.scan, context.split
    if split.left_out is not None and split.left_out.blocks:
        shown = scan.visible
        visible = _VisibleHere(shown.members, shown.archived_before, shown.not_after, split.left_out.blocks)
        context = replace(context, scan=replace(scan, visible=visible))
    counted = CountedBlocks(scan.table, context.scan.visible, originals_first=isinstance(scan.rows, RowsOf))
    for place, log in enumerate(split.logs):
        data = files.data(place)
        items = read_blocks(data, f"table {scan.table}: {log.path}")
        counted.add_file(place, log.path, whole_blocks(items, data, log, context))
    return counted.in_order()


class _LogReader:
    """One read of one split's log."""

    def __init__(self, files: LogFiles, context: SplitContext) -> None:
        self._files, self._context = files, context
        self._scan, self._split, self._schema = context.scan, context.split, context.schema
        self._compiled = context.options.compiled
        self._blocks = BlockDecoder(files, context)
        self._marks_held = False

    def winners(self, blocks: Sequence[CountedBlock]) -> LogWinners | None:
        tally = self._context.tally
        filler = self._filler(blocks)
        content_bytes = sum(found.block.content_end - found.block.content_start for found in blocks)
        keys_only = self._schema.log_merge_columns
        everything = tuple(dict.fromkeys((*keys_only, *self._schema.stored)))
        one_pass = content_bytes <= ONE_PASS_BYTES or set(everything) == set(keys_only)
        with tally.phase("log_decode"):
            gathered = self._gather(blocks, everything if one_pass else keys_only, keep_rows=one_pass)
        if not gathered.records:
            return None
        self._files.let_go()
        if filler is not None and self._marks_held and not isinstance(self._scan.fill, WholeRecords):
            filler = replace(filler, early=self._early_gaps(gathered))
        with tally.phase("build"):
            table, numbers = self._numbered(blocks, gathered)
            kinds = np.concatenate(gathered.kinds)
            ordering = self._ordering(gathered)
            deciding = self._scan.merge, numbers, table.count, kinds, None if ordering is None else ordering.ranks()
            folded = fold(*deciding)
            chained = None if filler is None else chains(*deciding, from_newer=filler.from_newer)
            standing = folded.standing
            data = kinds[standing] == RecordKind.DATA
            arrivals = np.sort(standing[data])
            row_of = np.where(data, np.searchsorted(arrivals, standing), -1)
        with tally.phase("log_decode"):
            rows = self._composed(gathered, kinds, arrivals, one_pass, chained, filler)
        return LogWinners(
            table=table,
            kinds=kinds[standing],
            ordering=None if ordering is None else ordering.take(standing),
            row_of=row_of,
            rows=rows,
            folded=folded,
            filler=filler,
        )

    def _filler(self, blocks: Sequence[CountedBlock]) -> Filler | None:
        """How records fill each other's gaps; None where each is whole. From its first partial block on Hudi merges
        all of a slice so; whole records before it have no gaps, so that it does not matter where it is."""
        scan, partial = self._scan, next((found for found in blocks if found.block.header.is_partial), None)
        whole = isinstance(scan.fill, WholeRecords)
        if partial is None and whole:
            return None
        if partial is None:
            return Filler(
                columns=self._schema.stored,
                gaps=gaps_of(scan, self._schema.record),
                last_writer=shows_last_writer(scan.fill),
                from_newer=fills_from_newer(scan.fill),
            )
        if (not whole and scan.table_version < _FILL_MODES) or (
            isinstance(scan.merge, EventTimeOrdering) and scan.merge.deletes_win
        ):
            raise CorruptBlock(
                f"{partial.place}: a block of partial updates (IS_PARTIAL) in a table of version {scan.table_version} "
                "whose payload class merges records; no payload class merges such a block, and Hudi cannot read it "
                "either: restore the table's properties to those that the block was written under"
            )
        self._marks_held = True
        return Filler(columns=self._schema.stored, gaps=absent, last_writer=False, from_newer=True)

    def _early_gaps(self, gathered: _Gathered) -> EarlyGaps:
        """Before its first partial block Hudi fills by the table's mode, from there on only what a record has not."""
        first = next(block.first for block in gathered.data_blocks if block.counted.block.header.is_partial)
        return EarlyGaps(gaps_of(self._scan, self._schema.record), first)

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
        deletes = decode_deletes(content, found.place, _compiled_walk() if self._compiled else decode_delete_list)
        if not len(deletes):
            return
        kinds = np.full(len(deletes), RecordKind.DEFAULT_DELETE, np.uint8)
        ordering: Sequence[pa.Array] = ()
        if self._schema.ordering:
            if not self._schema.ordering.deletes_win and not self._schema.ordering.dotted:
                deletes = in_column_units(deletes, self._schema.ordering_fields)
            ordering, default = self._schema.ordering.of_deletes(deletes)
            self._check_classes(found, deletes, default)
            kinds[~default] = RecordKind.DELETE
        gathered.add(self._schema.keys.of_deletes(deletes.keys), kinds, ordering)

    def _check_classes(self, found: CountedBlock, deletes: DeleteRecords, default: np.ndarray) -> None:
        """Values of other classes than the ordering columns' are from before a type change, or have no order at all."""
        if self._schema.ordering.deletes_win or not found.block.header.schema_json:
            return
        if has_foreign_values(deletes, default):
            writer = self._blocks.writer(found)
            for ordering in self._schema.ordering_fields:
                check_same_type(writer, ordering, str(found.place))

    def _gather_data(self, found: CountedBlock, gathered: _Gathered, columns: tuple[str, ...], keep_rows: bool) -> None:
        begin, end = self._blocks.bounds(found)
        gathered.data_blocks.append(_DataBlock(found, begin, end, gathered.records))
        for batch in self._blocks.decode(found, columns, begin, end):
            try:
                keys = self._schema.keys.keys(batch)
            except NoKey as error:
                raise CorruptBlock(f"{found.place}: a record {error}: restore the file") from None
            ordering = self._schema.ordering.parts(batch)
            gathered.add(keys, self._kinds(batch, ordering), ordering)
            if keep_rows:
                gathered.rows.append(self._kept(batch, found))

    def _kinds(self, batch: pa.RecordBatch, ordering: list[pa.Array]) -> np.ndarray:
        """Rows with a delete mark are deletes; without an ordering value of their own default ones."""
        kinds = np.full(batch.num_rows, RecordKind.DATA, np.uint8)
        marked = self._schema.deletes.marked(batch)
        if marked is None:
            return kinds
        default = self._schema.ordering.without_value(ordering) if ordering else np.ones(batch.num_rows, bool)
        kinds[marked] = RecordKind.DELETE
        kinds[marked & default] = RecordKind.DEFAULT_DELETE
        return kinds

    def _ordering(self, gathered: _Gathered) -> OrderingTuples | None:
        if not self._schema.ordering:
            return None
        columns = zip(self._schema.ordering.types, zip(*gathered.ordering, strict=True), strict=True)
        return OrderingTuples([pa.chunked_array(list(parts), kind).combine_chunks() for kind, parts in columns])

    def _composed(
        self,
        gathered: _Gathered,
        kinds: np.ndarray,
        tops: np.ndarray,
        one_pass: bool,
        chained: Chains | None,
        filler: Filler | None,
    ) -> LogRows:
        """The rows of the winners `tops` (ascending), with what the records beneath them fill in."""
        if chained is None or filler is None:
            return self._rows(gathered, kinds, tops, one_pass, self._schema.pass_through)
        members = chained.members()
        return composed(self._rows(gathered, kinds, members, one_pass), members, chained, tops, filler)

    def _rows(
        self,
        gathered: _Gathered,
        kinds: np.ndarray,
        arrivals: np.ndarray,
        one_pass: bool,
        may_be_encoded: tuple[str, ...] = (),
    ) -> LogRows:
        """The full rows of the records `arrivals` (ascending)."""
        if not one_pass:
            return LogRows(self._decode_winners(gathered.data_blocks, arrivals), may_be_encoded)
        if len(arrivals) == sum(batch.num_rows for batch in gathered.rows):
            return LogRows(gathered.rows, may_be_encoded)
        rows = LogRows(gathered.rows)
        among_data = np.cumsum(self._is_decoded(gathered, kinds)) - 1
        return LogRows(rows.take(among_data[arrivals], len(arrivals), 1 << 62), may_be_encoded)

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
            for batch in self._blocks.decode(block.counted, self._schema.stored, block.begin[mine], block.end[mine]):
                yield self._kept(batch, block.counted)

    def _kept(self, batch: pa.RecordBatch, found: CountedBlock) -> pa.RecordBatch:
        """The row's columns and, where a log has partial updates, for each whether the record has it."""
        kept = batch.select(self._schema.stored)
        if not self._marks_held:
            return kept
        written = self._blocks.written(found) if found.block.header.is_partial else set(self._schema.stored)
        names = list(self._schema.stored)
        held = [pa.array(np.full(batch.num_rows, name in written)) for name in names]
        return pa.RecordBatch.from_arrays([*kept.columns, *held], names=[*names, *(HELD + name for name in names)])


def _compiled_walk() -> DeleteListDecoder:
    from penstock.reader.kernels.deletes import decode_delete_list as compiled_decoder

    walk: DeleteListDecoder = compiled_decoder
    return walk
