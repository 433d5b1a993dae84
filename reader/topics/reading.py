"""One range of a topic's partition in, Arrow batches out.

Belongs here: the walk through the chunks, ordinals, what becomes of deletes and of what cannot be decoded, filters.
Not here: what a record's bytes mean (`forms`).
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
"""Records, and values of columns, that are decoded at once at most (of very wide tables 64 records)."""
_OFFSET_DIGITS: Final = 19
RECORDS, UNKNOWN_FIELDS, UNDECODABLE, DELETES_DROPPED, LOST = (
    "kafka_records",
    "kafka_unknown_fields",
    "kafka_undecodable",
    "kafka_deletes_dropped",
    "kafka_lost",
)
"""What a report counts: records read; fields of records that the table has no column for; records put with the dead
letters; deletes of a read that has no rows for them; offsets that retention took before they were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReading:
    """What a reader of topics needs beside scan and split: where records come from, and where a dead letter goes.
    `registry`: where schemas are, None for the one that `access` names."""

    records: RangeReader
    access: KafkaAccess = field(default=KafkaAccess(), repr=False)
    registry: SchemaRegistry | None = None


def read_topic(
    scan: Scan,
    split: Split,
    start: int,
    tally: SplitTally,
    reading: TopicReading | None,
    options: ReadOptions,
) -> Generator[SplitBatch, None, None]:
    """The rows of a range of a topic, in offset order. Ordinals are offsets from the range's first; `kept` tells which.

    A batch's `next_ordinal` is where reading goes on behind its chunk, gaps and dropped records included; what has no
    row makes no batch. Columns, filters and report as for files. Deletes: `-D` rows of a changelog, with the columns of
    the record key and what else the record tells; dropped and counted where rows are asked for. Of the table's meta
    columns every row has null.

    Raises before the first batch is asked for: ConfigurationError without `reading`, for columns and filters that do
    not suit the table. While reading: UndecodableRecord, naming topic, partition and offset, once the rows in front of
    it are handed on, unless there is a place for dead letters; what the door raises (`penstock.kafka.protocols`).
    """
    wanted = split.part
    if not isinstance(wanted, KafkaRange):
        raise InvariantViolation(f"split {split.split_id} of table {scan.table} is no range of a topic")
    if reading is None:
        raise ConfigurationError(
            f"table {scan.table}: split {split.split_id} is a range of topic {wanted.topic}, and the reader was given "
            "no way to Kafka (kafka.bootstrap.servers)"
        )
    if wanted.first + start > wanted.end:
        raise ConfigurationError(
            f"start {start}: split {split.split_id} of table {scan.table} has {wanted.end - wanted.first} offsets"
        )
    read_schema = topic_read_schema(scan, event_time=tally.event_time)
    read = _Read(
        table=scan.table,
        split_id=split.split_id,
        wanted=wanted,
        read_schema=read_schema,
        decoder=chunks_of(
            read_schema, scan.table, reading.registry, reading.access.registry_url, compiled=options.compiled
        ),
        letters=dead_letters(reading.access, wanted, wanted.first + start, scan.table),
        tally=tally,
    )
    tally.begin(0)
    chunk_rows = min(options.batch_rows, CHUNK_ROWS, max(64, CHUNK_CELLS // len(read_schema.fields)))
    return read.batches(reading.records, wanted.first + start, chunk_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """One read of one range."""

    table: str
    split_id: str
    wanted: KafkaRange
    read_schema: TopicReadSchema
    decoder: Chunks
    letters: DeadLetters | None
    tally: SplitTally

    def batches(self, door: RangeReader, first: int, chunk_rows: int) -> Generator[SplitBatch, None, None]:
        size_bytes = 0
        try:
            begin = max(first - 1, self.wanted.first) if self.decoder.looks_back else first
            with closing(door.read(self.wanted, begin, chunk_rows)) as chunks:
                for chunk in self._timed(chunks):
                    self._tell_lost(chunk)
                    for piece in _pieces(self._looked_at(chunk, first) if begin < first else chunk):
                        size_bytes += _size(piece)
                        self.tally.begin(size_bytes)
                        yield from self._of_piece(piece, first)
                        first = piece.next_offset
        finally:
            if self.letters is not None:
                self.letters.close()

    def _tell_lost(self, chunk: RecordChunk) -> None:
        if chunk.lost:
            self.tally.add_count(LOST, chunk.lost)
            log.warning(
                "table %s: topic %s, partition %s: retention took %s of the offsets below %s before they were read; "
                "failOnDataLoss=false goes on without them",
                self.table, self.wanted.topic, self.wanted.partition, chunk.lost, chunk.next_offset,
            )  # fmt: skip

    def _looked_at(self, chunk: RecordChunk, first: int) -> RecordChunk:
        """The chunk from offset `first` on; what is in front of it has only been looked at."""
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
        """The batch of a piece, if it has rows; `first` is where reading went on in front of it."""
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
            answer = self._emitted(piece.offsets[:rows], decoded.kinds[:rows], decoded.rows, first, next_offset)
        if answer is not None:
            self.tally.count_batch(answer[1])
            yield answer[0]
        if bad is not None:
            raise undecodable(self.wanted, next_offset, decoded.reasons[bad], self.table)

    def _check(self, piece: RecordChunk, first: int) -> None:
        """Records behind what was read, inside the range, in order: else a row would come twice, or be lost."""
        offsets = piece.offsets
        inside = first <= piece.next_offset <= self.wanted.end
        if len(offsets):
            ordered = bool((np.diff(offsets) > 0).all())
            inside = inside and ordered and offsets[0] >= first and offsets[-1] < piece.next_offset
        if not inside or not len(offsets) == len(piece.keys) == len(piece.values) == len(piece.timestamps_ms):
            raise InvariantViolation(
                f"chunk of {len(offsets)} records from offset {offsets[:1].tolist()}, next {piece.next_offset}, where "
                f"{first} to {self.wanted.end} of {self.wanted.topic}-{self.wanted.partition} was asked for"
            )

    def _bad(self, piece: RecordChunk, decoded: Decoded) -> int | None:
        """The first record that is an error; None where there are none, or they are put elsewhere."""
        bad = np.flatnonzero(decoded.kinds == BAD)
        if not len(bad):
            return None
        if self.letters is None:
            return int(bad[0])
        for number in bad.tolist():
            self.letters.put(piece, number, decoded.reasons[number])
        self.letters.flush()
        self.tally.add_count(UNDECODABLE, len(bad))
        return None

    def _emitted(
        self, offsets: np.ndarray, kinds: np.ndarray, rows: pa.RecordBatch, first: int, next_offset: int
    ) -> tuple[SplitBatch, pa.RecordBatch] | None:
        """The rows of `offsets` that are kept, if any; the second batch has all carried columns."""
        wanted = kinds == UPSERT
        if self.read_schema.by_key:
            wanted |= kinds == DELETE
        else:
            self.tally.add_count(DELETES_DROPPED, int((kinds == DELETE).sum()))
        kept = np.flatnonzero(wanted)
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
        begin = self.wanted.first
        batch = carried.select(self.read_schema.output.names)
        return SplitBatch(self.split_id, first - begin, next_offset - begin, batch, places), carried

    def _carried(self, rows: pa.RecordBatch, offsets: np.ndarray, kinds: np.ndarray) -> pa.RecordBatch:
        columns: list[pa.Array] = []
        for column in self.read_schema.carried:
            if column.name == CHANGE_TYPE:
                columns.append(pc.if_else(pa.array(kinds == DELETE), "-D", "+U"))
            elif column.name == CHANGE_SEQ:
                columns.append(_sequence(offsets, self.wanted.partition, kinds == DELETE))
            elif column.name == CHANGE_INSTANT or column.name not in rows.schema.names:
                columns.append(pa.nulls(len(offsets), column.type))
            else:
                columns.append(rows.column(column.name))
        return pa.RecordBatch.from_arrays(columns, schema=self.read_schema.carried)


def _sequence(offsets: np.ndarray, partition: int, minus: np.ndarray) -> pa.Array:
    """Text behind that of every commit's changes, in offset order; the parts are those of `changes.rows_format`."""
    form = np.frombuffer(f"99{0:022d}.{partition:018d}.1".encode(), np.uint8)
    letters = np.tile(form, (len(offsets), 1))
    rest = offsets.astype(np.int64)
    for place in range(23, 23 - _OFFSET_DIGITS, -1):
        rest, digit = np.divmod(rest, 10)
        letters[:, place] += digit.astype(np.uint8)
    letters[minus, -1] = ord("0")
    bounds = np.arange(0, letters.size + 1, len(form), dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(offsets), [None, pa.py_buffer(bounds), pa.py_buffer(letters)])


def _size(piece: RecordChunk) -> int:
    return sum(map(len, filter(None, piece.keys))) + sum(map(len, filter(None, piece.values)))


def _pieces(chunk: RecordChunk) -> Iterator[RecordChunk]:
    """The chunk in pieces of `BATCH_BYTES`, or of one record."""
    if sum(map(len, filter(None, chunk.values))) <= BATCH_BYTES:
        yield chunk
        return
    sizes = [len(value or b"") for value in chunk.values]
    behind = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        before = int(behind[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(behind, before + BATCH_BYTES, side="right")))
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
