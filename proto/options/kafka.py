"""The options of hybrid reads, from the lake on into Kafka: a part of the one registry (`options`).

Settings of the client are one option, `kafka`: a mapping, or a dotted name each (`kafka.bootstrap.servers`), which
`folded` gathers. Their values may be secrets: no error shows one. Belongs here: what only a hybrid read has. Not here:
which of them go together (`penstock.engine.requests.hybrid`). Standard library only, no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import HybridMode, ValueFormat
from penstock.proto.options.entry import TRIGGERED, Option
from penstock.proto.options.types import Choice, ClientSettings, Names, Number, OnOff, Text

CLIENT: Final = "kafka"
TOPIC: Final = "kafka.topic"
BROKERS: Final = "kafka.bootstrap.servers"
_PREFIX: Final = "kafka."

KAFKA_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        name="hybrid",
        type=Choice(tuple(mode.value for mode in HybridMode)),
        entry_points=TRIGGERED,
        doc="The read goes on in the Kafka topic that fills the table, at the offsets that its last commit recorded "
        "(docs/reference/hybrid.md). `changelog`: the table's rows as `+I`, then the topic's records by key as `+U` "
        "and `-D`, in the shape of `query=cdc`. `append`: rows, then each record as one.",
    ),
    Option(
        name=TOPIC,
        type=Text("topic"),
        entry_points=TRIGGERED,
        doc="The topic of a `hybrid` read, which needs it.",
    ),
    Option(
        name=CLIENT,
        type=ClientSettings("`kafka.KEY` each"),
        default=(),
        entry_points=TRIGGERED,
        doc="Settings of the Kafka client (librdkafka's names) of a `hybrid` read, which needs "
        "`kafka.bootstrap.servers`: in Spark and with `--option` a name each, in Python a mapping `kafka={…}`, "
        "`--kafka KEY=VALUE` as often as needed, `PENSTOCK_KAFKA` a JSON object. A value `${env:NAME}` or "
        "`${file:PATH}` is read where the client is made. Values are never shown.",
    ),
    Option(
        name="kafkaValueFormat",
        type=Choice(tuple(form.value for form in ValueFormat)),
        default=ValueFormat.JSON.value,
        entry_points=TRIGGERED,
        doc="How a record's value is written: a JSON object of the table's columns, Avro with the id of a schema "
        "registry in front, or Debezium's envelope around either.",
    ),
    Option(
        name="schemaRegistryUrl",
        type=Text("URL"),
        default="",
        entry_points=TRIGGERED,
        doc="The schema registry of `avro` and `debezium-avro`, which need it.",
    ),
    Option(
        name="deadLetterPath",
        type=Text("folder"),
        default="",
        entry_points=TRIGGERED,
        doc="A folder for records that cannot be decoded, local or a URI as of a table (`s3://…`): they are written "
        "there as JSON lines and passed over. Not given: such a record stops the read.",
    ),
    Option(
        name="kafkaOffsetsKey",
        type=Text("key"),
        default="",
        entry_points=TRIGGERED,
        doc="A key of commit metadata that holds the offsets, where none is known; with `kafkaOffsetsFormat`.",
    ),
    Option(
        name="kafkaOffsetsFormat",
        type=Choice(("streamer", "connect", "flink", "spark", "json")),
        entry_points=TRIGGERED,
        doc="The form of the value under `kafkaOffsetsKey`: `topic,0:1`, `0=1`, Flink's entries, the batch of a "
        'Spark query, `{"topic":{"0":1}}`.',
    ),
    Option(
        name="kafkaCheckpoint",
        type=Names("[ID=]FOLDER,… or a JSON list"),
        default=(),
        entry_points=TRIGGERED,
        doc="The checkpoint of the Spark query that fills the table; of several queries each with its ID, which states "
        "that they read disjoint partitions. With `server` its configuration says it.",
    ),
    Option(
        name="othersReadOtherTopics",
        type=OnOff(),
        default="off",
        entry_points=TRIGGERED,
        doc="`on` states that commits without a known position do not read the topic.",
    ),
    Option(
        name="kafkaStartingGroup",
        type=Text("group"),
        default="",
        entry_points=TRIGGERED,
        doc="If no commit tells: what this consumer group, the writer's, has committed to Kafka. Right where that "
        "happens behind the lake's commit; some records may come again.",
    ),
    Option(
        name="kafkaStartingTimestamp",
        type=Number(0, 2**53),
        entry_points=TRIGGERED,
        doc="If neither a commit nor a group tells: the first records at or behind this time (milliseconds since 1970 "
        "UTC). Some records may come again; none is lost if it lies before all that the table lacks.",
    ),
    Option(
        name="kafkaStartingOffsets",
        type=Text("offsets"),
        default="",
        entry_points=TRIGGERED,
        doc='If nothing else tells: `{"topic":{"0":123}}` or `topic,0:123`, the next offset of each partition.',
    ),
)


def folded(given: Mapping[str, object]) -> dict[str, object]:
    """What was given, with every setting of the client under one name, in lower case and without its prefix.

    The mapping stands under its own name, else under the first dotted one. ConfigurationError: a setting twice.
    """
    found: dict[str, object] = {}
    settings: dict[str, object] = {}
    name = ""
    for key, value in given.items():
        if not is_client_setting(key):
            found[key] = value
        elif value is not None:
            setting = key.strip("-").lower().removeprefix(_PREFIX)
            if setting in settings:
                raise ConfigurationError(f"option {_PREFIX}{setting[:80]} is given twice")
            settings[setting] = value
            name = name or key
    mapping = next((key for key in found if key.strip("-").lower() == CLIENT and found[key] is not None), None)
    if not settings:
        return found
    if mapping is not None:
        own = dict(ClientSettings().parse(mapping, found[mapping]))
        if twice := sorted(own.keys() & settings.keys()):
            raise ConfigurationError(f"option {_PREFIX}{twice[0][:80]} is given twice, under its name and in {mapping}")
        found[mapping] = own | settings
    else:
        found[name] = settings
    return found


def is_client_setting(name: str) -> bool:
    """Whether it is the dotted name of one setting of the client."""
    lower = name.strip("-").lower()
    return lower.startswith(_PREFIX) and lower != TOPIC


def checkpoints_of(name: str, given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(ID, folder) of checkpoints written `[ID=]FOLDER`, by ID; ID '' for the only one. What is before a first `=` and
    holds no `/` is an ID."""
    found: dict[str, str] = {}
    for text in given:
        identifier, equals, folder = text.partition("=")
        if not equals or "/" in identifier:
            identifier, folder = "", text
            if len(given) > 1:
                raise ConfigurationError(f"{name}: with several, each needs the identifier of its query: ID=FOLDER")
        elif not identifier or not folder or identifier in found:
            raise ConfigurationError(f"{name} {text[:200]!r}: expected ID=FOLDER, each ID once")
        found[identifier] = folder
    return tuple(sorted(found.items()))
