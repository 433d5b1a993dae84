"""Encodes and decodes the values of hybrid reads as messages of `penstock.v1`.

`Hybrid.access` contains the client settings and secrets of a process. It has no field and is never sent: the process
that decodes a message sets its own. Decoding checks every length, count and number (`checks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.proto.codec import checks as check
from penstock.proto.codec.checks import position_from_message, position_to_message
from penstock.proto.codec.hybrid import checks as hybrid_checks
from penstock.proto.model.hybrid import (
    HandOverRules,
    Hybrid,
    HybridMode,
    KafkaPlace,
    KafkaRange,
    PartitionPlace,
    Phase,
    TopicRecords,
    ValueFormat,
)
from penstock.proto.v1 import penstock_pb2 as pb


def hybrid_to_message(hybrid: Hybrid) -> pb.Hybrid:
    """Encodes all but `access`. ValueError (see `checks.encoding`) if a number or text does not fit into a message."""
    rules = hybrid.rules
    return pb.Hybrid(
        mode=hybrid.mode.value,
        topic=hybrid.topic,
        value_format=hybrid.value_format.value,
        rules=pb.HandOverRules(
            key=rules.key,
            key_format=rules.key_format,
            checkpoints=[pb.QueryCheckpoint(writer=writer, folder=folder) for writer, folder in rules.checkpoints],
            others_elsewhere=rules.others_elsewhere,
            group=rules.group,
            timestamp_ms=rules.timestamp_ms,
            starting_offsets=rules.starting_offsets,
        ),
        loss_allowed=not hybrid.fail_on_data_loss,
    )


def hybrid_from_message(what: str, message: pb.Hybrid) -> Hybrid:
    """Decodes all but `access`. ConfigurationError that names `what` for an invalid field."""
    return Hybrid(
        mode=_mode(what, "hybrid.mode", message.mode),
        topic=hybrid_checks.topic_name(what, "hybrid.topic", message.topic),
        value_format=_format(what, "hybrid.value_format", message.value_format),
        rules=_rules_from_message(what, message.rules),
        fail_on_data_loss=not message.loss_allowed,
    )


def _rules_from_message(what: str, message: pb.HandOverRules) -> HandOverRules:
    field = "hybrid.rules"
    timestamp_ms = None
    if message.HasField("timestamp_ms"):
        timestamp_ms = check.number(what, f"{field}.timestamp_ms", message.timestamp_ms)
    return HandOverRules(
        key=check.text(what, f"{field}.key", message.key),
        key_format=check.text(what, f"{field}.key_format", message.key_format),
        checkpoints=tuple(
            (
                check.text(what, f"{field}.checkpoints.writer", entry.writer),
                check.name(what, f"{field}.checkpoints.folder", entry.folder, check.MAX_PATH_CHARS),
            )
            for entry in check.counted(what, f"{field}.checkpoints", message.checkpoints, hybrid_checks.MAX_CHECKPOINTS)
        ),
        others_elsewhere=message.others_elsewhere,
        group=check.text(what, f"{field}.group", message.group),
        timestamp_ms=timestamp_ms,
        starting_offsets=check.text(
            what, f"{field}.starting_offsets", message.starting_offsets, hybrid_checks.MAX_OFFSETS_CHARS
        ),
    )


def records_to_message(records: TopicRecords) -> pb.TopicRecords:
    """Encodes how records become rows."""
    return pb.TopicRecords(
        mode=records.mode.value,
        value_format=records.value_format.value,
        key_fields=records.key_fields,
        loss_allowed=not records.fail_on_data_loss,
    )


def records_from_message(what: str, message: pb.TopicRecords) -> TopicRecords:
    """Decodes how records become rows. ConfigurationError that names `what` for an invalid field."""
    return TopicRecords(
        mode=_mode(what, "topic.mode", message.mode),
        value_format=_format(what, "topic.value_format", message.value_format),
        key_fields=check.names(what, "topic.key_fields", message.key_fields),
        fail_on_data_loss=not message.loss_allowed,
    )


def range_to_message(offsets: KafkaRange) -> pb.KafkaRange:
    """Encodes a range. ValueError (see `checks.encoding`) if a number does not fit into a message."""
    return pb.KafkaRange(
        topic=offsets.topic,
        topic_id=offsets.topic_id,
        partition=offsets.partition,
        first=offsets.first,
        end=offsets.end,
    )


def range_from_message(what: str, field: str, message: pb.KafkaRange) -> KafkaRange:
    """Decodes a range. ConfigurationError that names `what` and `field` for an invalid or empty one."""
    return hybrid_checks.checked_range(what, field, _range(message))


def ranges_from_message(what: str, field: str, messages: Sequence[pb.KafkaRange]) -> tuple[KafkaRange, ...]:
    """Decodes ranges of one topic. ConfigurationError that names `what` and `field` for invalid ones."""
    check.counted(what, field, messages, check.MAX_SPLITS)
    return hybrid_checks.checked_ranges(what, field, [_range(message) for message in messages])


def batch_ranges_from_message(what: str, message: pb.TopicBatch, place: KafkaPlace | None) -> tuple[KafkaRange, ...]:
    """Decodes the ranges of a batch that ends at `place`. ConfigurationError that names `what` for invalid ones."""
    field = "point.topic"
    check.counted(what, field, message.ranges, check.MAX_SPLITS)
    return hybrid_checks.checked_batch(what, field, [_range(offsets) for offsets in message.ranges], place)


def _range(message: pb.KafkaRange) -> KafkaRange:
    return KafkaRange(
        topic=message.topic,
        topic_id=message.topic_id,
        partition=message.partition,
        first=message.first,
        end=message.end,
    )


def place_to_message(place: KafkaPlace) -> pb.KafkaPlace:
    """Encodes a place. ValueError (see `checks.encoding`) if a number does not fit into a message."""
    return pb.KafkaPlace(
        phase=place.phase.value,
        topic=place.topic,
        topic_id=place.topic_id,
        instant=place.instant,
        lake=position_to_message(place.lake),
        starts=_numbers_to_messages(place.starts),
        epochs=_numbers_to_messages(place.epochs),
        places=[
            pb.PartitionPlace(partition=at.partition, next=at.next, high_us=at.high_us, behind=at.behind)
            for at in place.places
        ],
    )


def place_from_message(what: str, field: str, message: pb.KafkaPlace) -> KafkaPlace:
    """Decodes a place. ConfigurationError that names `what` and `field` for an invalid one."""
    if not message.HasField("lake"):
        raise check.breach(what, f"{field}.lake", "nothing", "a position")
    phase = check.one_of(what, f"{field}.phase", message.phase, [phase.value for phase in Phase])
    return hybrid_checks.checked_place(
        what,
        field,
        KafkaPlace(
            phase=Phase(phase),
            topic=message.topic,
            topic_id=message.topic_id,
            instant=check.instant(what, f"{field}.instant", message.instant),
            lake=position_from_message(what, f"{field}.lake", message.lake),
            starts=tuple((start.partition, start.number) for start in message.starts),
            epochs=tuple((epoch.partition, epoch.number) for epoch in message.epochs),
            places=tuple(
                PartitionPlace(at.partition, at.next, at.high_us if at.HasField("high_us") else None, at.behind)
                for at in message.places
            ),
        ),
    )


def _numbers_to_messages(pairs: Iterable[tuple[int, int]]) -> list[pb.PartitionNumber]:
    return [pb.PartitionNumber(partition=partition, number=number) for partition, number in pairs]


def _mode(what: str, field: str, value: str) -> HybridMode:
    return HybridMode(check.one_of(what, field, value, [mode.value for mode in HybridMode]))


def _format(what: str, field: str, value: str) -> ValueFormat:
    return ValueFormat(check.one_of(what, field, value, [form.value for form in ValueFormat]))
