"""A topic of Debezium's events in memory, and the table that a writer fills from it."""

from __future__ import annotations

import json
import random
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.sync.feed import Round
from penstock.engine.sync.job import SyncEntry, parse_job
from penstock.engine.sync.sources import SourceTable
from penstock.engine.sync.table_sync import TableSync
from penstock.engine.sync.topics.decoding import EventDecoder
from penstock.engine.sync.topics.feed import TopicFeed
from penstock.engine.sync.topics.table_then_topic import TableThenTopicFeed
from penstock.engine.sync.topics.then import then_topic
from penstock.kafka.protocols import TopicDescription
from penstock.kafka.shared_consumer import Fetched
from penstock.kafka.topic_metadata import TopicPartitions
from penstock.proto.errors import PositionExpired, StorageError
from penstock.proto.model.hybrid import Hybrid, KafkaAccess, KafkaPlace, PartitionPlace, Phase, ValueFormat
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.reports import TableDescription
from tests.scripted_topic import Record, ScriptedTopic
from tests.unit.engine.sync.scripted import META, MemoryTarget, ScriptedFeed, described
from tests.unit.engine.sync.topics.typed_events import chunk

Row = Mapping[str, Any]


@dataclass
class EventTopic(ScriptedTopic):
    """A topic with its consumer. A call returns at most `most` records of each partition."""

    columns: dict[str, str] = field(default_factory=lambda: {"id": "int64", "p": "string", "v": "int64"})
    names: dict[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ("id",)
    most: int = 7
    fault: Any = lambda where: None
    pending: int = 0
    lowest: dict[int, int] = field(default_factory=dict)
    stable: dict[int, int] = field(default_factory=dict)

    def event(self, row: Row, op: str = "u") -> tuple[bytes, bytes]:
        """Key and value of an event: an update, or with `d` a delete."""
        fields = [
            {
                "type": kind,
                "optional": True,
                "field": name,
                **({"name": self.names[name]} if name in self.names else {}),
            }
            for name, kind in self.columns.items()
        ]
        image = {"type": "struct", "optional": True, "fields": fields}
        schema = {
            "type": "struct",
            "fields": [{**image, "field": "before"}, {**image, "field": "after"}, {"type": "string", "field": "op"}],
        }
        own = {name: row.get(name) for name in self.columns}
        payload = {"op": op, "before": own if op == "d" else None, "after": None if op == "d" else own}
        keys = [{"type": self.columns[name], "optional": False, "field": name} for name in self.key]
        key = {"schema": {"type": "struct", "fields": keys}, "payload": {name: row[name] for name in self.key}}
        return json.dumps(key).encode(), json.dumps({"schema": schema, "payload": payload}).encode()

    def put(self, partition: int, row: Row, op: str = "u", offset: int | None = None) -> None:
        """Appends an event, or puts it at an offset."""
        offset = self.ends.get(partition, 0) if offset is None else offset
        self.starts.setdefault(partition, 0)
        self.records.append(Record(partition, offset, *self.event(row, op)))
        self.ends[partition] = max(self.ends.get(partition, 0), offset + 1)

    def describe(self, topic: str) -> TopicDescription:
        """See `TopicConsumer`. `stable` has the last stable offsets of partitions with open transactions."""
        now = super().describe(topic)
        partitions = {
            number: replace(one, end=self.stable.get(number, one.end)) for number, one in now.partitions.items()
        }
        return replace(now, partitions=partitions)

    def partitions_of(self, topic: str) -> TopicPartitions:
        """See `TopicConsumer`."""
        return TopicPartitions(self.topic_id, tuple(sorted(self.ends)))

    def fetch(self, topic: str, offsets: Mapping[int, int]) -> Fetched | None:
        """See `TopicConsumer`."""
        self.fault("fetch")
        assert topic == self.topic
        if self.pending:
            self.pending -= 1
            return None
        chunks, at_end = {}, True
        for number, offset in offsets.items():
            self.lowest[number] = min(self.lowest.get(number, offset), offset)
            if offset < self.starts[number]:
                raise PositionExpired(f"partition {number}: retention removed {offset} to {self.starts[number] - 1}")
            own = sorted((one for one in self.records if one.partition == number), key=lambda one: one.offset)
            own = [one for one in own if one.offset >= offset]
            part = own[: self.most]
            is_last = len(part) == len(own)
            at_end = at_end and is_last
            chunks[number] = _chunk(part, max(self.ends[number], offset) if is_last else part[-1].offset + 1)
        return Fetched(chunks, at_end)

    def feed(self, partitioner: str = "any", **decoder: Any) -> TopicFeed:
        """A feed of the topic."""
        decoding = EventDecoder(
            ValueFormat.DEBEZIUM_JSON, KafkaAccess(), checks_partitions=partitioner == "java", **decoder
        )
        return TopicFeed(self.topic, self, decoding)


def _chunk(records: Sequence[Record], end: int) -> Any:
    own = chunk([one.key or b"" for one in records], [one.value for one in records], 0)
    return replace(own, offsets=np.array([one.offset for one in records], np.int64), next_offset=end)


@dataclass
class ScriptedTable:
    """A `TableFeed` of known rounds. `ends` has the offsets at which the table ends after each round: one entry for the
    snapshot, then one for each commit."""

    feed: ScriptedFeed
    ends: Sequence[Mapping[int, int]]
    topic: EventTopic
    now: TableDescription = field(default_factory=described)
    topic_id: str | None = None
    table: str = "/lake/t"

    def description(self) -> TableDescription:
        """See `TableFeed`."""
        self.feed.fault("description")
        rounds = len(self.feed.parts) + len(self.feed.commits)
        return replace(self.now, newest=Position(InstantTime(str(rounds))))

    def start(self) -> str:
        """See `TableFeed`."""
        return self.feed.start()

    def next_round(self, position: str) -> Round | None:
        """See `TableFeed`."""
        return self.feed.next_round(position)

    def batches(self, of: Round) -> Generator[pa.RecordBatch, None, None]:
        """See `TableFeed`."""
        return self.feed.batches(replace(of, position=json.loads(of.position)["point"]))

    def is_loaded(self, position: str) -> bool:
        """See `TableFeed`."""
        return int(position) >= len(self.feed.parts)

    def has_reached(self, position: str, newest: Position) -> bool:
        """See `TableFeed`."""
        return int(position) >= int(newest.order_key)

    def hand_over(self, position: str, hybrid: Hybrid) -> KafkaPlace | None:
        """See `TableFeed`."""
        self.feed.fault("hand_over")
        known = self.ends[max(0, int(position) - len(self.feed.parts))]
        starts = {number: known.get(number, self.topic.starts[number]) for number in self.topic.ends}
        return KafkaPlace(
            phase=Phase.SWITCHING,
            topic=self.topic.topic,
            topic_id=self.topic.topic_id if self.topic_id is None else self.topic_id,
            instant=InstantTime("20260101000000000"),
            lake=EARLIEST,
            starts=tuple(sorted(starts.items())),
            places=tuple(PartitionPlace(number, starts[number]) for number in sorted(known)),
        )


JOB = """
[[sync]]
from = "/lake/t"
to = "duckdb:///copy.db"
then = "kafka://b:9092/{name}"
"""


def entry_of(text: str = "") -> SyncEntry:
    """The entry of a job with a topic."""
    return parse_job(JOB + text, "job")[0]


def source_of(entry: SyncEntry, table: str = "/lake/t", name: str = "t") -> SourceTable:
    """The source of an entry."""
    return SourceTable(entry=entry, name=name, table=table, target_table="t")


def feed_of(table: Any, topic: EventTopic, entry: SyncEntry | None = None, **options: Any) -> TableThenTopicFeed:
    """The feed of both."""
    entry = entry or entry_of()
    hybrid = then_topic(entry, topic.topic).hybrid
    return TableThenTopicFeed(table, topic.feed(**options), hybrid, entry.without)


def run_to_end(open_feed: Any, target: MemoryTarget, source: SourceTable, *, restart: bool = False) -> int:
    """Steps until there is nothing new, with a new process after each retryable error. The number of processes."""
    starts = 1
    sync = TableSync(source, open_feed(), target, restart=restart)
    while True:
        try:
            step = sync.step()
        except StorageError:
            starts, restart = starts + 1, sync.restarts
            sync = TableSync(source, open_feed(), target, restart=restart)
            continue
        if step is None:
            return starts


def lake_row(row: Row) -> dict[str, Any]:
    """A row with Hudi's columns."""
    return {**dict.fromkeys(META, ""), "_hoodie_partition_path": row["p"], **row}


def random_table_then_topic(rng: random.Random, *, moves: bool) -> tuple[ScriptedTable, dict[Any, Row]]:
    """A topic of random events, the table that was filled from it by commits at random offsets, and the rows after all
    events. With `moves` rows move between partitions of the table: a round adds them to the new one, and the next round
    removes them from the old one."""
    topic = EventTopic("t", most=rng.randrange(1, 9))
    ends: list[dict[int, int]] = []
    states: list[dict[Any, Row]] = []
    rows: dict[Any, Row] = {}
    for partition in range(3):
        topic.put(partition, {"id": -1 - partition, "p": "a", "v": 0})
        rows[-1 - partition] = {"id": -1 - partition, "p": "a", "v": 0}
    for _ in range(rng.randrange(2, 6)):
        ends.append(dict(topic.ends))
        states.append(dict(rows))
        for _ in range(rng.randrange(1, 8)):
            key = rng.randrange(9)
            if key in rows and rng.random() < 0.4:
                topic.put(key % 3, rows.pop(key), "d")
                continue
            place = rng.choice("ab") if moves else "a"
            rows[key] = {"id": key, "p": place, "v": rng.randrange(1000)}
            topic.put(key % 3, rows[key])
    return _filled(rng, topic, ends, states, moves=moves), rows


def _filled(
    rng: random.Random, topic: EventTopic, ends: list[dict[int, int]], states: list[dict[Any, Row]], *, moves: bool
) -> ScriptedTable:
    first, *later = states
    parts: list[list[Row]] = [[] for _ in range(rng.randrange(1, 4))]
    for row in first.values():
        rng.choice(parts).append(lake_row(row))
    commits: list[list[tuple[str, Row]]] = []
    at: list[Mapping[int, int]] = [ends[0]]
    for before, after, end in zip(states, later, ends[1:], strict=False):
        added = [("+I", lake_row(row)) for key, row in after.items() if before.get(key) != row]
        gone = [("-D", lake_row(row)) for key, row in before.items() if key not in after or _moved(row, after[key])]
        changed = [("-U", lake_row(row)) for key, row in before.items() if key in after and after[key] != row]
        if moves:
            commits += [added, gone]
            at += [end, end]
        else:
            commits.append([*changed, *gone, *added])
            at.append(end)
    return ScriptedTable(ScriptedFeed(parts, commits), at, topic)


def _moved(before: Row, after: Row) -> bool:
    return bool(before["p"] != after["p"])


def copied(target: MemoryTarget) -> dict[Any, Row]:
    """The rows of the copy by key; each key once."""
    rows = target.rows["t"]
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


def run_to_end_waiting(open_feed: Any, target: MemoryTarget, source: Any) -> None:
    """As `run_to_end`, where steps may wait."""
    sync: TableSync | None = None
    while True:
        try:
            sync = sync or TableSync(source, open_feed(), target)
            if sync.step() is None:
                return
        except StorageError:
            sync = None


def unpartitioned(feed: ScriptedFeed) -> ScriptedFeed:
    def plain(row: Row) -> Row:
        return {**row, "_hoodie_partition_path": ""}

    parts = [[plain(row) for row in part] for part in feed.parts]
    return ScriptedFeed(parts, [[(kind, plain(row)) for kind, row in commit] for commit in feed.commits])
