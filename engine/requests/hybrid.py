"""Turns the options of a hybrid read into the topic in which it continues, and checks which options go together.

Pure: reads neither a table nor a broker. Streams (`requests.stream`) and groups (`requests.group`) use the same rules.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.hybrid import HandOverRules, Hybrid, HybridMode, KafkaAccess, ValueFormat
from penstock.proto.model.positions import OnLostRange
from penstock.proto.options.kafka import CLIENT, KAFKA_OPTIONS, TOPIC, checkpoints_of
from penstock.proto.options.registry import EntryPoint, ParsedOptions
from penstock.table.storage.uris import folder_uri

if TYPE_CHECKING:
    from penstock.enumerator.handover.offsets import OffsetMap

_REGISTERED: Final = (ValueFormat.AVRO, ValueFormat.DEBEZIUM_AVRO)


def hybrid_of(options: ParsedOptions, entry_point: EntryPoint, policy: OnLostRange = OnLostRange.FAIL) -> Hybrid | None:
    """The topic in which a stream (`EntryPoint.STREAM`) or a group continues; None without the option `hybrid`.

    `policy` FAIL stops at offsets that have expired, any other continues after them. ConfigurationError for options
    that exclude each other; the error text never contains a setting of the client.
    """
    if options.hybrid is None:
        _refuse_without_hybrid(options)
        return None
    mode = HybridMode(options.hybrid)
    _check_query(options, mode)
    _check_range(options, mode, entry_point)
    _check_event_time(options)
    if policy is OnLostRange.SNAPSHOT:
        raise ConfigurationError(
            "option onLostRange=snapshot returns the rows of the table again, after a hybrid read has left it: give "
            "fail or earliest"
        )
    topic = _topic(options)
    return Hybrid(
        mode=mode,
        topic=topic,
        value_format=_value_format(options),
        rules=_rules(options, topic),
        fail_on_data_loss=policy is OnLostRange.FAIL,
        access=access_of(options) or KafkaAccess(),
    )


def changes_read(options: ParsedOptions) -> ChangeFormat | None:
    """The format of the changes that a stream or a group returns; None for rows."""
    if options.hybrid is not None:
        return ChangeFormat.ROWS if HybridMode(options.hybrid) is HybridMode.CHANGELOG else None
    return ChangeFormat(options.cdc_format) if options.query == "cdc" else None


def explicit_offsets(name: str, text: str, topic: str) -> OffsetMap:
    """Parses explicit offsets of `topic` ('': the only topic in `text`): `{"topic":{"0":123}}` or `topic,0:123`."""
    from penstock.enumerator.handover.offset_formats import (
        parse_starting_offsets,  # lazy imports, here and below: few reads have a topic
    )
    from penstock.enumerator.handover.offsets import MalformedOffsets

    try:
        return parse_starting_offsets(text, topic)
    except MalformedOffsets as error:
        raise ConfigurationError(f"{name}: {error}") from None


def _refuse_without_hybrid(options: ParsedOptions) -> None:
    for option in KAFKA_OPTIONS:
        if option.name in options.explicit:
            label = f"{CLIENT}.*" if option.name == CLIENT else option.name
            raise ConfigurationError(
                f"option {label} configures the topic of a hybrid read: give hybrid=changelog or "
                "hybrid=append with it, or leave it out"
            )


def _check_query(options: ParsedOptions, mode: HybridMode) -> None:
    expected = "cdc" if mode is HybridMode.CHANGELOG else "incremental"
    if "query" in options.explicit and options.query != expected:
        other = HybridMode.APPEND if mode is HybridMode.CHANGELOG else HybridMode.CHANGELOG
        returned = "changes" if mode is HybridMode.CHANGELOG else "rows"
        raise ConfigurationError(
            f"hybrid={mode.value} returns {returned}, but query={options.query} does not: leave query out, or use "
            f"hybrid={other.value}"
        )
    if options.cdc_format != ChangeFormat.ROWS.value:
        raise ConfigurationError(
            f"cdcFormat={options.cdc_format} with hybrid={mode.value}: records of a topic do not have this format; "
            "leave cdcFormat out"
        )


def _check_range(options: ParsedOptions, mode: HybridMode, entry_point: EntryPoint) -> None:
    if options.upto is not None:
        raise ConfigurationError(
            "option upto ends a stream in the table, but a hybrid stream continues after the table: give one of them"
        )
    if options.as_of is not None:
        raise ConfigurationError(
            "option asOf applies to a batch read: a hybrid read begins with the current table; leave it out"
        )
    if mode is not HybridMode.CHANGELOG or options.after is None:
        return
    begin = options.after.strip()
    start = "snapshot" if entry_point is EntryPoint.STREAM else "earliest"
    if begin != start and not (start == "earliest" and re.fullmatch("0{1,14}|0{17}", begin)):
        raise ConfigurationError(
            "hybrid=changelog begins with every row of the table, because commits alone do not contain its deletes: "
            f"got after={begin[:80]}; leave after out (or give {start}), or use hybrid=append"
        )


def _check_event_time(options: ParsedOptions) -> None:
    if options.event_time and options.watermark_fallback != "scan":
        raise ConfigurationError(
            f"watermarkFallback={options.watermark_fallback} with hybrid: only the records of a topic "
            "contain event times, and planning reads them; use scan, or leave it out"
        )


def _topic(options: ParsedOptions) -> str:
    if options.kafka_topic is None:
        raise ConfigurationError(
            f"hybrid={options.hybrid} continues in a topic: give kafka.topic (in Python kafka_topic) with it"
        )
    from penstock.enumerator.handover.offsets import MalformedOffsets, check_topic

    try:
        return check_topic(options.kafka_topic)
    except MalformedOffsets as error:
        raise ConfigurationError(f"option kafka.topic: {error}") from None


def _value_format(options: ParsedOptions) -> ValueFormat:
    form = ValueFormat(options.kafka_value_format)
    if form in _REGISTERED and not options.schema_registry_url:
        raise ConfigurationError(
            f"kafkaValueFormat={form.value}: each record starts with the id of a schema; give schemaRegistryUrl, the "
            "registry of these schemas"
        )
    if options.schema_registry_url and form not in _REGISTERED:
        raise ConfigurationError(
            f"option schemaRegistryUrl is for formats with schemas, and kafkaValueFormat={form.value} needs none: give "
            f"{' or '.join(registered.value for registered in _REGISTERED)}, or leave it out"
        )
    return form


def _rules(options: ParsedOptions, topic: str) -> HandOverRules:
    from penstock.enumerator.handover.commit_offsets import NEVER_A_POSITION

    key, form = options.kafka_offsets_key, options.kafka_offsets_format
    if bool(key) != (form is not None):
        raise ConfigurationError(
            "options kafkaOffsetsKey and kafkaOffsetsFormat are the key of the offsets and their format: give both"
        )
    if key in NEVER_A_POSITION:
        raise ConfigurationError(
            f"option kafkaOffsetsKey={key}: this key sets where the writer's next run begins; it does not hold "
            "consumed offsets"
        )
    if options.kafka_checkpoint and options.server is not None:
        raise ConfigurationError(
            "option kafkaCheckpoint with server: the server reads the checkpoint, and only folders that its own "
            "configuration names (kafkaCheckpoint of the table); leave it out here"
        )
    if options.kafka_starting_offsets:
        explicit_offsets("option kafkaStartingOffsets", options.kafka_starting_offsets, topic)
    return HandOverRules(
        key=key,
        key_format=form or "",
        checkpoints=checkpoints_of("option kafkaCheckpoint", options.kafka_checkpoint),
        others_elsewhere=options.others_read_other_topics == "on",
        group=options.kafka_starting_group,
        timestamp_ms=options.kafka_starting_timestamp,
        starting_offsets=options.kafka_starting_offsets,
    )


def access_of(options: ParsedOptions) -> KafkaAccess | None:
    """How this process connects to the topic; None for a read without a topic. ConfigurationError as `hybrid_of`."""
    if options.hybrid is None:
        return None
    if any(name == "topic" for name, _ in options.kafka):
        raise ConfigurationError(f"option {CLIENT} holds a setting `topic`: give {TOPIC} (in Python kafka_topic)")
    from penstock.kafka.config import checked_settings

    checked_settings(options.kafka)
    if options.dead_letter_path:
        folder_uri(options.dead_letter_path, "option deadLetterPath")
    return KafkaAccess(
        client=options.kafka, registry_url=options.schema_registry_url, dead_letter=options.dead_letter_path
    )
