"""Reads one range of a topic's partition as Arrow batches.

This module reads the chunks, computes ordinals, applies filters, and handles deletes and records that cannot be
decoded. `forms` selects the decoder.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kafka.protocols import RangeReader, RecordChunk, SchemaRegistry
from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.hybrid import KafkaAccess, KafkaRange
from penstock.proto.model.splits import Scan, Split
from penstock.reader.split.context import ReadOptions
from penstock.reader.split.emit import BATCH_BYTES, SplitBatch
from penstock.reader.split.filter import kept_rows
from penstock.reader.split.report import SplitTally
from penstock.reader.topics.chunks import Chunks
from penstock.reader.topics.dead_letters import DeadLetters, dead_letters, undecodable
from penstock.reader.topics.forms import chunks_of
from penstock.reader.topics.record.decoded import BAD, DELETE, UPSERT, Decoded
from penstock.reader.topics.record.read_schema import TopicReadSchema, topic_read_schema
from penstock.table.schema.changes import CHANGE_INSTANT, CHANGE_SEQ, CHANGE_TYPE

log: Final = logging.getLogger("penstock.reader")

CHUNK_ROWS: Final = 8192
CHUNK_CELLS: Final = 1 << 20
"""The most records, and the most values, that are decoded at once (for very wide tables at least 64 records)."""
_OFFSET_DIGITS: Final = 19
RECORDS, UNKNOWN_FIELDS, UNDECODABLE, DELETES_DROPPED, LOST = (
    "kafka_records",
    "kafka_unknown_fields",
    "kafka_undecodable",
    "kafka_deletes_dropped",
    "kafka_lost",
)
"""The counters of a report: records read; fields of records without a column in the table; records written as dead
letters; deletes in a read that has no rows for them; offsets that retention removed before they were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReading:
    """What the read of a topic needs beside scan and split."""

    records: RangeReader
    """The source of records."""
    access: KafkaAccess = field(default=KafkaAccess(), repr=False)
    """The access to Kafka, and the folder for dead letters."""
    registry: SchemaRegistry | None = None
    """The schema registry; None for the one that `access` names."""


def read_topic(
    scan: Scan,
    split: Split,
    start: int,
    tally: SplitTally,
    reading: TopicReading | None,
    options: ReadOptions,
) -> Generator[SplitBatch, None, None]:
    """The rows of a range of a topic, in offset order. Ordinals are offsets relative to the range's first; `kept` has
    those of the rows.

    A batch's `next_ordinal` is where reading continues after its chunk, gaps and dropped records included; records
    without a row produce no batch. Columns, filters and report are as for files. In a changelog deletes are `-D` rows
    with the columns of the record key and the other values of the record; if rows are requested, deletes are dropped
    and counted. The table's meta columns are null in every row.

    Raises before the first batch is requested: ConfigurationError without `reading`, or for columns and filters that do
    not fit the table. While reading: UndecodableRecord, naming topic, partition and offset, after the rows before it
    have been returned, unless there is a folder for dead letters; the errors of `reading.records`
    (`penstock.kafka.protocols`).
    """
    topic_range = split.part
    if not isinstance(topic_range, KafkaRange):
        raise InvariantViolation(f"split {split.split_id} of table {scan.table} is not a range of a topic")
    if reading is None:
        raise ConfigurationError(
            f"table {scan.table}: split {split.split_id} is a range of topic {topic_range.topic}, and the reader has "
            "no access to Kafka (kafka.bootstrap.servers)"
        )
    if topic_range.first + start > topic_range.end:
        raise ConfigurationError(
            f"start {start}: split {split.split_id} of table {scan.table} has "
            f"{topic_range.end - topic_range.first} offsets"
        )
    read_schema = topic_read_schema(scan, event_time=tally.event_time)
    read = _Read(
        table=scan.table,
        split_id=split.split_id,
        topic_range=topic_range,
        read_schema=read_schema,
        decoder=chunks_of(
            read_schema, scan.table, reading.registry, reading.access.registry_url, compiled=options.by_kernels
        ),
        dead_letters_to=dead_letters(reading.access, topic_range, topic_range.first + start, scan.table),
        tally=tally,
    )
    tally.begin(0)
    chunk_rows = min(options.batch_rows, CHUNK_ROWS, max(64, CHUNK_CELLS // len(read_schema.fields)))
    return read.batches(reading.records, topic_range.first + start, chunk_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """One read of one range."""

    table: str
    split_id: str
    topic_range: KafkaRange
    read_schema: TopicReadSchema
    decoder: Chunks
    dead_letters_to: DeadLetters | None
    tally: SplitTally

    def batches(self, source: RangeReader, first: int, chunk_rows: int) -> Generator[SplitBatch, None, None]:
        size_bytes = 0
        try:
            begin = max(first - 1, self.topic_range.first) if self.decoder.looks_back else first
            with closing(source.read(self.topic_range, begin, chunk_rows)) as chunks:
                for chunk in self._timed(chunks):
                    self._log_lost(chunk)
                    for piece in _pieces(self._after(chunk, first) if begin < first else chunk):
                        size_bytes += _size(piece)
                        self.tally.begin(size_bytes)
                        yield from self._of_piece(piece, first)
                        first = piece.next_offset
        finally:
            if self.dead_letters_to is not None:
                self.dead_letters_to.close()

    def _log_lost(self, chunk: RecordChunk) -> None:
        if chunk.lost:
            self.tally.add_count(LOST, chunk.lost)
            log.warning(
                "table %s: topic %s, partition %s: retention took %s of the offsets below %s before they were read; "
                "failOnDataLoss=false continues without them",
                self.table, self.topic_range.topic, self.topic_range.partition, chunk.lost, chunk.next_offset,
            )  # fmt: skip

    def _after(self, chunk: RecordChunk, first: int) -> RecordChunk:
        """The chunk from offset `first` on. Records before it are only decoded for their effect on it."""
        number = int(np.searchsorted(chunk.offsets, first))
        if number:
            self.decoder.decode(_part(chunk, 0, number))
        return _part(chunk, number, len(chunk.offsets)) if number else chunk

    def _timed(self, chunks: Iterator[RecordChunk]) -> Iterator[RecordChunk]:
        while True:
            with self.tally.phase("open"):
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk

    def _of_piece(self, piece: RecordChunk, first: int) -> Iterator[SplitBatch]:
        """The batch of a piece, if it has rows; `first` is where reading continued before it."""
        self._check(piece, first)
        self.tally.add_count(RECORDS, len(piece.offsets))
        if not len(piece.offsets):
            return
        with self.tally.phase("log_decode"):
            decoded = self.decoder.decode(piece)
        bad = self._bad(piece, decoded)
        rows = len(piece.offsets) if bad is None else bad
        next_offset = piece.next_offset if bad is None else int(piece.offsets[bad])
        self.tally.add_count(UNKNOWN_FIELDS, decoded.unknown)
        with self.tally.phase("emit"):
            finished = self._emitted(piece.offsets[:rows], decoded.kinds[:rows], decoded.rows, first, next_offset)
        if finished is not None:
            self.tally.count_batch(finished[1])
            yield finished[0]
        if bad is not None:
            raise undecodable(self.topic_range, next_offset, decoded.reasons[bad], self.table)

    def _check(self, piece: RecordChunk, first: int) -> None:
        """InvariantViolation unless the records follow those already read, are in the range and in order: else a row
        would be repeated or lost."""
        offsets = piece.offsets
        inside = first <= piece.next_offset <= self.topic_range.end
        if len(offsets):
            ordered = bool((np.diff(offsets) > 0).all())
            inside = inside and ordered and offsets[0] >= first and offsets[-1] < piece.next_offset
        if not inside or not len(offsets) == len(piece.keys) == len(piece.values) == len(piece.timestamps_ms):
            raise InvariantViolation(
                f"chunk of {len(offsets)} records from offset {offsets[:1].tolist()}, next {piece.next_offset}, where "
                f"{first} to {self.topic_range.end} of {self.topic_range.topic}-{self.topic_range.partition} was "
                "requested"
            )

    def _bad(self, piece: RecordChunk, decoded: Decoded) -> int | None:
        """The first record that is an error; None if there is none, or if they are dead letters."""
        bad = np.flatnonzero(decoded.kinds == BAD)
        if not len(bad):
            return None
        if self.dead_letters_to is None:
            return int(bad[0])
        for number in bad.tolist():
            self.dead_letters_to.put(piece, number, decoded.reasons[number])
        self.dead_letters_to.flush()
        self.tally.add_count(UNDECODABLE, len(bad))
        return None

    def _emitted(
        self, offsets: np.ndarray, kinds: np.ndarray, rows: pa.RecordBatch, first: int, next_offset: int
    ) -> tuple[SplitBatch, pa.RecordBatch] | None:
        """The rows of `offsets` that are kept, if any; the second batch has all carried columns."""
        has_row = kinds == UPSERT
        if self.read_schema.by_key:
            has_row |= kinds == DELETE
        else:
            self.tally.add_count(DELETES_DROPPED, int((kinds == DELETE).sum()))
        kept = np.flatnonzero(has_row)
        if not len(kept):
            return None
        carried = self._carried(rows.take(pa.array(kept)), offsets[kept], kinds[kept])
        if self.read_schema.predicate is not None:
            filtered = kept_rows(self.read_schema.predicate, carried)
            if filtered is not None:
                if not len(filtered):
                    return None
                kept, carried = kept[filtered], carried.take(pa.array(filtered))
        places: np.ndarray | None = (offsets[kept] - first).astype(np.int64)
        if len(kept) == next_offset - first:
            places = None
        begin = self.topic_range.first
        batch = carried.select(self.read_schema.output.names)
        return SplitBatch(self.split_id, first - begin, next_offset - begin, batch, places), carried

    def _carried(self, rows: pa.RecordBatch, offsets: np.ndarray, kinds: np.ndarray) -> pa.RecordBatch:
        columns: list[pa.Array] = []
        for column in self.read_schema.carried:
            if column.name == CHANGE_TYPE:
                columns.append(pc.if_else(pa.array(kinds == DELETE), "-D", "+U"))
            elif column.name == CHANGE_SEQ:
                columns.append(_sequence(offsets, self.topic_range.partition, kinds == DELETE))
            elif column.name == CHANGE_INSTANT or column.name not in rows.schema.names:
                columns.append(pa.nulls(len(offsets), column.type))
            else:
                columns.append(rows.column(column.name))
        return pa.RecordBatch.from_arrays(columns, schema=self.read_schema.carried)


def _sequence(offsets: np.ndarray, partition: int, is_delete: np.ndarray) -> pa.Array:
    """Text that sorts after every commit's changes, in offset order, with the parts of `cdc.formats`."""
    form = np.frombuffer(f"99{0:022d}.{partition:018d}.1".encode(), np.uint8)
    text = np.tile(form, (len(offsets), 1))
    rest = offsets.astype(np.int64)
    for place in range(23, 23 - _OFFSET_DIGITS, -1):
        rest, digit = np.divmod(rest, 10)
        text[:, place] += digit.astype(np.uint8)
    text[is_delete, -1] = ord("0")
    bounds = np.arange(0, text.size + 1, len(form), dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(offsets), [None, pa.py_buffer(bounds), pa.py_buffer(text)])


def _size(piece: RecordChunk) -> int:
    return sum(map(len, filter(None, piece.keys))) + sum(map(len, filter(None, piece.values)))


def _pieces(chunk: RecordChunk) -> Iterator[RecordChunk]:
    """The chunk in pieces of `BATCH_BYTES`, or of one record."""
    if sum(map(len, filter(None, chunk.values))) <= BATCH_BYTES:
        yield chunk
        return
    sizes = [len(value or b"") for value in chunk.values]
    totals = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        before = int(totals[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(totals, before + BATCH_BYTES, side="right")))
        yield _part(chunk, begin, end)
        begin = end


def _part(chunk: RecordChunk, begin: int, end: int) -> RecordChunk:
    """Records begin..end-1."""
    return replace(
        chunk,
        offsets=chunk.offsets[begin:end],
        timestamps_ms=chunk.timestamps_ms[begin:end],
        keys=chunk.keys[begin:end],
        values=chunk.values[begin:end],
        next_offset=chunk.next_offset if end == len(chunk.offsets) else int(chunk.offsets[end]),
    )
