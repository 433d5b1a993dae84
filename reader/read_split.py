"""One split in, merged Arrow batches out: the one way into the data plane.

Belongs here: the order in which a split's files are read. Decisions are elsewhere: which columns (`shape`), which
blocks (`log_blocks`), what wins (`merge`), ordinals and filters (`batches`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.proto.changes import ChangesOf, GroupChanges
from penstock.proto.errors import (
    ConfigurationError,
    InvariantViolation,
    SchemaMismatch,
    StateVersionError,
)
from penstock.proto.hybrid import KafkaRange
from penstock.proto.splits import FORMAT_VERSION, Origin, RowGroupRun, Scan, Split, WholeFile
from penstock.reader.avro_records import warm_up as warm_up_decoding
from penstock.reader.base_file import BaseFile, BatchSize
from penstock.reader.batches import BATCH_BYTES, Emission, SplitBatch
from penstock.reader.changes.read_changes import read_changes
from penstock.reader.changes.shape import changes_output
from penstock.reader.log_files import LogFiles
from penstock.reader.log_records import read_log
from penstock.reader.merge.keys import check_positions, number_keys
from penstock.reader.merge.stream import LogWinners, Merge, MergeShape, Passed, RowGroup
from penstock.reader.partition_constants import PartitionConstants
from penstock.reader.report import SplitTally
from penstock.reader.row_group_bounds import RowGroupFilter, kept_by
from penstock.reader.shape import ReadShape, read_shape
from penstock.reader.shape import output_schema as rows_schema
from penstock.reader.topics.reading import TopicReading, read_topic
from penstock.reader.topics.shape import topic_output
from penstock.reader.virtual_keys import RECORD_KEY, KeyedRowGroup
from penstock.table.storage import Storage, open_storage

__all__ = ["ReadOptions", "SplitBatch", "SplitTally", "TopicReading", "output_schema", "read_split", "warm_up"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read, never what comes out: at most `batch_rows` rows a batch; with or without the compiled kernels."""

    batch_rows: int = 32768
    compiled: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.batch_rows <= 1 << 24:
            raise ConfigurationError(f"batch rows {self.batch_rows}: expected 1 to {1 << 24}")


def output_schema(scan: Scan) -> pa.Schema:
    """The Arrow schema of a scan's batches: `scan.columns` in their order, the table's types, all nullable; of changes
    also their own columns, as text. ConfigurationError for a column that is not there, or asked for twice."""
    if scan.topic is not None:
        return topic_output(scan)
    return changes_output(scan) if isinstance(scan.rows, ChangesOf) else rows_schema(scan)


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
    """The merged rows of a split, in an order that the split alone fixes; closing the generator lets go of its files.

    Order: the base rows of a row group that stay, in file order; that row group's winners in the log's arrival order;
    after the last row group the inserts, in arrival order. Ordinals count in it, before `scan.rows` and `scan.where`.
    `start=n` gives the rows with ordinal n and above: exactly the tail of a full read. Batches have the schema
    `output_schema(scan)` and at least one row; their sizes, and the road taken, change nothing else. Memory grows with
    the log part of the split only.

    A range of a topic is read through `topics` instead, in offset order (`reader.topics.reading.read_topic`).

    Raises before the first batch is asked for: StateVersionError for a scan or split of an unknown format version,
    ConfigurationError for columns or filters that do not suit the table. While reading: CorruptFile, CorruptBlock,
    SchemaMismatch, UnsupportedFeature, StorageError, each naming table and file.
    """
    options = options or ReadOptions()
    tally = tally or SplitTally()
    _check_version("scan", scan.format_version)
    _check_version("split", split.format_version)
    if start < 0:
        raise ConfigurationError(f"start {start}: an ordinal is 0 or above")
    if isinstance(split.part, KafkaRange):
        rows, compiled = options.batch_rows, options.compiled
        return read_topic(scan, split, start, tally, topics, batch_rows=rows, compiled=compiled)
    if split.logs and not isinstance(split.part, WholeFile):
        raise InvariantViolation(f"split {split.split_id} of table {scan.table} has logs and a part of its base file")
    storage = storage or open_storage(scan.base_path)
    if isinstance(scan.rows, ChangesOf):

        def slice_reader(inner: Scan, part: Split, inner_tally: SplitTally) -> Generator[SplitBatch, None, None]:
            return read_split(inner, part, options=options, storage=storage, tally=inner_tally)

        return read_changes(
            scan, split, start, storage, tally, slice_reader, batch_rows=options.batch_rows, compiled=options.compiled
        )
    if isinstance(split.part, GroupChanges):
        raise InvariantViolation(f"split {split.split_id} of table {scan.table} holds changes, its scan asks for rows")
    shape = read_shape(scan, event_time=tally.event_time, keyed=split.ancestry is not None)
    if split.logs and shape.key_fields == (RECORD_KEY,) and RECORD_KEY not in shape.table.names:
        raise SchemaMismatch(f"table {scan.table}: a log, and no column {RECORD_KEY} to merge by (virtual keys)")
    constants = PartitionConstants(scan, split, shape.table, shape.carried)
    tally.begin(split.size_bytes)
    storage = storage or open_storage(scan.base_path)
    reading = _Reading(
        scan=scan,
        split=split,
        part=split.part,
        shape=shape,
        start=start,
        options=options,
        storage=storage,
        tally=tally,
    )

    def keys_of(origin: Origin) -> pa.Array:
        return _keys_of(scan, origin, options, storage)

    return reading.batches(Emission(scan, split, shape, constants, keys_of), constants)


def _keys_of(scan: Scan, origin: Origin, options: ReadOptions, storage: Storage) -> pa.Array:
    """The record keys of an origin's rows that are of the scan's range."""
    keys_only = replace(scan, columns=(RECORD_KEY,), where="")
    found: list[pa.Array] = []
    for split in origin.slices:
        batches = read_split(keys_only, split, options=options, storage=storage)
        found += [answer.batch.column(0) for answer in batches]
    return pa.chunked_array(found, pa.string()).combine_chunks()


def warm_up() -> None:
    """Compiles the kernels, or loads them from the cache: for the start of a worker instead of its first split."""
    warm_up_decoding()
    table, _ = number_keys([pa.array(["a"])])
    table.match(pa.array(["a"]), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """One read of one split."""

    scan: Scan
    split: Split
    part: WholeFile | RowGroupRun
    shape: ReadShape
    start: int
    options: ReadOptions
    storage: Storage
    tally: SplitTally

    def batches(self, emission: Emission, constants: PartitionConstants) -> Generator[SplitBatch, None, None]:
        """Opens, merges, emits; everything opened is closed when the generator is."""
        with ExitStack() as opened:
            winners = self._winners() if self.split.logs else None
            with self.tally.phase("open"):
                base = self._base(opened, winners)
            if winners is None:
                yield from self._emitted(emission, self._base_rows(base, constants))
                return
            if base is not None:
                where = f"table {self.scan.table}: split {self.split.split_id}"
                check_positions(winners.table, base.num_rows, where)
            merge = Merge(winners, self._merge_shape())
            groups = self._met_row_groups(base, winners, constants)
            yield from self._emitted(emission, _counted(merge.run(groups)))
            self.tally.merged(merge.outcomes())

    def _winners(self) -> LogWinners | None:
        files = LogFiles(self.storage, self.split.logs, self.scan.table)
        return read_log(files, self.scan, self.split, self.shape, self.tally, compiled=self.options.compiled)

    def _base(self, opened: ExitStack, winners: LogWinners | None) -> BaseFile | None:
        if self.split.base is None:
            return None
        columns = self.shape.stored if winners is None else self.shape.base_with_log
        key = RECORD_KEY if winners is not None and not self.scan.key_fields else ""
        encoded = () if winners is not None and winners.filler is not None else self.shape.handed_through
        names = self.shape.file_names(self.split.base_instant, f"table {self.scan.table}: {self.split.base.path}")
        record, table = self.shape.record, self.scan.table
        base = BaseFile(
            self.storage,
            self.split.base,
            record,
            columns,
            table=table,
            key=key,
            names=names,
            may_be_encoded=encoded,
            tally=self.tally,
        )
        opened.enter_context(base)
        return base

    def _met_row_groups(
        self, base: BaseFile | None, winners: LogWinners, constants: PartitionConstants
    ) -> Iterator[RowGroup]:
        """The base's row groups with their keys, stored or made. Of those of which the footer says that no row is kept,
        only what a log needs: unless it fills gaps, when a row that comes takes values of one that goes."""
        if base is None:
            return
        dropping = self._dropping(base, constants) if winners.filler is None else None
        for group in base.row_groups(self.part, self._size):
            if dropping is not None and dropping.drops(group.number):
                self.tally.pruned(group.num_rows)
                group = replace(group, columns=self.shape.merged_by)
            yield KeyedRowGroup(group, self.shape.keys, base.where) if self.scan.key_fields else group

    def _dropping(self, base: BaseFile, constants: PartitionConstants) -> RowGroupFilter | None:
        kept = kept_by(self.scan, self.shape)
        return RowGroupFilter(kept, base.row_group_bounds(), constants) if kept else None

    def _base_rows(self, base: BaseFile | None, constants: PartitionConstants) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of a base file without a log; row groups wholly before `start`, and those of which the footer says
        that no row is kept, are not decoded. Their rows count in ordinals all the same."""
        dropping = self._dropping(base, constants) if base is not None else None
        ordinal = 0
        for group in base.row_groups(self.part, self._size) if base is not None else ():
            if ordinal + group.num_rows <= self.start:
                ordinal += group.num_rows
                continue
            if dropping is not None and dropping.drops(group.number):
                self.tally.pruned(group.num_rows)
                ordinal += group.num_rows
                continue
            for batch in group.batches():
                yield ordinal, batch
                ordinal += batch.num_rows

    def _emitted(
        self, emission: Emission, numbered: Iterator[tuple[int, pa.RecordBatch]]
    ) -> Generator[SplitBatch, None, None]:
        while True:
            with self.tally.phase("merge"):
                found = next(numbered, None)
            if found is None:
                return
            ordinal, merged = found
            with self.tally.phase("emit"):
                answer = emission.emit(merged, ordinal, self.start)
            if answer is not None:
                self.tally.handed_on(answer[1])
                yield answer[0]

    @property
    def _size(self) -> BatchSize:
        return BatchSize(self.options.batch_rows, BATCH_BYTES)

    def _merge_shape(self) -> MergeShape:
        return MergeShape(
            columns=self.shape.stored,
            key=RECORD_KEY,
            ordering=self.shape.ordering,
            batch_rows=self.options.batch_rows,
            batch_bytes=BATCH_BYTES,
        )


def _counted(batches: Iterator[pa.RecordBatch | Passed]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Each batch with the ordinal of its first row."""
    ordinal = 0
    for batch in batches:
        if not isinstance(batch, Passed):
            yield ordinal, batch
        ordinal += batch.num_rows


def _check_version(what: str, version: int) -> None:
    if not 1 <= version <= FORMAT_VERSION:
        raise StateVersionError(
            f"{what} of format version {version}: this build knows 1 to {FORMAT_VERSION}; read it with the version of "
            "Penstock that planned it, or plan the query again"
        )
