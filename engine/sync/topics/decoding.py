"""`EventDecoder`: records of a topic as changes of a table, with the decoders of hybrid reads."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from penstock.engine.sync.targets.rows import aligned
from penstock.engine.sync.topics.connect_types import ConnectType, Fields
from penstock.engine.sync.topics.event_schema import (
    GIVEN,
    ConnectJson,
    EventKey,
    FramedAvroIds,
    GivenColumns,
    Run,
    SchemaForm,
    event_fields,
    event_key,
    event_keys,
    given_key,
    merged,
    schema_runs,
    unknown_fields,
)
from penstock.engine.sync.topics.partitioner import misplaced
from penstock.engine.sync.topics.position import TopicPosition
from penstock.engine.sync.topics.values import (
    PhysicalSchemas,
    check_decimal_form,
    columns_of,
    converted,
    schema_text,
    wire_fields,
)
from penstock.kafka.factory import open_registry
from penstock.kafka.protocols import RecordChunk, SchemaRegistry
from penstock.proto.errors import DataInvalidated, SchemaMismatch, UndecodableRecord
from penstock.proto.model.changes import ChangeFormat, ChangesOf
from penstock.proto.model.hybrid import (
    HybridMode,
    KafkaAccess,
    KafkaRange,
    Phase,
    TopicRecords,
    ValueFormat,
    kafka_position,
)
from penstock.proto.model.splits import CommitTimeOrdering, Scan, Split, VisibleInstants
from penstock.reader.split.context import ReadOptions
from penstock.reader.split.report import SplitTally
from penstock.reader.topics.reading import UNKNOWN_FIELDS, TopicReading, read_topic
from penstock.table.schema.changes import CHANGE_SEQ, CHANGE_TYPE

_TABLE_VERSION: Final = 9


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decoded records."""

    position: TopicPosition
    """The position before them, with the key and the columns that are known after them."""
    rows: tuple[pa.RecordBatch, ...]
    """Their changes: `_change_type`, `_change_seq` and the columns of the position."""


@dataclass(slots=True, eq=False)
class EventDecoder:
    """Decodes Debezium's events of one topic. One thread at a time."""

    value_format: ValueFormat
    """JSON or Avro."""
    access: KafkaAccess
    """The registry's address."""
    registry: SchemaRegistry | None = None
    """The registry; None: the one that `access` names."""
    checks_partitions: bool = True
    """Whether each record must be in the partition that Java's default partitioner selects."""
    columns: Mapping[str, ConnectType] = field(default_factory=dict)
    """The columns of JSON without schemas; none: the events have them."""
    given_key: tuple[str, ...] = ()
    """With `columns`, the fields of the events' keys."""
    _values: SchemaForm = field(init=False)
    _keys: SchemaForm = field(init=False)

    def __post_init__(self) -> None:
        if self.is_json:
            self._values, self._keys = GivenColumns(self.columns) if self.columns else ConnectJson(), ConnectJson()
            return
        registry = self.registry or open_registry(self.access.registry_url)
        self._values = self._keys = FramedAvroIds(registry)
        self.registry = PhysicalSchemas(registry)

    @property
    def is_json(self) -> bool:
        """Whether events are JSON."""
        return self.value_format is ValueFormat.DEBEZIUM_JSON

    def decoded(self, before: TopicPosition, chunks: Mapping[int, RecordChunk]) -> Decoded:
        """The changes of the records at a position.

        SchemaMismatch for another key, for columns of types that have no column type, or that do not fit those of
        before. UndecodableRecord for a record that is no event of a row. DataInvalidated for a record in a partition
        that its key does not select.
        """
        position, parts = before, list[pa.RecordBatch]()
        for number, chunk in sorted(chunks.items()):
            if not len(chunk.offsets):
                continue
            self._check_partition(before, number, chunk)
            where = f"topic {before.topic}, partition {number}"
            position = replace(position, key=self._key(position, chunk, where))
            for run in schema_runs(chunk.values, self._values, where):
                fields = self._fields(run, position, where)
                if fields is None:
                    self._check_deletes(chunk, run, where)
                    continue
                position = replace(position, schema_json=merged(position.schema_json, fields, where))
                parts.extend(self._rows(position, fields, number, part_of(chunk, run.begin, run.end)))
        return Decoded(position, _completed(parts, position))

    def described(self, topic: str, number: int, chunk: RecordChunk) -> tuple[list[EventKey], list[Fields]]:
        """The keys and the columns of each schema of these records in their order; they are not decoded. SchemaMismatch
        as `decoded`."""
        where = f"topic {topic}, partition {number}"
        if self.columns:
            keys = [given_key(chunk.keys, self.given_key, where)] if chunk.keys else []
        else:
            keys = list(event_keys(chunk.keys, self._keys, where))
        runs = schema_runs(chunk.values, self._values, where)
        return keys, [event_fields(run.schema, where) for run in runs if run.schema is not None]

    def given(self, before: TopicPosition) -> TopicPosition | None:
        """The position with the key and the columns of the job; None: it has none."""
        schema = GivenColumns(self.columns).schema_of(b"")
        if not self.columns or schema is None:
            return None
        where = f"topic {before.topic}"
        key = EventKey(self.given_key, GIVEN)
        return replace(before, key=key, schema_json=merged("", event_fields(schema, where), where))

    def _key(self, before: TopicPosition, chunk: RecordChunk, where: str) -> EventKey | None:
        if self.columns:
            return given_key(chunk.keys, self.given_key, where)
        return event_key(chunk.keys, self._keys, before.key, where)

    def _fields(self, run: Run, position: TopicPosition, where: str) -> Fields | None:
        """The columns of a run; of one that has only deletes, those known so far. None: none are known."""
        if run.schema is not None:
            return event_fields(run.schema, where)
        known: Fields | None = json.loads(position.schema_json)["fields"] if position.schema_json else None
        return known

    def _check_partition(self, before: TopicPosition, number: int, chunk: RecordChunk) -> None:
        place = misplaced(chunk.keys, number, len(before.offsets)) if self.checks_partitions else None
        if place is not None:
            raise DataInvalidated(
                f"topic {before.topic}, partition {number}, offset {chunk.offsets[place]}: the record's key selects "
                f"another one of {len(before.offsets)} partitions: it was written when the topic had fewer partitions, "
                "so that the order of the key's events is not known: copy from a new topic; or by another partitioner: "
                'if it always selects one partition for a key, set options.kafkaPartitioner = "any"'
            )

    def _check_deletes(self, chunk: RecordChunk, run: Run, where: str) -> None:
        """Deletes before the first row change nothing."""
        for place in range(run.begin, run.end):
            if chunk.values[place] is not None:
                raise UndecodableRecord(f"{where}, offset {chunk.offsets[place]}: not Debezium's event: no schema")

    def _rows(
        self, of: TopicPosition, fields: Fields, number: int, chunk: RecordChunk
    ) -> Generator[pa.RecordBatch, None, None]:
        """The changes of records with these columns."""
        where = f"topic {of.topic}, partition {number}"
        if self.is_json:
            check_decimal_form(chunk.values, fields, where)
        scan = Scan(
            table=of.topic,
            base_path="",
            table_version=_TABLE_VERSION,
            schema_json=schema_text(wire_fields(fields, is_json=self.is_json)),
            columns=(CHANGE_TYPE, CHANGE_SEQ, *(one["name"] for one in fields)),
            merge=CommitTimeOrdering(),
            visible=VisibleInstants(frozenset()),
            rows=ChangesOf(ChangeFormat.ROWS),
            topic=TopicRecords(
                mode=HybridMode.CHANGELOG,
                value_format=self.value_format,
                key_fields=() if of.key is None else of.key.names,
            ),
        )
        first = int(chunk.offsets[0])
        part = KafkaRange(topic=of.topic, topic_id=of.topic_id, partition=number, first=first, end=chunk.next_offset)
        split = Split(
            split_id=f"{of.topic}/{number}/{first}",
            partition="",
            partition_values=(),
            file_group=f"{of.topic}/{number}",
            order_key=kafka_position(Phase.SWITCHING, first).order_key,
            base=None,
            part=part,
        )
        reading = TopicReading(records=_Arrived(chunk), access=self.access, registry=self.registry)
        tally = SplitTally()
        for batch in read_topic(scan, split, 0, tally, reading, ReadOptions()):
            yield converted(batch.batch, fields, where, is_json=self.is_json)
        if self.columns and dict(tally.report().counts).get(UNKNOWN_FIELDS):
            names = ", ".join(unknown_fields(chunk.values, fields))
            raise SchemaMismatch(f"{where}: the events have fields that are not among the job's columns: {names}")


def _completed(parts: list[pa.RecordBatch], of: TopicPosition) -> tuple[pa.RecordBatch, ...]:
    """The batches with all columns of the position and its types, which may be wider."""
    if not parts:
        return ()
    known = columns_of(of.schema_json, f"topic {of.topic}")
    columns = pa.schema([*(parts[0].schema.field(name) for name in (CHANGE_TYPE, CHANGE_SEQ)), *known])
    return tuple(aligned(part, columns) for part in parts)


def part_of(chunk: RecordChunk, begin: int, end: int) -> RecordChunk:
    """The records from place `begin` to `end` - 1."""
    return replace(
        chunk,
        offsets=chunk.offsets[begin:end],
        timestamps_ms=chunk.timestamps_ms[begin:end],
        keys=chunk.keys[begin:end],
        values=chunk.values[begin:end],
        next_offset=chunk.next_offset if end == len(chunk.offsets) else int(chunk.offsets[end]),
    )


@dataclass(frozen=True, slots=True)
class _Arrived:
    """A `RangeReader` of records that are in memory."""

    chunk: RecordChunk

    def read(self, kafka_range: KafkaRange, first: int, chunk_rows: int) -> Generator[RecordChunk, None, None]:
        """See `RangeReader.read`."""
        count = len(self.chunk.offsets)
        for begin in range(0, count, chunk_rows):
            yield part_of(self.chunk, begin, min(begin + chunk_rows, count))
