"""Reads one split as Arrow batches. `read_split` is the only entry point of the data plane.

A split is read in one of four ways: a base file alone (this module), a file slice with logs (`merge_on_read`), changes
(`cdc`), a range of a topic (`topics`). The last three are imported when a split first needs them, so that a worker that
reads few base files alone loads no compiled kernel. Columns are chosen by `split.read_schema`, ordinals and filters are
applied by `split.emit`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.proto.errors import ConfigurationError, InvariantViolation, SchemaMismatch, StateVersionError
from penstock.proto.model.changes import ChangesOf, GroupChanges
from penstock.proto.model.hybrid import KafkaRange
from penstock.proto.model.splits import FORMAT_VERSION, CustomMerge, Origin, RowGroupRun, Scan, Split, WholeFile
from penstock.proto.value_classes import dataclass
from penstock.reader.base.row_group_stats import RowGroupFilter, kept_by, range_of
from penstock.reader.base.split_file import OpenBase, open_base
from penstock.reader.kernels.choice import KERNELS
from penstock.reader.output_schema import output_schema
from penstock.reader.split.context import ReadOptions, SplitContext
from penstock.reader.split.emit import BatchFinisher, SplitBatch
from penstock.reader.split.partition_columns import PartitionConstants
from penstock.reader.split.read_schema import read_schema_of
from penstock.reader.split.report import SplitTally
from penstock.reader.split.scan_storage import TABLES
from penstock.reader.values.memory_pool import with_system_pool
from penstock.reader.values.record_keys import RECORD_KEY
from penstock.table.arrow_errors import with_translated_errors
from penstock.table.storage.filesystem import Storage

if TYPE_CHECKING:
    from penstock.reader.merge.stream import LogWinners
    from penstock.reader.topics.reading import TopicReading
    from penstock.table.predicate.tree import Predicate

__all__ = ["ReadOptions", "SplitBatch", "SplitTally", "output_schema", "read_split", "warm_up"]


def read_split(
    scan: Scan,
    split: Split,
    *,
    start: int = 0,
    options: ReadOptions | None = None,
    storage: Storage | None = None,
    tally: SplitTally | None = None,
    topics: TopicReading | None = None,
) -> Generator[SplitBatch, None, None]:
    """The merged rows of a split, in an order that the split alone determines. Closing the generator closes its files.

    The order is: for each row group the base rows that stay, in file order, then the log's winners that replace rows of
    it, in the log's arrival order; after the last row group the inserts, in arrival order. Ordinals count rows in this
    order, before `scan.rows` and `scan.where` are applied. If the range (`scan.rows`) needs no base row and no base row
    wins over the log, then all base rows count as staying and the log's winners as inserts.

    `start=n` returns the rows with ordinal n and above: exactly the tail of a full read. Batches have the schema
    `output_schema(scan)` and at least one row. Nothing else depends on batch sizes or on the way the split is read.
    Memory grows with the log part of the split only.

    A range of a topic is read through `topics`, in offset order (`reader.topics.reading.read_topic`).

    Raises before the first batch is requested: StateVersionError for a scan or split of an unknown format version,
    ConfigurationError for columns or filters that do not fit the table, UnsupportedFeature for a custom merger without
    a function (`ReadOptions.mergers`). While reading: CorruptFile, CorruptBlock,
    SchemaMismatch, UnsupportedFeature, StorageError, each naming table and file; OutOfMemory.
    """
    options = options or ReadOptions()
    if options.compiled is None:
        options = replace(options, compiled=KERNELS.for_split(split), is_chosen=True)
    tally = tally or SplitTally()
    _check_version("scan", scan.format_version)
    _check_version("split", split.format_version)
    if start < 0:
        raise ConfigurationError(f"start {start}: an ordinal is 0 or above")
    where = f"table {scan.table}: split {split.split_id}"
    if isinstance(split.part, KafkaRange):
        return with_translated_errors(_topic(scan, split, start, options, tally, topics), where)
    if isinstance(scan.merge, CustomMerge):
        from penstock.reader.merge.mergers import find_functions  # late: few tables have a custom merger

        find_functions(scan.merge, scan.table_version, options.mergers, where)
    if split.logs and not isinstance(split.part, WholeFile):
        raise InvariantViolation(f"split {split.split_id} of table {scan.table} has logs and a part of its base file")
    storage = storage or TABLES.of(scan)
    if isinstance(scan.rows, ChangesOf):
        return with_translated_errors(with_system_pool(_changes(scan, split, start, options, storage, tally)), where)
    if isinstance(split.part, GroupChanges):
        raise InvariantViolation(f"split {split.split_id} of table {scan.table} holds changes, its scan asks for rows")
    keyed, merged = split.ancestry is not None, bool(split.logs)
    schema = read_schema_of(scan, event_time=tally.event_time, keyed=keyed, merged=merged)
    if split.logs and schema.key_fields == (RECORD_KEY,) and RECORD_KEY not in schema.table.names:
        raise SchemaMismatch(f"table {scan.table}: a log, and no column {RECORD_KEY} to merge by (virtual keys)")
    context = SplitContext(scan=scan, split=split, schema=schema, storage=storage, tally=tally, options=options)
    constants = PartitionConstants(scan, split, schema.table, schema.carried)
    tally.begin(split.size_bytes)

    def keys_of(origin: Origin) -> pa.Array:
        return _keys_of(context, origin)

    finisher = BatchFinisher(scan, split, schema, constants, keys_of)
    batches = _SliceRead(context, split.part, start, constants).batches(finisher)
    return with_translated_errors(with_system_pool(batches), where)


def _topic(
    scan: Scan, split: Split, start: int, options: ReadOptions, tally: SplitTally, topics: TopicReading | None
) -> Generator[SplitBatch, None, None]:
    from penstock.reader.topics.reading import read_topic

    return read_topic(scan, split, start, tally, topics, options)


def _changes(
    scan: Scan, split: Split, start: int, options: ReadOptions, storage: Storage, tally: SplitTally
) -> Generator[SplitBatch, None, None]:
    from penstock.reader.cdc.read_changes import read_changes
    from penstock.reader.cdc.read_schema import changes_read_schema

    def slice_reader(inner: Scan, part: Split, inner_tally: SplitTally) -> Generator[SplitBatch, None, None]:
        return read_split(inner, part, options=options, storage=storage, tally=inner_tally)

    changes = changes_read_schema(scan, event_time=tally.event_time)
    context = SplitContext(scan=scan, split=split, schema=changes.table, storage=storage, tally=tally, options=options)
    return read_changes(context, changes, start, slice_reader)


def _keys_of(context: SplitContext, origin: Origin) -> pa.Array:
    """The record keys of an origin's rows that are in the scan's range."""
    keys_only = replace(context.scan, columns=(RECORD_KEY,), where="")
    keys: list[pa.Array] = []
    for split in origin.slices:
        batches = read_split(keys_only, split, options=context.options, storage=context.storage)
        keys += [piece.batch.column(0) for piece in batches]
    return pa.chunked_array(keys, pa.string()).combine_chunks()


def warm_up() -> None:
    """Compiles the kernels or loads them from the cache, so that a worker's first split does not have to."""
    from penstock.reader.avro.decoder import warm_up as warm_up_decoding
    from penstock.reader.merge.keys import number_keys

    warm_up_decoding()
    table, _ = number_keys([pa.array(["a"])])
    table.match(pa.array(["a"]), 0)


@dataclass(frozen=True, slots=True)
class _SliceRead:
    """One read of one file slice, or of row groups of its base file."""

    context: SplitContext
    part: WholeFile | RowGroupRun
    start: int
    constants: PartitionConstants

    def batches(self, finisher: BatchFinisher) -> Generator[SplitBatch, None, None]:
        """Opens the files, merges and emits. Closing the generator closes the files."""
        context = self.context
        with ExitStack() as files:
            winners = None
            if context.split.logs:
                from penstock.reader import merge_on_read

                winners = merge_on_read.read_log(context)
            with context.tally.phase("open"):
                base = self._base(files, winners)
            rows = self._base_rows(base) if winners is None else self._merged_rows(winners, base)
            yield from self._emitted(finisher, rows)

    def _merged_rows(self, winners: LogWinners, base: OpenBase | None) -> Iterator[tuple[int, pa.RecordBatch]]:
        from penstock.reader import merge_on_read

        context = self.context
        out_of_range = pruning = None
        if winners.filler is None:
            out_of_range = self._pruning(base, range_of(context.scan, context.schema))
            pruning = self._pruning(base, kept_by(context.scan, context.schema))
        if (
            base is not None
            and out_of_range is not None
            and merge_on_read.is_beaten(base, winners, context.schema, out_of_range)
        ):
            return merge_on_read.unread_base_rows(context, winners, base)
        return merge_on_read.merged_rows(context, winners, base, pruning)

    def _base(self, files: ExitStack, winners: LogWinners | None) -> OpenBase | None:
        context, schema = self.context, self.context.schema
        base = open_base(
            context,
            schema.stored if winners is None else schema.base_columns,
            key=RECORD_KEY if winners is not None and not context.scan.key_fields else "",
            may_be_encoded=() if winners is not None and winners.filler is not None else schema.pass_through,
        )
        if base is not None:
            files.callback(base.close)
        return base

    def _pruning(self, base: OpenBase | None, kept: Predicate | None) -> RowGroupFilter | None:
        """Drops the row groups for which the footer shows that `kept` holds for no row; None if it cannot be asked."""
        if base is None or kept is None:
            return None
        return RowGroupFilter(kept, base.row_group_bounds(), self.constants)

    def _base_rows(self, base: OpenBase | None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of a base file without a log, each batch with the ordinal of its first row.

        Row groups that end before `start`, and those of which the footer shows that no row is kept, are not decoded.
        Their rows count in ordinals.
        """
        context = self.context
        pruning = self._pruning(base, kept_by(context.scan, context.schema))
        ordinal = 0
        for group in base.row_groups(self.part, context.batch_size) if base is not None else ():
            if ordinal + group.num_rows <= self.start:
                ordinal += group.num_rows
                continue
            if pruning is not None and pruning.drops(group.number):
                context.tally.count_pruned(group.num_rows)
                ordinal += group.num_rows
                continue
            for batch in group.batches():
                yield ordinal, batch
                ordinal += batch.num_rows

    def _emitted(
        self, finisher: BatchFinisher, numbered: Iterator[tuple[int, pa.RecordBatch]]
    ) -> Generator[SplitBatch, None, None]:
        tally = self.context.tally
        while True:
            with tally.phase("merge"):
                rows = next(numbered, None)
            if rows is None:
                return
            ordinal, merged = rows
            with tally.phase("emit"):
                finished = finisher.emit(merged, ordinal, self.start)
            if finished is not None:
                tally.count_batch(finished[1])
                yield finished[0]


def _check_version(what: str, version: int) -> None:
    if not 1 <= version <= FORMAT_VERSION:
        raise StateVersionError(
            f"{what} of format version {version}: this build knows 1 to {FORMAT_VERSION}; read it with the version of "
            "Penstock that planned it, or plan the query again"
        )
