"""Option names of Hudi, Flink and hudi-rs: translated to Penstock's options, or refused with the option to use.

They are translated, not aliased, because their bounds differ: Hudi's Spark ranges are (begin, end] since 1.1, Flink's
first range includes both ends, time travel uses requested times. A value without an exact translation is an error. A
`hoodie.` name that does not affect reads is accepted and reported, so that one dictionary can serve writers and
readers. `foreign_values` translates the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.options.entry import READS, EntryPoint
from penstock.proto.options.foreign_values import (
    as_of,
    commits_limit,
    flink_end,
    flink_start,
    opposite_switch,
    query_of,
    read_optimized,
    same,
    spark_bound,
    start_offset,
    switch,
    view_type,
    whole_instant,
)
from penstock.proto.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class OurOption:
    """The name means this option with this value."""

    option: str
    """The option's name in camelCase."""
    value: object
    """The value, not yet parsed."""
    query: str | None = None
    """The query of a read that sets no other one; None: the default of the option."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The value requests what Penstock always does."""


@dataclass(frozen=True, slots=True)
class NotUsed:
    """The name does not affect the rows of a read: it has no effect, and the caller gets a warning."""


Translation = OurOption | Accepted | NotUsed


@dataclass(frozen=True, slots=True)
class Renamed:
    """A name that is translated to one of Penstock's options."""

    option: str
    """The option's name in camelCase."""
    convert: Callable[[str, str], str | None]
    """From (name, value) to the option's value; None for what Penstock always does. ConfigurationError if no value
    means exactly the same."""
    doc: str
    """A remark for the documentation."""
    query: str | None = None
    """The query that the name implies in a read that sets no other one."""


@dataclass(frozen=True, slots=True)
class OnlyValue:
    """A name that is accepted with some values only."""

    values: frozenset[str]
    """The values (lower case) that request what Penstock always does."""
    advice: str
    """The error's text for any other value."""
    in_streams: frozenset[str] | None = None
    """The values for streams and consumers; None: the same."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A name that is never translated."""

    advice: str
    """The error's text, which names the option to use."""


@dataclass(frozen=True, slots=True)
class NoEffect:
    """A setting of how Hudi reads, not of which rows: reported as not used."""


Rule = Renamed | OnlyValue | Refused | NoEffect


def translate(name: str, value: object, entry_point: EntryPoint) -> Translation | None:
    """The meaning of a foreign name where options are given; None for an unknown name that is not a `hoodie.` name
    without effect on reads.

    ConfigurationError if Penstock would return other rows than the value requests.
    """
    key, text = name.lower(), _as_text(value)
    match RULES.get(key):
        case Renamed(option=option, convert=convert, query=query):
            converted = convert(name, text)
            implied = query if entry_point in READS else None
            return Accepted() if converted is None else OurOption(option, converted, implied)
        case OnlyValue(values=values, advice=advice, in_streams=in_streams):
            expected = values if in_streams is None or entry_point in READS else in_streams
            if text.strip().lower() in expected:
                return Accepted()
            raise ConfigurationError(f"option {name}={text[:80]}: {advice}")
        case Refused(advice=advice):
            raise ConfigurationError(f"option {name}={text[:80]}: {advice}")
        case NoEffect():
            return NotUsed()
        case None:
            affects_reads = key.startswith(READING_PREFIXES)
            return NotUsed() if key.startswith("hoodie.") and not affects_reads else None


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _only(*values: str, advice: str) -> OnlyValue:
    return OnlyValue(frozenset(values), advice)


_TABLE_PROPERTY: Final = Refused("Penstock merges according to the table's properties; omit the option")
_SERVICES: Final = "Penstock never returns rows again that compaction or clustering moved; omit the option"
_CDC: Final = "use query=cdc (and cdcFormat) for changes; omit the option"

READING_PREFIXES: Final = (
    "hoodie.datasource.query.",
    "hoodie.datasource.read.",
    "hoodie.datasource.streaming.",
    "hoodie.payload.",
    "hoodie.read.",
)
"""A name with one of these prefixes and without a rule is an error, because it may affect the rows of a read."""

_FLINK_START: Final = Renamed(
    "after",
    flink_start,
    "inclusive in Flink, therefore the order key before it; `earliest` or 14 or 17 digits; a read is "
    "`query=incremental`",
    "incremental",
)
_RECORD_INDEX: Final = Renamed("recordIndex", switch, "on or off")
_RELATION: Final = "Penstock's commands and table functions show the timeline and the files"

RULES: Final[Mapping[str, Rule]] = {
    # Spark
    "hoodie.metadata.enable": Renamed("metadata", switch, "on or off"),
    "hoodie.metadata.record.index.enable": _RECORD_INDEX,
    "hoodie.metadata.global.record.level.index.enable": _RECORD_INDEX,
    "hoodie.datasource.query.type": Renamed(
        "query", query_of("snapshot", "read_optimized", "incremental"), "same values"
    ),
    "hoodie.datasource.view.type": Renamed("query", view_type, "`realtime` is `snapshot`"),
    "hoodie.datasource.query.incremental.format": _only(
        "latest_state",
        advice="use query=cdc and cdcFormat=hudi for changes, with Penstock's options after and upto, which are order "
        "keys (Hudi bounds changes by requested times, and misses commits that complete late)",
    ),
    "as.of.instant": Renamed("asOf", as_of, "a requested time in the timeline's time zone, converted as in Hudi"),
    "hoodie.datasource.read.begin.instanttime": Renamed(
        "after", spark_bound("after"), "exclusive; only whole instants of 14 or 17 digits, and zeros for `earliest`"
    ),
    "hoodie.datasource.read.end.instanttime": Renamed(
        "upto", spark_bound("upto"), "inclusive; only whole instants of 14 or 17 digits"
    ),
    "hoodie.datasource.streaming.startoffset": Renamed("after", start_offset, "only `earliest` and `latest`"),
    "hoodie.datasource.read.paths": Refused("use the path of one table; the table's timeline determines its files"),
    "hoodie.datasource.read.incr.path.glob": _only("", advice="use Penstock's option where on the partition columns"),
    "hoodie.datasource.read.incr.filters": _only("", advice="use Penstock's option where"),
    "hoodie.datasource.read.incr.skip_compact": _only("true", "false", advice="expected true or false"),
    "hoodie.datasource.read.incr.skip_cluster": _only("true", "false", advice="expected true or false"),
    "hoodie.datasource.read.incr.fallback.fulltablescan.enable": _only(
        "false",
        advice="a range whose files were deleted is an error in Penstock, because a read of a later snapshot instead "
        "would lose rows; omit the option, and read a snapshot if the range is deleted",
    ),
    "hoodie.datasource.read.extract.partition.values.from.path": _only(
        "false", advice="Penstock takes each value from the path or the file as Hudi does by default; omit the option"
    ),
    "hoodie.datasource.read.partition.value.extractor.enabled": _only(
        "false", advice="Penstock parses partition paths by the table's key generator; omit the option"
    ),
    "hoodie.datasource.read.file.index.listing.mode": NoEffect(),
    "hoodie.datasource.read.file.index.listing.partition-path-prefix.analysis.enabled": NoEffect(),
    "hoodie.datasource.read.file.index.optimize.listing.using.path.filter": NoEffect(),
    "hoodie.datasource.read.file.index.list.partitions.from.catalog": NoEffect(),
    "hoodie.datasource.read.table.valued.function.timeline.relation": _only("false", advice=_RELATION),
    "hoodie.datasource.read.table.valued.function.timeline.relation.archived": _only("false", advice=_RELATION),
    "hoodie.datasource.read.create.filesystem.relation": _only("false", advice=_RELATION),
    "hoodie.datasource.read.table.valued.function.filesystem.relation.subpath": _only("", advice=_RELATION),
    "hoodie.datasource.read.incr.table.version": Refused(
        "the table determines the kind of time of the bounds: Penstock's options after and upto are order keys "
        "(completion time on timeline layout 2, requested time on layout 1)"
    ),
    "hoodie.datasource.read.streaming.table.version": Refused("Penstock's option after is an order key of the table"),
    "hoodie.datasource.read.schema.use.end.instanttime": _only("false", advice="omit the option"),
    "hoodie.read.timeline.holes.resolution.policy": _only(
        "block",
        advice="on timeline layout 1 `latest` ends before the first pending instant (BLOCK); use the option upto",
    ),
    "hoodie.schema.on.read.enable": Renamed("columnsByName", opposite_switch, "`true`: off; `false`: on"),
    "hoodie.payload.delete.field": Renamed("deleteField", same, "the column that marks deletes"),
    "hoodie.payload.delete.marker": Renamed("deleteMarker", same, "its value"),
    "hoodie.read.blob.inline.mode": _only(
        "descriptor", "content", advice="Penstock returns the stored struct of a blob; omit the option"
    ),
    "hoodie.datasource.merge.type": _only(
        "payload_combine",
        advice="Penstock always merges base and log files; query=read_optimized reads base files alone",
    ),
    "hoodie.record.merge.mode": _TABLE_PROPERTY,
    "hoodie.record.merge.strategy.id": _TABLE_PROPERTY,
    "hoodie.compaction.payload.class": _TABLE_PROPERTY,
    "hoodie.table.ordering.fields": _TABLE_PROPERTY,
    "hoodie.table.precombine.field": _TABLE_PROPERTY,
    "hoodie.table.timeline.timezone": Refused(
        "Penstock reads it from the table; for a LOCAL timeline use Penstock's option timelineTimezone"
    ),
    # hudi-rs
    "hoodie.read.query.type": Renamed("query", query_of("snapshot", "incremental"), "same values"),
    "hoodie.read.as.of.timestamp": Renamed("asOf", whole_instant("asOf"), "only instants of 14 or 17 digits"),
    "hoodie.read.start.timestamp": Refused(
        "use query=incremental with Penstock's option after (exclusive, an order key)"
    ),
    "hoodie.read.end.timestamp": Refused("use query=incremental with Penstock's option upto (inclusive, an order key)"),
    "hoodie.read.use.read_optimized.mode": Renamed("query", read_optimized, "true: read_optimized; false: nothing"),
    "hoodie.read.stream.batch_size": Renamed("batchRows", same, "the maximum number of rows of a batch"),
    "hoodie.read.input.partitions": Renamed("slots", same, "number of tasks"),
    "hoodie.read.scan.max.memory.size": NoEffect(),
    "hoodie.read.file.group.reader.version": NoEffect(),
    "hoodie.read.listing.parallelism": NoEffect(),
    # Flink
    "read.start-commit": _FLINK_START,
    "read.streaming.start-commit": _FLINK_START,
    "read.end-commit": Renamed(
        "upto", flink_end, "inclusive, an order key of 14 or 17 digits; a read is `query=incremental`", "incremental"
    ),
    "read.streaming.enabled": OnlyValue(
        frozenset({"false"}),
        "the call decides it: spark.readStream and penstock.Consumer read a stream, other calls do not",
        in_streams=frozenset({"true"}),
    ),
    "read.streaming.check-interval": Refused("the stream's trigger sets the interval"),
    "read.streaming.skip_compaction": _only("true", advice=_SERVICES),
    "read.streaming.skip_clustering": _only("true", advice=_SERVICES),
    "read.streaming.skip_insertoverwrite": _only(
        "false", advice="Penstock always returns the rows of insert_overwrite"
    ),
    "read.tasks": Renamed("slots", same, "number of tasks"),
    "read.commits.limit": Renamed("maxCommitsPerTrigger", commits_limit, "of streams and consumers; at least 1"),
    "read.splits.limit": Refused("use Penstock's option maxFilesPerTrigger or maxBytesPerTrigger"),
    "read.data.skipping.enabled": NoEffect(),
    "read.data.skipping.rli.keys.max.num": NoEffect(),
    "read.data.skipping.rli.partitions.max.num": NoEffect(),
    "source.avro-schema": Refused("Penstock reads the schema of the table; use the option columns"),
    "source.avro-schema.path": Refused("Penstock reads the schema of the table; use the option columns"),
    "read.utc-timezone": _only("true", advice="timestamps are UTC; convert them in the engine"),
    "read.cdc.from.changelog": _only(advice=_CDC),
    "read.source-v2.enabled": NoEffect(),
    "cdc.enabled": _only("false", advice=_CDC),
    "changelog.enabled": _only("false", advice=_CDC),
    "metadata.enabled": Renamed("metadata", switch, "on or off"),
}
"""The rule of each foreign name, in lower case."""
