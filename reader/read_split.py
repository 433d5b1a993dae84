"""One split in, Arrow batches out: the one way into the data plane.

Belongs here: which road a split takes, and the road of base files without a log. The other roads (`merged_rows`,
`changes`, `topics`) are imported when a split first takes them: a worker that reads base files never loads a compiled
kernel. Decisions are elsewhere: which columns (`shape`), ordinals and filters (`batches`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.proto.errors import ConfigurationError, InvariantViolation, SchemaMismatch, StateVersionError
from penstock.proto.model.changes import ChangesOf, GroupChanges
from penstock.proto.model.hybrid import KafkaRange
from penstock.proto.model.splits import FORMAT_VERSION, Origin, RowGroupRun, Scan, Split, WholeFile
from penstock.reader.base.decoded_size import BatchSize
from penstock.reader.base.file import BaseFile
from penstock.reader.base.row_group_stats import RowGroupFilter, kept_by, range_of
from penstock.reader.emit import BATCH_BYTES, BatchFinisher, SplitBatch
from penstock.reader.memory import frugal
from penstock.reader.output_schema import output_schema
from penstock.reader.partition_columns import PartitionConstants
from penstock.reader.read_schema import ReadShape, read_shape
from penstock.reader.report import SplitTally
from penstock.reader.values.record_keys import RECORD_KEY
from penstock.table.arrow_errors import with_translated_errors
from penstock.table.storage.filesystem import Storage, open_storage

if TYPE_CHECKING:
    from penstock.reader.merge.stream import LogWinners
    from penstock.reader.topics.reading import TopicReading
    from penstock.table.predicate.tree import Predicate

__all__ = ["ReadOptions", "SplitBatch", "SplitTally", "output_schema", "read_split", "warm_up"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read, never what comes out: at most `batch_rows` rows a batch; with or without the compiled kernels."""

    batch_rows: int = 32768
    compiled: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.batch_rows <= 1 << 24:
            raise ConfigurationError(f"batch rows {self.batch_rows}: expected 1 to {1 << 24}")


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
    Where the range (`scan.rows`) needs no row of the base and none of them beats the log, all of the base counts as
    staying and what stands in the log as inserts.

    `start=n` gives the rows with ordinal n and above: exactly the tail of a full read. Batches have the schema
    `output_schema(scan)` and at least one row; their sizes, and the road taken, change nothing else. Memory grows with
    the log part of the split only.

    A range of a topic is read through `topics` instead, in offset order (`reader.topics.reading.read_topic`).

    Raises before the first batch is asked for: StateVersionError for a scan or split of an unknown format version,
    ConfigurationError for columns or filters that do not suit the table. While reading: CorruptFile, CorruptBlock,
    SchemaMismatch, UnsupportedFeature, StorageError, each naming table and file; OutOfMemory.
    """
    options = options or ReadOptions()
    tally = tally or SplitTally()
    _check_version("scan", scan.format_version)
    _check_version("split", split.format_version)
    if start < 0:
        raise ConfigurationError(f"start {start}: an ordinal is 0 or above")
    where = f"table {scan.table}: split {split.split_id}"
    if isinstance(split.part, KafkaRange):
        return with_translated_errors(_topic(scan, split, start, options, tally, topics), where)
    if split.logs and not isinstance(split.part, WholeFile):
        raise InvariantViolation(f"split {split.split_id} of table {scan.table} has logs and a part of its base file")
    storage = storage or open_storage(scan.base_path)
    if isinstance(scan.rows, ChangesOf):
        return with_translated_errors(frugal(_changes(scan, split, start, options, storage, tally)), where)
    if isinstance(split.part, GroupChanges):
        raise InvariantViolation(f"split {split.split_id} of table {scan.table} holds changes, its scan asks for rows")
    shape = read_shape(scan, event_time=tally.event_time, keyed=split.ancestry is not None)
    if split.logs and shape.key_fields == (RECORD_KEY,) and RECORD_KEY not in shape.table.names:
        raise SchemaMismatch(f"table {scan.table}: a log, and no column {RECORD_KEY} to merge by (virtual keys)")
    constants = PartitionConstants(scan, split, shape.table, shape.carried)
    tally.begin(split.size_bytes)
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

    batches = reading.batches(BatchFinisher(scan, split, shape, constants, keys_of), constants)
    return with_translated_errors(frugal(batches), where)


def _topic(
    scan: Scan, split: Split, start: int, options: ReadOptions, tally: SplitTally, topics: TopicReading | None
) -> Generator[SplitBatch, None, None]:
    from penstock.reader.topics.reading import read_topic

    return read_topic(scan, split, start, tally, topics, batch_rows=options.batch_rows, compiled=options.compiled)


def _changes(
    scan: Scan, split: Split, start: int, options: ReadOptions, storage: Storage, tally: SplitTally
) -> Generator[SplitBatch, None, None]:
    from penstock.reader.cdc.read_changes import read_changes

    def slice_reader(inner: Scan, part: Split, inner_tally: SplitTally) -> Generator[SplitBatch, None, None]:
        return read_split(inner, part, options=options, storage=storage, tally=inner_tally)

    return read_changes(
        scan, split, start, storage, tally, slice_reader, batch_rows=options.batch_rows, compiled=options.compiled
    )


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
    from penstock.reader.avro.decoder import warm_up as warm_up_decoding
    from penstock.reader.merge.keys import number_keys

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

    def batches(self, emission: BatchFinisher, constants: PartitionConstants) -> Generator[SplitBatch, None, None]:
        """Opens, merges, emits; everything opened is closed when the generator is."""
        with ExitStack() as opened:
            winners = None
            if self.split.logs:
                from penstock.reader import merge_on_read

                storage, scan, split = self.storage, self.scan, self.split
                winners = merge_on_read.winners_of(
                    storage, scan, split, self.shape, self.tally, compiled=self.options.compiled
                )
            with self.tally.phase("open"):
                base = self._base(opened, winners)
            rows = self._merged_rows(winners, base, constants) if winners else self._base_rows(base, constants)
            yield from self._emitted(emission, rows)

    def _merged_rows(
        self, winners: LogWinners, base: BaseFile | None, constants: PartitionConstants
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        from penstock.reader import merge_on_read

        scan, split, shape = self.scan, self.split, self.shape
        out_of_range = dropping = None
        if winners.filler is None:
            out_of_range = self._dropping(base, range_of(scan, shape), constants)
            dropping = self._dropping(base, kept_by(scan, shape), constants)
        if (
            base is not None
            and out_of_range is not None
            and merge_on_read.is_beaten(base, winners, shape, out_of_range)
        ):
            return merge_on_read.unmet(winners, base, scan, split, shape, self._size, self.tally)
        return merge_on_read.merged(winners, base, scan, split, shape, self._size, self.tally, dropping=dropping)

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

    def _dropping(
        self, base: BaseFile | None, kept: Predicate | None, constants: PartitionConstants
    ) -> RowGroupFilter | None:
        """Of which row groups the footer says that `kept` holds for no row; None where that cannot be asked."""
        if base is None or kept is None:
            return None
        return RowGroupFilter(kept, base.row_group_bounds(), constants)

    def _base_rows(self, base: BaseFile | None, constants: PartitionConstants) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of a base file without a log; row groups wholly before `start`, and those of which the footer says
        that no row is kept, are not decoded. Their rows count in ordinals all the same."""
        dropping = self._dropping(base, kept_by(self.scan, self.shape), constants)
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
        self, emission: BatchFinisher, numbered: Iterator[tuple[int, pa.RecordBatch]]
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


def _check_version(what: str, version: int) -> None:
    if not 1 <= version <= FORMAT_VERSION:
        raise StateVersionError(
            f"{what} of format version {version}: this build knows 1 to {FORMAT_VERSION}; read it with the version of "
            "Penstock that planned it, or plan the query again"
        )
