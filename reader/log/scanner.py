"""Reads the log of a split to its winners: first the columns that decide (keys, ordering, deletes), then the winners'
rows.

`block_selection` decides which blocks count, `merge.fold` which record wins, `block_decoder` decodes. When `read_log`
returns, no raw bytes are held.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptBlock, PenstockError
from penstock.proto.model.splits import CustomMerge, EventTimeOrdering, WholeRecords
from penstock.reader.log.block_decoder import BlockDecoder, BlockRecords, compiled_decoder
from penstock.reader.log.block_selection import CountedBlock
from penstock.reader.log.counted import counted_blocks
from penstock.reader.log.decided import DecidedLog, NeededNumbers
from penstock.reader.log.file_bytes import HELD_BYTES, LogFiles
from penstock.reader.log.first_pass import DataBlock, FirstPass
from penstock.reader.log.record_positions import usable_positions
from penstock.reader.merge.chains import Chains, chains
from penstock.reader.merge.filling import EarlyGaps, Filler, filled_rows
from penstock.reader.merge.fold import RecordKind, fold
from penstock.reader.merge.gaps import HELD, absent, fills_from_newer, gaps_of, shows_last_writer
from penstock.reader.merge.keys import RecordTable, number_keys, number_positions
from penstock.reader.merge.log_rows import LogRows
from penstock.reader.merge.ordering import OrderingTuples
from penstock.reader.merge.ordering_columns import check_same_types, has_foreign_values, in_microseconds
from penstock.reader.merge.stream import LogWinners
from penstock.reader.split.context import SplitContext
from penstock.reader.values.record_keys import NoKey
from penstock.table.arrow_arrays import arrow_array
from penstock.table.log.blocks import BlockKind

if TYPE_CHECKING:
    from penstock.table.log.deletes import DeleteRecords

ONE_PASS_BYTES: Final = 256 << 10
"""Up to this size of data blocks, full rows are decoded in the first pass: a second pass would cost more than it saves.
"""
_SMALL_PARQUET_BYTES: Final = 32 << 10
"""So many bytes of each Parquet block, on average, do not count: opening a block costs more than decoding them ..."""
_MOST_SMALL_BYTES: Final = 2 << 20
"""... up to this size of all of them."""

_PENDING_BLOCKS: Final = 256
"""The most blocks whose records are found before they are decoded."""

_FILL_MODES: Final = 9
"""The first table version with partial update modes. Below it payload classes fill gaps."""


def read_log(
    context: SplitContext, *, held_bytes: int = HELD_BYTES, needed: NeededNumbers = lambda _: None
) -> LogWinners | None:
    """The winners of a split's logs, as rows with the columns `schema.stored`; None if no record counts.

    Gaps that lose no record are counted in the report. `held_bytes` is that of `LogFiles`. Numbers that are not
    `needed` count as deletes: their rows are not decoded. CorruptBlock for other damage, CorruptFile for a log that is
    gone or cut off, OutOfMemory for a block of too many bytes: each names table, file and block.
    """
    shared = context.shared_log
    with _opened(context, held_bytes) as (reader, blocks):
        if shared is None:
            decided = reader.decided(blocks)
        else:
            files = tuple(counted.log for counted in blocks)  # rows that are decoded later are read from them
            state = context.split.base, context.split.base_instant, context.schema.stored, _places(blocks), files
            decided = shared.winners(state, lambda: reader.decided(blocks))
        return None if decided is None else reader.winners(decided, needed)


def read_log_keys(context: SplitContext) -> RecordTable | None:
    """The keys of all records of a split's logs, deletes included; None if no record counts. Errors as for `read_log`
    of a split without a base file."""
    with _opened(context, HELD_BYTES) as (reader, blocks):
        return reader.keys(blocks)


@contextmanager
def _opened(context: SplitContext, held_bytes: int) -> Iterator[tuple[_LogReader, Sequence[CountedBlock]]]:
    files = LogFiles(context.storage, context.split.logs, context.scan.table, held_bytes, context.shared_log)
    try:
        with context.tally.phase("open"):
            blocks = counted_blocks(files, context)
        context.tally.log_blocks += len(blocks)
        yield _LogReader(files, context), blocks
    finally:
        files.release()


def _places(blocks: Sequence[CountedBlock]) -> Hashable:
    return tuple((counted.place.file, counted.block.offset) for counted in blocks)


class _LogReader:
    """One read of one split's log."""

    def __init__(self, files: LogFiles, context: SplitContext) -> None:
        self._files, self._context = files, context
        self._scan, self._split, self._schema = context.scan, context.split, context.schema
        self._blocks = BlockDecoder(files, context)
        self._marks_held = False

    def keys(self, blocks: Sequence[CountedBlock]) -> RecordTable | None:
        with self._context.tally.phase("log_decode"):
            first_pass = self._first_pass(blocks, self._schema.log_merge_columns, keep_rows=False)
        with self._context.tally.phase("build"):
            return self._numbered(blocks, first_pass)[0] if first_pass.records else None

    def winners(self, decided: DecidedLog, needed: NeededNumbers) -> LogWinners:
        numbers = needed(decided.winners.table)
        with self._context.tally.phase("log_decode"):
            return decided.with_rows(numbers, self._decode_winners, self._schema.pass_through)

    def decided(self, blocks: Sequence[CountedBlock]) -> DecidedLog | None:
        tally = self._context.tally
        filler = self._filler(blocks)
        sizes = [counted.block.content_end - counted.block.content_start for counted in blocks]
        parquet = [size for size, counted in zip(sizes, blocks, strict=True) if _is_parquet(counted)]
        small_bytes = min(_SMALL_PARQUET_BYTES * len(parquet), _MOST_SMALL_BYTES)
        large_bytes = sum(sizes) - (sum(parquet) if sum(parquet) <= small_bytes else 0)
        keys_only = self._schema.log_merge_columns
        everything = tuple(dict.fromkeys((*keys_only, *self._schema.stored)))
        one_pass = large_bytes <= ONE_PASS_BYTES or set(everything) == set(keys_only)
        with tally.phase("log_decode"):
            first_pass = self._first_pass(blocks, everything if one_pass else keys_only, keep_rows=one_pass)
        if not first_pass.records:
            return None
        self._files.release_local()
        if filler is not None and self._marks_held and not isinstance(self._scan.fill, WholeRecords):
            filler = replace(filler, early=self._early_gaps(first_pass))
        with tally.phase("build"):
            table, numbers = self._numbered(blocks, first_pass)
            kinds = np.concatenate(first_pass.kinds)
        if isinstance(self._scan.merge, CustomMerge):
            return DecidedLog(self._merged_by_function(blocks, first_pass, kinds, one_pass, table, numbers))
        with tally.phase("build"):
            ordering = self._ordering(first_pass)
            deciding = self._scan.merge, numbers, table.count, kinds, None if ordering is None else ordering.ranks()
            folded = fold(*deciding)
            chained = None if filler is None else chains(*deciding, from_newer=filler.from_newer)
            winning = folded.winning
            data = kinds[winning] == RecordKind.DATA
            arrivals = np.sort(winning[data])
            row_of = np.where(data, np.searchsorted(arrivals, winning), -1)
        is_later = not one_pass and filler is None
        with tally.phase("log_decode"):
            decoding = first_pass, kinds, arrivals, one_pass, chained, filler
            rows = LogRows(()) if is_later else self._filled_rows(*decoding)
        winners = LogWinners(
            table=table,
            kinds=kinds[winning],
            ordering=None if ordering is None else ordering.take(winning),
            row_of=row_of,
            rows=rows,
            folded=folded,
            filler=filler,
        )
        return DecidedLog(winners, (first_pass.data_blocks, arrivals) if is_later else None)

    def _merged_by_function(
        self,
        blocks: Sequence[CountedBlock],
        first_pass: FirstPass,
        kinds: np.ndarray,
        one_pass: bool,
        table: RecordTable,
        numbers: np.ndarray,
    ) -> LogWinners:
        from penstock.reader.log.custom import merger_of_blocks  # late: few tables have a custom merger
        from penstock.reader.merge.versions import Versions, merged_versions

        merger = merger_of_blocks(blocks, self._context)
        decoded = np.flatnonzero(self._is_decoded(first_pass, kinds))
        with self._context.tally.phase("log_decode"):
            rows = self._rows(first_pass, kinds, decoded, one_pass)
        columns = zip(self._schema.ordering.names, zip(*first_pass.ordering, strict=True), strict=False)
        ordering = {name: pa.chunked_array(list(parts)) for name, parts in columns}
        with self._context.tally.phase("build"):
            versions = Versions(numbers, kinds, decoded, rows, first_pass.keys, ordering)
            return merged_versions(versions, table, merger)

    def _filler(self, blocks: Sequence[CountedBlock]) -> Filler | None:
        """How records fill each other's gaps; None if each record is complete.

        From the first partial block on, Hudi merges all records of a slice with gaps. Complete records before it have
        no gaps, so its place does not matter.
        """
        scan, partial = self._scan, next((counted for counted in blocks if counted.block.header.is_partial), None)
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

    def _early_gaps(self, first_pass: FirstPass) -> EarlyGaps:
        """Before its first partial block Hudi fills by the table's mode; from there on only values that a record does
        not hold."""
        first = next(block.first for block in first_pass.data_blocks if block.records.counted.block.header.is_partial)
        return EarlyGaps(gaps_of(self._scan, self._schema.record), first)

    def _numbered(self, blocks: Sequence[CountedBlock], first_pass: FirstPass) -> tuple[RecordTable, np.ndarray]:
        """Matches by position if Hudi does (every block has positions for this base file), else by key. The rows only
        differ if the base has a key twice."""
        if self._split.base is not None:
            positions = usable_positions(blocks, first_pass.block_records, self._split.base_instant)
            if positions is not None:
                where = f"table {self._scan.table}: base file {self._split.base.path}"
                return number_positions(positions, first_pass.keys, where)
        shared, compiled = self._context.shared_log, self._context.options.matching
        if shared is None:
            return number_keys(first_pass.keys, compiled=compiled)
        return shared.numbered(_places(blocks), lambda: number_keys(first_pass.keys, compiled=compiled))

    def _first_pass(self, blocks: Iterable[CountedBlock], columns: tuple[str, ...], *, keep_rows: bool) -> FirstPass:
        first_pass = FirstPass()
        pending: list[BlockRecords] = []
        for counted in blocks:
            if counted.block.kind is BlockKind.DELETE:
                self._add_data(pending, first_pass, columns, keep_rows)
                pending = []
                before = first_pass.records
                self._add_deletes(counted, first_pass)
                first_pass.block_records.append(first_pass.records - before)
                continue
            if pending and pending[-1].counted.log != counted.log and not self._files.keeps_all:
                self._add_data(pending, first_pass, columns, keep_rows)
                pending = []
            try:
                block = BlockRecords(counted, *self._blocks.bounds(counted))
            except PenstockError:
                self._add_data(pending, first_pass, columns, keep_rows)  # an error of an earlier block comes first
                raise
            first = first_pass.records + sum(len(other.begin) for other in pending)
            first_pass.data_blocks.append(DataBlock(block, first))
            first_pass.block_records.append(len(block.begin))
            pending.append(block)
            if counted.block.kind is not BlockKind.AVRO_DATA or len(pending) >= _PENDING_BLOCKS:
                self._add_data(pending, first_pass, columns, keep_rows)
                pending = []
        self._add_data(pending, first_pass, columns, keep_rows)
        return first_pass

    def _add_deletes(self, counted: CountedBlock, first_pass: FirstPass) -> None:
        from penstock.table.log.delete_list import decode_delete_list  # late: many logs have no deletes
        from penstock.table.log.deletes import decode_deletes

        block = counted.block
        content = memoryview(self._files.data(counted.log))[block.content_start : block.content_end]
        by_kernel = self._context.options.decodes_by_kernels(len(content))
        deletes = decode_deletes(content, counted.place, compiled_decoder() if by_kernel else decode_delete_list)
        if not len(deletes):
            return
        kinds = np.full(len(deletes), RecordKind.DEFAULT_DELETE, np.uint8)
        ordering: Sequence[pa.Array] = ()
        if self._schema.ordering:
            if not self._schema.ordering.deletes_win and not self._schema.ordering.dotted:
                deletes = in_microseconds(deletes, self._schema.ordering_fields)
            ordering, default = self._schema.ordering.of_deletes(deletes)
            self._check_classes(counted, deletes, default)
            kinds[~default] = RecordKind.DELETE
        first_pass.add(self._schema.keys.of_deletes(deletes.keys), kinds, ordering)

    def _check_classes(self, counted: CountedBlock, deletes: DeleteRecords, default: np.ndarray) -> None:
        """Checks deletes whose values have another class than the ordering columns: they are from before a type change,
        or have no order."""
        if self._schema.ordering.deletes_win or not counted.block.header.schema_json:
            return
        if has_foreign_values(deletes, default):
            writer = self._blocks.writer(counted)
            check_same_types(writer, self._schema.ordering.names, self._schema.ordering_fields, str(counted.place))

    def _add_data(
        self, blocks: Sequence[BlockRecords], first_pass: FirstPass, columns: tuple[str, ...], keep_rows: bool
    ) -> None:
        for counted, batch in self._blocks.decode_all(blocks, columns):
            try:
                keys = self._schema.keys.keys(batch)
            except NoKey as error:
                raise CorruptBlock(
                    f"{self._without_key(blocks, counted)}: a record {error}: restore the file"
                ) from None
            ordering = self._schema.ordering.parts(batch)
            first_pass.add(keys, self._kinds(batch, ordering), ordering)
            if keep_rows:
                first_pass.rows.append(self._with_held(batch, counted))

    def _without_key(self, blocks: Sequence[BlockRecords], joined: CountedBlock) -> str:
        """The place of the first block with a record without a key, among blocks that may have been decoded at once."""
        for block in blocks:
            for batch in self._blocks.decode(block.counted, self._schema.log_merge_columns, block.begin, block.end):
                try:
                    self._schema.keys.keys(batch)
                except NoKey:
                    return str(block.counted.place)
        return str(joined.place)

    def _kinds(self, batch: pa.RecordBatch, ordering: list[pa.Array]) -> np.ndarray:
        """Rows with a delete marker are deletes; those without an ordering value of their own are default deletes."""
        kinds = np.full(batch.num_rows, RecordKind.DATA, np.uint8)
        marked = self._schema.deletes.marked(batch)
        if marked is None:
            return kinds
        default = self._schema.ordering.without_value(ordering) if ordering else np.ones(batch.num_rows, bool)
        kinds[marked] = RecordKind.DELETE
        kinds[marked & default] = RecordKind.DEFAULT_DELETE
        return kinds

    def _ordering(self, first_pass: FirstPass) -> OrderingTuples | None:
        if not self._schema.ordering:
            return None
        columns = zip(self._schema.ordering.types, zip(*first_pass.ordering, strict=True), strict=True)
        return OrderingTuples([pa.chunked_array(list(parts), kind).combine_chunks() for kind, parts in columns])

    def _filled_rows(
        self,
        first_pass: FirstPass,
        kinds: np.ndarray,
        tops: np.ndarray,
        one_pass: bool,
        chained: Chains | None,
        filler: Filler | None,
    ) -> LogRows:
        """The rows of the winners `tops` (ascending), with values that the records below them fill in."""
        if chained is None or filler is None:
            return self._rows(first_pass, kinds, tops, one_pass, self._schema.pass_through)
        members = chained.members()
        return filled_rows(self._rows(first_pass, kinds, members, one_pass), members, chained, tops, filler)

    def _rows(
        self,
        first_pass: FirstPass,
        kinds: np.ndarray,
        arrivals: np.ndarray,
        one_pass: bool,
        may_be_encoded: tuple[str, ...] = (),
    ) -> LogRows:
        """The full rows of the records `arrivals` (ascending)."""
        if not one_pass:
            return LogRows(self._decode_winners(first_pass.data_blocks, arrivals), may_be_encoded)
        if len(arrivals) == sum(batch.num_rows for batch in first_pass.rows):
            return LogRows(first_pass.rows, may_be_encoded)
        rows = LogRows(first_pass.rows)
        among_data = np.cumsum(self._is_decoded(first_pass, kinds)) - 1
        return LogRows(rows.take(among_data[arrivals], len(arrivals), 1 << 62), may_be_encoded)

    def _is_decoded(self, first_pass: FirstPass, kinds: np.ndarray) -> np.ndarray:
        """Which records came from data blocks, those with a delete marker included."""
        decoded = np.zeros(len(kinds), bool)
        for block in first_pass.data_blocks:
            decoded[block.first : block.first + len(block.records.begin)] = True
        return decoded

    def _decode_winners(self, blocks: Sequence[DataBlock], arrivals: np.ndarray) -> Iterator[pa.RecordBatch]:
        winning = []
        for block in blocks:
            records = block.records
            first, last = np.searchsorted(arrivals, (block.first, block.first + len(records.begin)))
            if first < last:
                mine = arrivals[first:last] - block.first
                winning.append(replace(records, begin=records.begin[mine], end=records.end[mine]))
        for counted, batch in self._blocks.decode_all(winning, self._schema.stored):
            yield self._with_held(batch, counted)

    def _with_held(self, batch: pa.RecordBatch, counted: CountedBlock) -> pa.RecordBatch:
        """The row's columns and, for a log with partial updates, for each column whether the record holds it."""
        stored = batch.select(self._schema.stored)
        if not self._marks_held:
            return stored
        written = self._blocks.written(counted) if counted.block.header.is_partial else set(self._schema.stored)
        names = list(self._schema.stored)
        held = [arrow_array(np.full(batch.num_rows, name in written)) for name in names]
        return pa.RecordBatch.from_arrays([*stored.columns, *held], names=[*names, *(HELD + name for name in names)])


def _is_parquet(counted: CountedBlock) -> bool:
    return counted.block.kind is BlockKind.PARQUET_DATA
