"""A topic in memory with both protocols of `penstock.kafka`: its metadata and its records.

A test appends the records, or they come from a dump of a golden table's topic (read_committed: gaps are control and
aborted records).
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.kafka.protocols import PartitionOffsets, RecordChunk, TopicDescription
from penstock.proto.errors import KafkaUnavailable, PositionExpired, TopicGone
from penstock.proto.model.hybrid import KafkaAccess, KafkaRange


@dataclass(frozen=True)
class Record:
    """One record; `timestamp_ms` is its own time."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0


@dataclass
class ScriptedTopic:
    """`starts` and `ends` are by partition; a partition exists if it has an end."""

    topic: str
    topic_id: str = "first"
    records: list[Record] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    groups: dict[str, dict[int, int]] = field(default_factory=dict)
    down: bool = False
    asked: int = 0

    @classmethod
    def of_golden(cls, folder: pathlib.Path, case: Mapping[str, object]) -> ScriptedTopic:
        """The topic of a golden case of family C."""
        kafka_facts = case["kafka"]
        assert isinstance(kafka_facts, dict)
        scripted = cls(topic=str(case["handover"]["topic"]))  # type: ignore[index]
        for line in (folder / kafka_facts["topic_dump"]).read_text().splitlines():
            entry = json.loads(line)
            key, value = entry.get("key"), entry["value"]
            value = value if value is None or isinstance(value, str) else json.dumps(value)
            scripted.records.append(
                Record(
                    entry["partition"],
                    entry["offset"],
                    None if key is None else key.encode(),
                    None if value is None else value.encode(),
                )
            )
        for number, place in kafka_facts["partitions"].items():
            scripted.starts[int(number)], scripted.ends[int(number)] = place["log_start"], place["high_watermark"]
        return scripted

    def append(self, partition: int, key: str | None, value: object) -> int:
        """Appends a record; its offset."""
        offset = self.ends.get(partition, 0)
        self.starts.setdefault(partition, 0)
        encoded = None if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
        self.records.append(Record(partition, offset, None if key is None else key.encode(), encoded))
        self.ends[partition] = offset + 1
        return offset

    def open(self, access: KafkaAccess) -> ScriptedTopic:
        """As `OpenTopic`."""
        assert access.client, "whoever opens a topic says how it is reached"
        return self

    def open_records(self, access: KafkaAccess, *, fail_on_data_loss: bool = True) -> ScriptedRecords:
        """As `kafka.factory.open_records`."""
        return ScriptedRecords(self.open(access), fail_on_data_loss)

    def describe(self, topic: str) -> TopicDescription:
        self.asked += 1
        if self.down:
            raise KafkaUnavailable("the scripted brokers are down")
        if topic != self.topic:
            raise TopicGone(f"no topic {topic}")
        return TopicDescription(
            topic=topic,
            topic_id=self.topic_id,
            partitions={
                number: PartitionOffsets(
                    log_start=self.starts[number],
                    end=end,
                    high_watermark=end,
                    leader_epoch=self.epochs.get(number, 0),
                )
                for number, end in sorted(self.ends.items())
            },
        )

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        later = [item for item in self.records if item.timestamp_ms >= timestamp_ms]
        return {
            number: min((item.offset for item in later if item.partition == number), default=end)
            for number, end in self.ends.items()
        }

    def group_offsets(self, topic: str, group: str) -> dict[int, int]:
        return self.groups.get(group, {})


@dataclass(frozen=True)
class ScriptedRecords:
    """The topic as a `RangeReader`."""

    topic: ScriptedTopic
    fail_on_data_loss: bool

    def read(self, kafka_range: KafkaRange, first: int, chunk_rows: int) -> Generator[RecordChunk, None, None]:
        begin_offset = max(first, min(self.topic.starts.get(kafka_range.partition, 0), kafka_range.end))
        if begin_offset > first and self.fail_on_data_loss:
            raise PositionExpired(f"partition {kafka_range.partition}, offset {first}: retention took it")
        in_range = [
            item
            for item in self.topic.records
            if item.partition == kafka_range.partition and begin_offset <= item.offset < kafka_range.end
        ]
        in_range.sort(key=lambda item: item.offset)
        for begin in range(0, max(len(in_range), 1), chunk_rows):
            part = in_range[begin : begin + chunk_rows]
            last = begin + chunk_rows >= len(in_range)
            yield RecordChunk(
                offsets=np.array([item.offset for item in part], np.int64),
                timestamps_ms=np.array([item.timestamp_ms for item in part], np.int64),
                keys=[item.key for item in part],
                values=[item.value for item in part],
                next_offset=kafka_range.end if last else part[-1].offset + 1,
                lost=begin_offset - first if begin == 0 else 0,
            )
