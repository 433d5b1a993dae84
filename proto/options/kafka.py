"""The options of hybrid reads: a part of the registry (`penstock.proto.options.registry`).

The client's settings are one option, `kafka`: a mapping, or one dotted name per setting (`kafka.bootstrap.servers`),
which `fold_client_settings` collects. Values may be secrets: no error shows one. `penstock.engine.requests.hybrid`
checks which options can be combined.
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
        doc="Reads the table and then the Kafka topic that fills it, from the offsets that the table's last "
        "commit recorded (docs/reference/hybrid.md). `changelog`: the table's rows as `+I`, then the "
        "topic's records by key as `+U` and `-D`, in the shape of `query=cdc`. `append`: rows, then one "
        "row per record.",
    ),
    Option(
        name=TOPIC,
        type=Text("topic"),
        entry_points=TRIGGERED,
        doc="The topic of a `hybrid` read; required.",
    ),
    Option(
        name=CLIENT,
        type=ClientSettings("`kafka.KEY` each"),
        default=(),
        entry_points=TRIGGERED,
        doc="Settings of the Kafka client of a `hybrid` read, by librdkafka's names; "
        "`kafka.bootstrap.servers` is required. Spark and `--option` take one option per setting, Python "
        "a mapping `kafka={…}`, the command line `--kafka KEY=VALUE` for each, and `PENSTOCK_KAFKA` a "
        "JSON object. A value `${env:NAME}` or `${file:PATH}` is resolved where the client is created. "
        "Values are never shown.",
    ),
    Option(
        name="kafkaValueFormat",
        type=Choice(tuple(form.value for form in ValueFormat)),
        default=ValueFormat.JSON.value,
        entry_points=TRIGGERED,
        doc="The format of record values: a JSON object of the table's columns, Avro with the id of a schema "
        "registry in front, or Debezium's envelope around either.",
    ),
    Option(
        name="schemaRegistryUrl",
        type=Text("URL"),
        default="",
        entry_points=TRIGGERED,
        doc="The URL of the schema registry; required by `avro` and `debezium-avro`. It may contain user and password.",
    ),
    Option(
        name="deadLetterPath",
        type=Text("folder"),
        default="",
        entry_points=TRIGGERED,
        doc="A folder for records that cannot be decoded, local or a URI as of a table (`s3://…`): they are "
        "written there as JSON lines and skipped. Not given: such a record stops the read.",
    ),
    Option(
        name="kafkaOffsetsKey",
        type=Text("key"),
        default="",
        entry_points=TRIGGERED,
        doc="The key of commit metadata that holds the offsets, for a writer whose key is not known; requires "
        "`kafkaOffsetsFormat`.",
    ),
    Option(
        name="kafkaOffsetsFormat",
        type=Choice(("streamer", "connect", "flink", "spark", "json")),
        entry_points=TRIGGERED,
        doc="The format of the value under `kafkaOffsetsKey`: `topic,0:1`, `0=1`, Flink's entries, the batch "
        'of a Spark query, `{"topic":{"0":1}}`.',
    ),
    Option(
        name="kafkaCheckpoint",
        type=Names("[ID=]FOLDER,… or a JSON list"),
        default=(),
        entry_points=TRIGGERED,
        doc="The checkpoint of the Spark query that fills the table. For several queries: one checkpoint each "
        "with the query's ID, which states that they read disjoint partitions. With `server` this is part "
        "of the server's configuration.",
    ),
    Option(
        name="othersReadOtherTopics",
        type=OnOff(),
        default="off",
        entry_points=TRIGGERED,
        doc="`on` states that commits without known offsets do not read the topic.",
    ),
    Option(
        name="kafkaStartingGroup",
        type=Text("group"),
        default="",
        entry_points=TRIGGERED,
        doc="Used if no commit has offsets: the offsets that this consumer group, the writer's, committed to "
        "Kafka. Correct if the writer commits them after the table's commit; some records may be read "
        "twice.",
    ),
    Option(
        name="kafkaStartingTimestamp",
        type=Number(0, 2**53),
        entry_points=TRIGGERED,
        doc="Used if neither a commit nor a group has offsets: the first records at or after this time "
        "(milliseconds since 1970 UTC). Some records may be read twice; none is lost if the time is "
        "before everything that the table lacks.",
    ),
    Option(
        name="kafkaStartingOffsets",
        type=Text("offsets"),
        default="",
        entry_points=TRIGGERED,
        doc='Used if nothing else has offsets: `{"topic":{"0":123}}` or `topic,0:123`, the next offset of '
        "each partition.",
    ),
)


def fold_client_settings(given: Mapping[str, object]) -> dict[str, object]:
    """The options with all client settings in one mapping, by names in lower case without the prefix.

    The mapping's key is the caller's own if there is one, else the first dotted name. ConfigurationError for a setting
    that is given twice.
    """
    options: dict[str, object] = {}
    settings: dict[str, object] = {}
    name = ""
    for key, value in given.items():
        if not is_client_setting(key):
            options[key] = value
        elif value is not None:
            setting = key.strip("-").lower().removeprefix(_PREFIX)
            if setting in settings:
                raise ConfigurationError(f"option {_PREFIX}{setting[:80]} is given twice")
            settings[setting] = value
            name = name or key
    mapping = next((key for key in options if key.strip("-").lower() == CLIENT and options[key] is not None), None)
    if not settings:
        return options
    if mapping is not None:
        own = dict(ClientSettings().parse(mapping, options[mapping]))
        if twice := sorted(own.keys() & settings.keys()):
            raise ConfigurationError(f"option {_PREFIX}{twice[0][:80]} is given twice, under its name and in {mapping}")
        options[mapping] = own | settings
    else:
        options[name] = settings
    return options


def is_client_setting(name: str) -> bool:
    """Whether this is the dotted name of a setting of the Kafka client."""
    lower = name.strip("-").lower()
    return lower.startswith(_PREFIX) and lower != TOPIC


def checkpoints_of(name: str, given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The (ID, folder) pairs of checkpoints written `[ID=]FOLDER`, sorted by ID; a single one may have the ID ''.

    Text before the first `=` is an ID unless it contains `/`.
    """
    folders: dict[str, str] = {}
    for text in given:
        identifier, equals, folder = text.partition("=")
        if not equals or "/" in identifier:
            identifier, folder = "", text
            if len(given) > 1:
                raise ConfigurationError(f"{name}: with several, each needs the identifier of its query: ID=FOLDER")
        elif not identifier or not folder or identifier in folders:
            raise ConfigurationError(f"{name} {text[:200]!r}: expected ID=FOLDER, each ID once")
        folders[identifier] = folder
    return tuple(sorted(folders.items()))
