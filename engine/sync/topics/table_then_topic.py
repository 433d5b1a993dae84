"""The rounds of a table, and then those of the topic that fills it, from the offsets at which the table ends.

If rows cannot move to another partition of the table, the commits that it has when the snapshot is copied follow; else
the topic follows the snapshot. The hand-over is a round without rows. The table is never read after it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.sync.feed import MAX_POSITION_CHARS, Round, TableFeed
from penstock.engine.sync.job import SyncEntry
from penstock.engine.sync.layout import TargetLayout, layout_of
from penstock.engine.sync.topics.connect_types import Fields
from penstock.engine.sync.topics.earlier_events import EarlierEvents
from penstock.engine.sync.topics.feed import TopicFeed
from penstock.engine.sync.topics.lake_columns import check_one_form, check_without, copied_rows, joined_fields
from penstock.engine.sync.topics.position import TopicPosition, parse_position
from penstock.engine.sync.topics.values import columns_of, schema_text
from penstock.kafka.protocols import TopicDescription
from penstock.proto.errors import (
    ConfigurationError,
    DataInvalidated,
    InvariantViolation,
    KafkaUnavailable,
    PositionExpired,
    SchemaMismatch,
)
from penstock.proto.logging import log_event_to
from penstock.proto.model.hybrid import Hybrid, KafkaPlace
from penstock.proto.model.positions import Position
from penstock.proto.model.reports import TableDescription
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema

log = logging.getLogger("penstock.engine.sync")

_PARTITION: Final = "_hoodie_partition_path"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableThenTopicPosition:
    """A position in the table or, after the hand-over, in the topic."""

    topic: TopicPosition
    """The position in the topic; before the hand-over the offsets at which the snapshot ends, and the columns of the
    copy."""
    point: str = ""
    """The position of `TableFeed`; '' after the hand-over."""
    instant: str = ""
    """The instant of these offsets, for people; '' if it is not known."""

    def text(self) -> str:
        """The position as JSON."""
        topic = self.topic.text()
        if self.point:
            known = {"instant": self.instant} if self.instant else {}
            at = {"phase": "table", "point": self.point, "topic": topic, **known}
        else:
            at = {"phase": "topic", "topic": topic, "instant": self.instant}
        return json.dumps(at, separators=(",", ":"))


def parse_table_then_topic(text: str, topic: str) -> TableThenTopicPosition:
    """The position of `topic`. ConfigurationError if the text is not one."""
    try:
        if len(text) > 2 * MAX_POSITION_CHARS:
            raise ValueError(f"{len(text)} characters")
        match json.loads(text):
            case {"phase": "table", "point": str(point), "topic": str(inner), "instant": str(instant)} if point:
                return TableThenTopicPosition(point=point, topic=parse_position(inner, topic), instant=instant)
            case {"phase": "table", "point": str(point), "topic": str(inner)} if point:
                return TableThenTopicPosition(point=point, topic=parse_position(inner, topic))
            case {"phase": "topic", "topic": str(inner), "instant": str(instant)}:
                return TableThenTopicPosition(topic=parse_position(inner, topic), instant=instant)
        raise ValueError("no phase")
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"topic {topic}: the target's position was not stored with `then` ({str(error)[:100]}): correct the job, "
            f"or load the table again (--restart): got {text[:100]!r}"
        ) from error


class TableThenTopicFeed:
    """The rounds of a table, then those of its topic. One thread at a time.

    `layout` and `next_round` raise NotReady until records of the topic have arrived.
    """

    def __init__(self, table: TableFeed, topic: TopicFeed, hybrid: Hybrid, without: tuple[str, ...] = ()) -> None:
        self._table, self._topic, self._hybrid, self._without = table, topic, hybrid, without
        self._name = topic.topic
        self._described: TableDescription | None = None
        self._begin: tuple[TableThenTopicPosition, EarlierEvents] | None = None
        self._start: TableThenTopicPosition | None = None
        self._newest: Position | None = None
        self._switch: tuple[str, str, EarlierEvents] | None = None

    def layout(self, entry: SyncEntry) -> TargetLayout | None:
        """The layout for the columns that table and events have; None: the table has no commit yet.

        SchemaMismatch if they do not have the same columns and key; KafkaUnavailable if the topic has no event of the
        table's rows, so that this cannot be compared. Errors of the hand-over.
        """
        if self._begin is None:
            point = self._started()
            place = self._table.hand_over(point, self._hybrid) if point else None
            if place is None:
                return None
            at = self._topic_position(place)
            self._begin = TableThenTopicPosition(point=point, topic=at, instant=str(place.instant)), self._earlier(at)
        begin, earlier = self._begin
        known = self._known(earlier)
        names = self._key_names(known, entry)
        check_without(self._table.table, self._lake_columns(), self._name, earlier.seen, self._without)
        fields = self._joined(self._lake_columns(), known, names)
        check_one_form(self._table.table, self._lake_columns(), self._name, fields, earlier.seen)
        self._begin = None
        self._start = replace(begin, topic=replace(known, schema_json=schema_text(fields)))
        return layout_of(columns_of(schema_text(fields), f"topic {self._name}"), names, entry.source_column)

    def _started(self) -> str:
        """The position before the snapshot of a table that is described as it is there; '': it has no commit yet."""
        before, self._newest = self._table.description(), None
        while before.schema_json:
            point, now = self._table.start(), self._table.description()
            if replace(now, newest=before.newest) == before:
                self._described = now
                return point
            before = now  # a commit beside this call has changed the columns
        return ""

    def start(self) -> str:
        """The position before the snapshot."""
        if self._start is None:
            raise InvariantViolation(f"topic {self._name}: start without a layout")
        return self._start.text()

    def next_round(self, position: str) -> Round | None:
        """The round after a position: of the table, the hand-over, or of the topic; None: there is nothing new. Errors
        of `TableFeed`, of the hand-over and of `TopicFeed`."""
        at = parse_table_then_topic(position, self._name)
        if not at.point:
            arrived = self._topic.next_round(at.topic.text())
            if arrived is None:
                return None
            reached = replace(at, topic=parse_position(arrived.position, self._name))
            self._check_left_out(at.topic, arrived)
            return replace(arrived, position=reached.text())
        if self._table.is_loaded(at.point) and (not self._applies_commits(at) or self._is_followed(at.point)):
            return self._hand_over(at)
        following = self._table.next_round(at.point)
        if following is None:
            return self._hand_over(at)
        names = () if at.topic.key is None else at.topic.key.names
        fields = _fields(at.topic)
        try:
            is_same = self._joined(following.columns, at.topic, names) == fields
        except SchemaMismatch:
            is_same = False
        if not is_same:
            raise SchemaMismatch(
                f"table {self._table.table}: its columns were {', '.join(one['name'] for one in fields)} at the start "
                "and have changed, and the copy is not in the topic yet: load the table again (--restart)"
            )
        reached = replace(at, point=following.position)
        columns = columns_of(at.topic.schema_json, f"topic {self._name}")
        return replace(following, position=reached.text(), columns=columns)

    def _check_left_out(self, before: TopicPosition, arrived: Round) -> None:
        """SchemaMismatch for a column of `without` that the events of the topic phase have."""
        known = {one["name"] for one in json.loads(before.schema_json)["fields"]}
        back = [name for name in self._without if name in arrived.columns.names and name not in known]
        if back:
            raise SchemaMismatch(
                f"topic {self._name}, after offsets {before.order_key}: events have column {', '.join(back)}, which "
                "the job leaves out (without): the source must have dropped it before these events: load the table "
                "again (--restart), with this column, or when the table has later events"
            )

    def batches(self, of: Round) -> Generator[pa.RecordBatch, None, None]:
        """The rows of a round: `_change_type`, `_change_seq` and the columns."""
        at = parse_table_then_topic(of.position, self._name)
        if not at.point:
            yield from self._topic.batches(of)
            return
        fields, where = _fields(at.topic), f"table {self._table.table}"
        checks = not of.in_snapshot and not self._description().partition_fields
        with closing(self._table.batches(of)) as batches:
            for batch in batches:
                if checks:
                    _check_unpartitioned(batch, where)
                yield copied_rows(batch, fields, where)

    def _is_followed(self, point: str) -> bool:
        """Whether the commits are copied that the table had at the first call: it may have new ones for ever."""
        if self._newest is None:
            self._newest = self._table.description().newest
        return self._table.has_reached(point, self._newest)

    def _hand_over(self, at: TableThenTopicPosition) -> Round | None:
        """The round without rows whose position is in the topic. If no commits were copied, the stored offsets count:
        what they were resolved from may be gone. Else they are those of the stored point, whenever it is resolved."""
        if self._switch is None or self._switch[0] != at.point:
            self._check_same_topic(at.topic)
            instant, reached = at.instant, at.topic
            if self._applies_commits(at):
                place = self._table.hand_over(at.point, self._hybrid)
                if place is None:
                    return None
                reached = replace(self._topic_position(place), key=at.topic.key, schema_json=at.topic.schema_json)
                instant = str(place.instant)
            self._switch = at.point, instant, self._earlier(reached, is_next=True)
        _, instant, earlier = self._switch
        is_known = earlier.known.offsets == at.topic.offsets or bool(self._topic.decoder.columns)
        reached = earlier.known if is_known else earlier.read()
        if reached.schema_json != at.topic.schema_json:
            raise SchemaMismatch(
                f"topic {self._name}: its events had other columns while table {self._table.table} was copied, and "
                "the table did not: exclude the columns in Debezium (column.exclude.list) or add them to the table, "
                "and load the table again (--restart)"
            )
        check_one_form(self._table.table, self._lake_columns(), self._name, _fields(at.topic), earlier.seen)
        log_event_to(
            log, "copy continues in topic", table=self._table.table, topic=self._name, instant=instant,
            offsets=reached.order_key,
        )  # fmt: skip
        return Round(
            position=TableThenTopicPosition(topic=reached, instant=instant).text(),
            columns=columns_of(reached.schema_json, f"topic {self._name}"),
            in_snapshot=False,
            done=0,
            total=0,
            order_key=reached.order_key,
            needs_unique_keys=True,
        )

    def _topic_position(self, place: KafkaPlace) -> TopicPosition:
        """The offsets of a hand-over. DataInvalidated if they are of another topic of this name or have other
        partitions. Errors of `_check_unlisted`."""
        now, offsets = self._topic.consumer.describe(self._name), dict(place.starts)
        if place.topic_id and now.topic_id and place.topic_id != now.topic_id:
            raise DataInvalidated(
                f"topic {self._name}: got the id {now.topic_id}, and {place.topic_id} where the offsets were resolved: "
                "it was created again, or these are other brokers than those of the server"
            )
        if set(offsets) != set(now.partitions):
            raise DataInvalidated(
                f"topic {self._name} has {len(now.partitions)} partitions, and the offsets of instant {place.instant} "
                f"are of {len(offsets)}"
            )
        self._check_unlisted(place, now)
        return TopicPosition(topic=self._name, topic_id=now.topic_id, offsets=offsets)

    def _check_unlisted(self, place: KafkaPlace, now: TopicDescription) -> None:
        """The partitions that the commit does not list: they begin where their log starts.

        PositionExpired if retention has removed records of one, which the table does not have. Without the check of
        keys DataInvalidated for one after all listed ones that has records: it may be a new one, into which keys have
        moved.
        """
        listed = {one.partition for one in place.places}
        for number, at in place.starts:
            if number in listed:
                continue
            if at > 0:
                raise PositionExpired(
                    f"topic {self._name}, partition {number}: the log starts at offset {at}, and the commit of the "
                    f"table's instant {place.instant} does not list the partition: retention has removed records that "
                    "are not in the table: load the table again (--restart) when it has an event of this partition"
                )
            end = max(now.partitions[number].end, now.partitions[number].high_watermark)
            if number > max(listed, default=0) and end > at and not self._topic.decoder.checks_partitions:
                raise DataInvalidated(
                    f"topic {self._name}: table {self._table.table} has no record of partition {number}, which may "
                    "have been added later: keys may have moved to it, and the order of their events is not known "
                    "(options.kafkaPartitioner): load the table again (--restart) when it has an event of this "
                    "partition"
                )

    def _earlier(self, at: TopicPosition, *, is_next: bool = False) -> EarlierEvents:
        """The events before the offsets. `is_next`: those from them on are read next."""
        partitions = self._topic.consumer.describe(self._name).partitions
        starts = {number: one.log_start for number, one in partitions.items()}
        ends = {number: max(one.end, one.high_watermark) for number, one in partitions.items()}
        beyond = [number for number, end in ends.items() if end < at.offsets.get(number, 0)]
        if beyond:
            number = beyond[0]
            raise DataInvalidated(
                f"topic {self._name}, partition {number}: table {self._table.table} ends at offset "
                f"{at.offsets[number]}, and the log at {ends[number]}: it was cut back or created again, or it is not "
                "the topic that fills the table"
            )
        pending = [number for number, one in partitions.items() if one.end < at.offsets.get(number, 0)]
        if is_next and pending:  # the client would report neither records nor the end
            number = pending[0]
            raise KafkaUnavailable(
                f"topic {self._name}, partition {number}: the table ends at offset {at.offsets[number]}, and the log's "
                f"readable records at {partitions[number].end}: a transaction is open, whose records the table's "
                "writer has read (isolation.level): this is tried again"
            )
        expired = [number for number, offset in sorted(at.offsets.items()) if starts.get(number, 0) > offset]
        if expired:
            number = expired[0]
            raise PositionExpired(
                f"topic {self._name}, partition {number}: the table ends at offset {at.offsets[number]}, and the log "
                f"starts at offset {starts[number]}: retention removed records that are not in the table's copy: load "
                "the table again (--restart), with a longer retention than the load takes"
            )
        return EarlierEvents(self._topic.consumer, self._topic.decoder, at, starts, frozenset(self._without))

    def _check_same_topic(self, before: TopicPosition) -> None:
        now = self._topic.consumer.describe(self._name)
        if before.topic_id and now.topic_id and before.topic_id != now.topic_id:
            raise DataInvalidated(f"topic {self._name} was created again: load the table again (--restart)")
        if set(before.offsets) != set(now.partitions):
            raise DataInvalidated(
                f"topic {self._name} has {len(now.partitions)} partitions and had {len(before.offsets)}: keys may have "
                "moved to another partition, so that the order of their events is not known: load the table again "
                "(--restart)"
            )

    def _known(self, earlier: EarlierEvents) -> TopicPosition:
        """The position with key and columns of the events before it."""
        known = self._topic.decoder.given(earlier.known) or earlier.read()
        if not known.schema_json or known.key is None:
            raise KafkaUnavailable(
                f"topic {self._name}: the log has no event below the offsets at which table {self._table.table} ends "
                f"({known.order_key}), so its columns cannot be compared with those of the table: this is tried again "
                "when the table has later events; or give the columns in the job (columns)"
            )
        return known

    def _key_names(self, known: TopicPosition, entry: SyncEntry) -> tuple[str, ...]:
        names = () if known.key is None else known.key.names
        records = self._description().record_key_fields
        if set(names) != set(records):
            raise SchemaMismatch(
                f"table {self._table.table}: the record key is ({', '.join(records)}), and that of the events of topic "
                f"{self._name} is ({', '.join(names)}): an event must identify a row: change one of them "
                "(Debezium's message.key.columns), or leave out `then`"
            )
        if entry.key and set(entry.key) != set(names):
            raise ConfigurationError(
                f"topic {self._name}: key {', '.join(entry.key)}: expected that of the events, {', '.join(names)}"
            )
        return names

    def _joined(self, lake: pa.Schema, known: TopicPosition, key: tuple[str, ...]) -> Fields:
        return joined_fields(self._table.table, lake, self._name, _fields(known), key, self._without)

    def _lake_columns(self) -> pa.Schema:
        table = self._description()
        return arrow_schema(parse_record_schema(table.schema_json, f"schema of table {table.table}"))

    def _applies_commits(self, at: TableThenTopicPosition) -> bool:
        """Whether a row stays in its partition of the table, so that its changes have one order: else a round could
        add it to one partition, and the next round remove it from another one."""
        key = () if at.topic.key is None else at.topic.key.names
        return set(self._description().partition_fields) <= set(key)

    def _description(self) -> TableDescription:
        if self._described is None:
            self._described = self._table.description()
        return self._described


def _fields(known: TopicPosition) -> Fields:
    fields: Fields = json.loads(known.schema_json)["fields"]
    return fields


def _check_unpartitioned(batch: pa.RecordBatch, where: str) -> None:
    place = batch.schema.get_field_index(_PARTITION)
    if place >= 0 and pc.any(pc.not_equal(batch.column(place), "")).as_py():
        raise SchemaMismatch(
            f"{where}: its properties name no partition fields, and its rows have partitions, between which they may "
            "move: leave out `then`"
        )
