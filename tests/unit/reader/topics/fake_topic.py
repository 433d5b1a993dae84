"""A topic in memory, and scans and splits of it."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.kafka.protocols import RecordChunk, SchemaRegistry
from penstock.proto.model.changes import ChangeFormat, ChangesOf
from penstock.proto.model.hybrid import HybridMode, KafkaAccess, KafkaRange, TopicRecords, ValueFormat
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import AllRows, CommitTimeOrdering, Scan, Split, VisibleInstants
from penstock.reader.read_split import ReadOptions, SplitBatch, SplitTally, read_split
from penstock.reader.topics.reading import TopicReading
from penstock.table.schema.avro import META_COLUMNS

META = [{"name": name, "type": ["null", "string"]} for name in META_COLUMNS]
ORDERS = (
    {"name": "id", "type": ["null", "long"]},
    {"name": "city", "type": ["null", "string"]},
    {"name": "amount", "type": ["null", "double"]},
    {"name": "ts", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
)
CHANGES = ("_change_type", "_change_instant", "_change_seq")


def schema_json(*fields: object) -> str:
    return json.dumps({"type": "record", "name": "row", "fields": [*META, *fields]})


def topic_scan(
    *fields: object,
    mode: HybridMode = HybridMode.CHANGELOG,
    columns: Sequence[str] = (),
    where: str = "",
    key_fields: tuple[str, ...] = ("id",),
    value_format: ValueFormat = ValueFormat.JSON,
) -> Scan:
    fields = fields or ORDERS
    changes = mode is HybridMode.CHANGELOG
    names = tuple(str(item["name"]) for item in fields if isinstance(item, dict))
    return Scan(
        table="orders",
        base_path="memory",
        table_version=9,
        schema_json=schema_json(*fields),
        columns=tuple(columns) or (*names, *(CHANGES if changes else ())),
        where=where,
        merge=CommitTimeOrdering(),
        visible=VisibleInstants(frozenset()),
        rows=ChangesOf(ChangeFormat.ROWS, frozenset()) if changes else AllRows(),
        topic=TopicRecords(mode=mode, value_format=value_format, key_fields=key_fields),
    )


def topic_split(first: int = 0, end: int = 1000, partition: int = 0) -> Split:
    return Split(
        split_id=f"orders-{partition}-{first}-{end}",
        partition="",
        partition_values=(),
        file_group="",
        order_key=InstantTime("99"),
        base=None,
        part=KafkaRange(topic="orders", topic_id="t", partition=partition, first=first, end=end),
    )


@dataclass(slots=True)
class FakeTopic:
    """A `RangeReader`: records by offset, each (key, value)."""

    records: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    closed: int = 0

    def read(self, kafka_range: KafkaRange, first: int, chunk_rows: int) -> Generator[RecordChunk, None, None]:
        try:
            present = sorted(offset for offset in self.records if first <= offset < kafka_range.end)
            for begin in range(0, len(present), chunk_rows):
                part = present[begin : begin + chunk_rows]
                last = begin + chunk_rows >= len(present)
                yield chunk_of({o: self.records[o] for o in part}, kafka_range.end if last else part[-1] + 1)
            if not present:
                yield chunk_of({}, kafka_range.end)
        finally:
            self.closed += 1


def chunk_of(records: dict[int, tuple[bytes | None, bytes | None]], next_offset: int) -> RecordChunk:
    return RecordChunk(
        offsets=np.array(sorted(records), np.int64),
        timestamps_ms=np.array([1_700_000_000_000 + o for o in sorted(records)], np.int64),
        keys=[records[o][0] for o in sorted(records)],
        values=[records[o][1] for o in sorted(records)],
        next_offset=next_offset,
    )


def topic_of(*values: object, keys: Sequence[object] = (), first: int = 0) -> FakeTopic:
    """Records from offset `first` on; what is no bytes is written as JSON."""
    created = {}
    for place, value in enumerate(values):
        key = keys[place] if place < len(keys) else None
        created[first + place] = (_bytes(key), _bytes(value))
    return FakeTopic(created)


def _bytes(item: object) -> bytes | None:
    return item if item is None or isinstance(item, bytes) else json.dumps(item).encode()


def read_all(
    scan: Scan,
    topic: FakeTopic,
    *,
    split: Split | None = None,
    start: int = 0,
    batch_rows: int = 8192,
    access: KafkaAccess | None = None,
    tally: SplitTally | None = None,
    compiled: bool = True,
    registry: SchemaRegistry | None = None,
) -> list[SplitBatch]:
    reading = TopicReading(records=topic, access=access or KafkaAccess(), registry=registry)
    options = ReadOptions(batch_rows=batch_rows, compiled=compiled)
    split = split or topic_split(end=max(topic.records, default=-1) + 1)
    return list(read_split(scan, split, start=start, options=options, tally=tally, topics=reading))


def rows_of(batches: Sequence[SplitBatch]) -> list[dict[str, object]]:
    return [row for item in batches for row in item.batch.to_pylist()]


def order(number: int, **more: object) -> dict[str, object]:
    return {"id": number, "city": f"c{number}", "amount": number / 4, "ts": 1_700_000_000_000_000, **more}
