"""Resolves the hand-over of a hybrid read at its position in the table: from commits, then from configured fallbacks.

Reads the timeline, and asks the brokers only if a fallback needs them.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.enumerator.handover.commit_offsets import NEVER_A_POSITION, NamedKey
from penstock.enumerator.handover.offset_fallbacks import (
    Fallback,
    GivenOffsets,
    GroupOffsets,
    HandOver,
    OffsetsAtTime,
    hand_over,
)
from penstock.enumerator.handover.offset_formats import Format, parse_starting_offsets
from penstock.enumerator.handover.offset_search import OffsetsFound, WriterHints, find_offsets
from penstock.enumerator.handover.offsets import MalformedOffsets, OffsetMap, check_topic
from penstock.enumerator.handover.spark_checkpoints import SparkCheckpoints
from penstock.enumerator.handover.table_commits import commits_before
from penstock.kafka.protocols import TopicMetadata
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import HandOverRules, Hybrid
from penstock.proto.model.positions import InstantTime, Position
from penstock.table.hudi_table import HudiTable


def resolve_hand_over(
    table: HudiTable, at: Position, hybrid: Hybrid, metadata: TopicMetadata
) -> tuple[HandOver, InstantTime]:
    """The offsets at which the table ends, and the hand-over instant (requested time): the newest completed write up to
    the position `at`.

    Raises ConfigurationError if no source has them, or if they are of another topic; errors of `find_offsets` and of
    the Kafka client.
    """
    hints = _writer_hints(hybrid)
    named = {identifier: folder for identifier, folder in hybrid.rules.checkpoints if identifier}
    unnamed = next((folder for identifier, folder in hybrid.rules.checkpoints if not identifier), None)
    history = commits_before(table, upto=at)
    search = find_offsets(history.active, history.archived, hints, SparkCheckpoints(named, unnamed))
    fallbacks = () if isinstance(search, OffsetsFound) else _fallbacks(hybrid.rules, hybrid.topic, metadata)
    return hand_over(search, fallbacks, hybrid.topic), InstantTime(history.instant)


def check_hints(hybrid: Hybrid) -> None:
    """ConfigurationError for invalid hints, before anything is read."""
    _writer_hints(hybrid)
    if hybrid.rules.starting_offsets:
        _given(hybrid.rules, hybrid.topic)


def _given(rules: HandOverRules, topic: str) -> GivenOffsets:
    try:
        return GivenOffsets(parse_starting_offsets(rules.starting_offsets, topic))
    except MalformedOffsets as error:
        raise ConfigurationError(f"kafkaStartingOffsets: {error}") from None


def _writer_hints(hybrid: Hybrid) -> WriterHints:
    rules = hybrid.rules
    try:
        topic = check_topic(hybrid.topic)
    except MalformedOffsets as error:
        raise ConfigurationError(f"kafka.topic: {error}") from None
    if bool(rules.key) != bool(rules.key_format):
        raise ConfigurationError(
            "kafkaOffsetsKey and kafkaOffsetsFormat are the key of the offsets and its format: give both"
        )
    if rules.key in NEVER_A_POSITION:
        raise ConfigurationError(f"kafkaOffsetsKey {rules.key!r}: this key never holds offsets")
    known = [form.value for form in Format]
    if rules.key_format and rules.key_format not in known:
        raise ConfigurationError(f"kafkaOffsetsFormat {rules.key_format[:40]!r}: expected one of {', '.join(known)}")
    return WriterHints(
        topic=topic,
        named=NamedKey(rules.key, Format(rules.key_format)) if rules.key else None,
        sinks=tuple(identifier for identifier, _ in rules.checkpoints if identifier),
        others_read_topic=not rules.others_elsewhere,
    )


def _fallbacks(rules: HandOverRules, topic: str, metadata: TopicMetadata) -> tuple[Fallback, ...]:
    steps: list[Fallback] = []
    if rules.group:
        steps.append(GroupOffsets(rules.group, _offsets(topic, metadata.group_offsets(topic, rules.group))))
    if rules.timestamp_ms is not None:
        offsets = metadata.offsets_at(topic, rules.timestamp_ms)
        steps.append(OffsetsAtTime(rules.timestamp_ms, _offsets(topic, offsets)))
    if rules.starting_offsets:
        steps.append(_given(rules, topic))
    return tuple(steps)


def _offsets(topic: str, offsets: Mapping[int, int]) -> OffsetMap | None:
    return OffsetMap(topic, tuple(offsets.items())) if offsets else None
