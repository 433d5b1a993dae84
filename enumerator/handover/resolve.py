"""The hand-over of a hybrid read, resolved at the place in the lake that it has reached: commits first, then what the
user gave.

Shell: reads the timeline, asks the brokers only where the ladder needs it. Not here: what commits say (`walk`), which
step counts (`ladder`), whether a broker still has the offsets (`topic_rounds`).
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
from penstock.enumerator.handover.offset_formats import Format, parse_given
from penstock.enumerator.handover.offset_search import Found, WriterHints, find_offsets
from penstock.enumerator.handover.offsets import MalformedOffsets, OffsetMap, check_topic
from penstock.enumerator.handover.spark_checkpoints import SparkCheckpoints
from penstock.enumerator.handover.table_commits import commits_back
from penstock.kafka.protocols import TopicMetadata
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import HandOverRules, Hybrid
from penstock.proto.model.positions import InstantTime, Position
from penstock.table.hudi_table import HudiTable


def resolved(table: HudiTable, at: Position, hybrid: Hybrid, door: TopicMetadata) -> tuple[HandOver, InstantTime]:
    """The offsets that the lake ends at, and the hand-over instant (requested time): the newest completed write up to
    the position `at`.

    ConfigurationError if nothing tells them, or they are another topic's; errors of `find_offsets` and of the door.
    """
    rules = _rules(hybrid)
    named = {identifier: folder for identifier, folder in hybrid.rules.checkpoints if identifier}
    unnamed = next((folder for identifier, folder in hybrid.rules.checkpoints if not identifier), None)
    back = commits_back(table, upto=at)
    found = find_offsets(back.near, back.far, rules, SparkCheckpoints(named, unnamed))
    fallbacks = () if isinstance(found, Found) else _fallbacks(hybrid.rules, hybrid.topic, door)
    return hand_over(found, fallbacks, hybrid.topic), InstantTime(back.instant)


def check_rules(hybrid: Hybrid) -> None:
    """ConfigurationError for rules that cannot be, before anything is read."""
    _rules(hybrid)
    if hybrid.rules.starting_offsets:
        _given(hybrid.rules, hybrid.topic)


def _given(rules: HandOverRules, topic: str) -> GivenOffsets:
    try:
        return GivenOffsets(parse_given(rules.starting_offsets, topic))
    except MalformedOffsets as error:
        raise ConfigurationError(f"kafkaStartingOffsets: {error}") from None


def _rules(hybrid: Hybrid) -> WriterHints:
    told = hybrid.rules
    try:
        topic = check_topic(hybrid.topic)
    except MalformedOffsets as error:
        raise ConfigurationError(f"kafka.topic: {error}") from None
    if bool(told.key) != bool(told.key_format):
        raise ConfigurationError(
            "kafkaOffsetsKey and kafkaOffsetsFormat: one says where the offsets are, the other how: give both"
        )
    if told.key in NEVER_A_POSITION:
        raise ConfigurationError(f"kafkaOffsetsKey {told.key!r}: that is no key that holds a position")
    known = [form.value for form in Format]
    if told.key_format and told.key_format not in known:
        raise ConfigurationError(f"kafkaOffsetsFormat {told.key_format[:40]!r}: expected one of {', '.join(known)}")
    return WriterHints(
        topic=topic,
        named=NamedKey(told.key, Format(told.key_format)) if told.key else None,
        sinks=tuple(identifier for identifier, _ in told.checkpoints if identifier),
        others_read_it=not told.others_elsewhere,
    )


def _fallbacks(rules: HandOverRules, topic: str, door: TopicMetadata) -> tuple[Fallback, ...]:
    steps: list[Fallback] = []
    if rules.group:
        steps.append(GroupOffsets(rules.group, _offsets(topic, door.group_offsets(topic, rules.group))))
    if rules.timestamp_ms is not None:
        told = door.offsets_at(topic, rules.timestamp_ms)
        steps.append(OffsetsAtTime(rules.timestamp_ms, _offsets(topic, told)))
    if rules.starting_offsets:
        steps.append(_given(rules, topic))
    return tuple(steps)


def _offsets(topic: str, told: Mapping[int, int]) -> OffsetMap | None:
    return OffsetMap(topic, tuple(told.items())) if told else None
