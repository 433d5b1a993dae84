"""Option names of Hudi, Flink and hudi-rs: translated to Penstock's options, or refused with the option to use.

They are translated, not aliased, because their bounds differ: Hudi's Spark ranges are (begin, end] since 1.1, Flink's
first range includes both ends, time travel uses requested times. A value without an exact translation is an error. A
`hoodie.` name that does not affect reads is accepted and reported, so that one dictionary can serve writers and
readers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class OurOption:
    """The name means this option with this value."""

    option: str
    """The option's name in camelCase."""
    value: object
    """The value, not yet parsed."""


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


@dataclass(frozen=True, slots=True)
class OnlyValue:
    """A name that is accepted with some values only."""

    values: frozenset[str]
    """The values (lower case) that request what Penstock always does."""
    advice: str
    """The error's text for any other value."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A name that is never translated."""

    advice: str
    """The error's text, which names the option to use."""


@dataclass(frozen=True, slots=True)
class NoEffect:
    """A setting of how Hudi reads, not of which rows: reported as not used."""


Rule = Renamed | OnlyValue | Refused | NoEffect


def translate(name: str, value: object) -> Translation | None:
    """The meaning of a foreign name; None for an unknown name that is not a `hoodie.` name without effect on reads.

    ConfigurationError if Penstock would return other rows than the value requests.
    """
    key, text = name.lower(), _as_text(value)
    match RULES.get(key):
        case Renamed(option=option, convert=convert):
            converted = convert(name, text)
            return Accepted() if converted is None else OurOption(option, converted)
        case OnlyValue(values=values, advice=advice):
            if text.strip().lower() in values:
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


def _query(*kinds: str) -> Callable[[str, str], str]:
    def convert(name: str, value: str) -> str:
        if value not in kinds:
            raise ConfigurationError(
                f"option {name}: got {value[:80]!r}, expected one of {', '.join(kinds)}; or use Penstock's option query"
            )
        return value

    return convert


def _bound(ours: str) -> Callable[[str, str], str]:
    """A bound of Spark's incremental read. Hudi compares it as text, so only whole instants mean the same here."""

    def convert(name: str, value: str) -> str:
        if re.fullmatch(r"0{1,13}", value):
            return "earliest"
        if not re.fullmatch(r"\d{14}|\d{17}", value):
            raise ConfigurationError(
                f"option {name}: got {value[:80]!r}, which Hudi compares with instants as text; use Penstock's option "
                f"{ours} instead (an instant of 14 or 17 digits, an ISO time, or `earliest` / `latest`)"
            )
        return value

    return convert


def _as_of(name: str, value: str) -> str:
    """As Hudi's `formatQueryInstant`: the timeline's wall clock; a time in seconds means its last millisecond."""
    if re.fullmatch(r"\d{10}|\d{13}|\d{14}|\d{17}", value):
        return value
    match = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{3}))?)?", value)
    if match is None:
        raise ConfigurationError(
            f"option {name}: got {value[:80]!r}, expected yyyyMMddHHmmss[SSS], yyyy-MM-dd or "
            "yyyy-MM-dd HH:mm:ss[.SSS]; Penstock's option asOf also accepts ISO times with a zone"
        )
    year, month, day, hour, minute, second, milli = match.groups()
    clock = "000000000" if hour is None else f"{hour}{minute}{second}{milli or '999'}"
    return f"{year}{month}{day}{clock}"


def _whole_instant(ours: str) -> Callable[[str, str], str]:
    def convert(name: str, value: str) -> str:
        if not re.fullmatch(r"\d{14}|\d{17}", value):
            raise ConfigurationError(
                f"option {name}: got {value[:80]!r}, expected an instant of 14 or 17 digits; Penstock's option {ours} "
                "also accepts ISO times"
            )
        return value

    return convert


def _read_optimized(name: str, value: str) -> str | None:
    if value.lower() not in ("true", "false"):
        raise ConfigurationError(
            f"option {name}: got {value[:80]!r}, expected true or false; or use Penstock's option query"
        )
    return "read_optimized" if value.lower() == "true" else None


def _start_offset(name: str, value: str) -> str:
    if value not in ("earliest", "latest"):
        raise ConfigurationError(
            f"option {name}: got {value[:80]!r}; only earliest and latest have the same meaning in Penstock; use "
            "Penstock's option after (exclusive, an order key) instead"
        )
    return value


def _same(_name: str, value: str) -> str:
    return value


def _switch(name: str, value: str) -> str:
    if value.strip().lower() not in ("true", "false"):
        raise ConfigurationError(f"option {name}: got {value[:80]!r}, expected true or false")
    return "on" if value.strip().lower() == "true" else "off"


def _opposite_switch(name: str, value: str) -> str:
    return "off" if _switch(name, value) == "on" else "on"


def _only(*values: str, advice: str) -> OnlyValue:
    return OnlyValue(frozenset(values), advice)


_TABLE_PROPERTY: Final = Refused("Penstock merges according to the table's properties; omit the option")
_FLINK_BOUND: Final = (
    "Flink's first range includes its start and its bounds differ by release; use query=incremental with Penstock's "
    "option {} ({}, an order key)"
)
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

RULES: Final[Mapping[str, Rule]] = {
    # Spark
    "hoodie.metadata.enable": Renamed("metadata", _switch, "on or off"),
    "hoodie.datasource.query.type": Renamed(
        "query", _query("snapshot", "read_optimized", "incremental"), "same values"
    ),
    "hoodie.datasource.query.incremental.format": _only(
        "latest_state",
        advice="use query=cdc and cdcFormat=hudi for changes, with Penstock's options after and upto, which are order "
        "keys (Hudi bounds changes by requested times, and misses commits that complete late)",
    ),
    "as.of.instant": Renamed("asOf", _as_of, "a requested time in the timeline's time zone, converted as in Hudi"),
    "hoodie.datasource.read.begin.instanttime": Renamed(
        "after", _bound("after"), "exclusive; only whole instants of 14 or 17 digits, and zeros for `earliest`"
    ),
    "hoodie.datasource.read.end.instanttime": Renamed(
        "upto", _bound("upto"), "inclusive; only whole instants of 14 or 17 digits"
    ),
    "hoodie.datasource.streaming.startoffset": Renamed("after", _start_offset, "only `earliest` and `latest`"),
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
    "hoodie.schema.on.read.enable": Renamed("columnsByName", _opposite_switch, "`true`: off; `false`: on"),
    "hoodie.payload.delete.field": Renamed("deleteField", _same, "the column that marks deletes"),
    "hoodie.payload.delete.marker": Renamed("deleteMarker", _same, "its value"),
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
    "hoodie.read.query.type": Renamed("query", _query("snapshot", "incremental"), "same values"),
    "hoodie.read.as.of.timestamp": Renamed("asOf", _whole_instant("asOf"), "only instants of 14 or 17 digits"),
    "hoodie.read.start.timestamp": Refused(
        "use query=incremental with Penstock's option after (exclusive, an order key)"
    ),
    "hoodie.read.end.timestamp": Refused("use query=incremental with Penstock's option upto (inclusive, an order key)"),
    "hoodie.read.use.read_optimized.mode": Renamed("query", _read_optimized, "true: read_optimized; false: nothing"),
    "hoodie.read.stream.batch_size": Renamed("batchRows", _same, "the maximum number of rows of a batch"),
    "hoodie.read.input.partitions": Renamed("slots", _same, "number of tasks"),
    "hoodie.read.scan.max.memory.size": NoEffect(),
    "hoodie.read.file.group.reader.version": NoEffect(),
    "hoodie.read.listing.parallelism": NoEffect(),
    # Flink
    "read.start-commit": Refused(_FLINK_BOUND.format("after", "exclusive")),
    "read.end-commit": Refused(_FLINK_BOUND.format("upto", "inclusive")),
    "read.streaming.enabled": _only("false", advice="open a stream instead (spark.readStream)"),
    "read.streaming.check-interval": Refused("the stream's trigger sets the interval"),
    "read.streaming.skip_compaction": _only("true", advice=_SERVICES),
    "read.streaming.skip_clustering": _only("true", advice=_SERVICES),
    "read.streaming.skip_insertoverwrite": _only(
        "false", advice="Penstock always returns the rows of insert_overwrite"
    ),
    "read.tasks": Renamed("slots", _same, "number of tasks"),
    "read.commits.limit": Refused(
        "it limits by requested time and can lose commits; use Penstock's option maxCommitsPerTrigger"
    ),
    "read.splits.limit": Refused("use Penstock's option maxCommitsPerTrigger"),
    "read.utc-timezone": _only("true", advice="timestamps are UTC; convert them in the engine"),
    "read.cdc.from.changelog": _only(advice=_CDC),
    "read.source-v2.enabled": NoEffect(),
    "cdc.enabled": _only("false", advice=_CDC),
    "changelog.enabled": _only("false", advice=_CDC),
    "metadata.enabled": Renamed("metadata", _switch, "on or off"),
}
"""The rule of each foreign name, in lower case."""
