"""The one registry of options: name, type, default, where it applies, what it does; and the parse of what was given.

Every door (Spark batch and stream, Arrow, command line) takes its options from here, docs/reference/options.md is made
from here. Belongs here: a new option, or a new kind of value. Not here: Hudi's and Flink's own names
(`option_translation`), what an option means for a table (`penstock.engine.requests.batch`). Standard library only,
no I/O: the environment is passed in.

A name is camelCase in Spark and files, kebab-case as a flag, snake_case in Python, PENSTOCK_* in the environment; each
door takes every spelling, in any case (Spark hands over lower-case keys). An option whose default could lose a row has
no default.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.options import foreign_names
from penstock.proto.options.entry import EVERYWHERE, READS, EntryPoint, Option, OptionValue
from penstock.proto.options.groups import GROUP_OPTIONS
from penstock.proto.options.kafka import BROKERS, CLIENT, KAFKA_OPTIONS, folded, is_client_setting
from penstock.proto.options.parsed import ParsedOptions
from penstock.proto.options.streams import STREAM_OPTIONS
from penstock.proto.options.types import (
    Address,
    Choice,
    Duration,
    Names,
    Number,
    OnOff,
    Text,
    nearest,
    plain_spelling,
)

__all__ = [
    "EVERYWHERE",
    "OPTIONS",
    "READS",
    "EntryPoint",
    "Option",
    "OptionValue",
    "ParsedOptions",
    "option_named",
    "parse_options",
]

OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        name="query",
        type=Choice(("snapshot", "read_optimized", "incremental", "cdc")),
        default="snapshot",
        entry_points=EVERYWHERE,
        doc="What is read: the table's rows, those of its base files alone, the rows that a range of instants wrote, "
        "or each change that they made (a stream or a consumer always reads ranges: rows, or with `cdc` changes).",
    ),
    Option(
        name="cdcFormat",
        type=Choice(("rows", "hudi")),
        default="rows",
        entry_points=EVERYWHERE,
        doc="With `query=cdc`, what a change is. `rows`: rows of the table with `_change_type` (+I, -U, +U, -D), "
        "`_change_instant` and `_change_seq`, by which they are in order. `hudi`: one row with `op`, `ts_ms`, `before` "
        "and `after`, as Hudi's own reader returns it.",
    ),
    Option(
        name="after",
        type=Text("time"),
        entry_points=EVERYWHERE,
        doc="The range begins behind this order key (exclusive): completion time on timeline layout 2, requested time "
        "on layout 1. `earliest`: before every instant; a consumer group without `after` starts there, and it counts "
        "when the group is made. Streams alone take `snapshot`, where they start without `after`: first the rows of "
        "the table as it is then, in the order of their event times, then what is committed after it.",
    ),
    Option(
        name="upto",
        type=Text("time"),
        entry_points=EVERYWHERE,
        doc="The range ends with this order key (inclusive). Not given, or `latest`: the newest position when the plan "
        "is made. A stream or a consumer group ends there (and takes no `latest`); not given: never.",
    ),
    Option(
        name="asOf",
        type=Text("time"),
        entry_points=READS,
        doc="Time travel: the snapshot as of this *requested* time, as Hudi's `as.of.instant`.",
    ),
    Option(
        name="columns",
        type=Names(),
        default=(),
        entry_points=EVERYWHERE,
        doc="The columns to return, in this order; empty: every column. Names resolve by Spark's case rule.",
    ),
    Option(
        name="where",
        type=Text("predicate"),
        default="",
        entry_points=EVERYWHERE,
        doc="Rows to keep: a condition as in SQL (docs/reference/semantics.md), applied after merging.",
    ),
    Option(
        name="limit",
        type=Number(0, 2**63 - 1),
        entry_points=READS,
        doc="At most so many rows: exact in Arrow and on the command line; in Spark each split stops after so many.",
    ),
    Option(
        name="server",
        type=Address(),
        entry_points=EVERYWHERE,
        doc="The enumerator to ask; the table is then a name that it serves. Not given: the enumerator runs in this "
        "process. Off the loopback interface it is reached over TLS alone (`serverCa`).",
    ),
    Option(
        name="serverCa",
        type=Text("file"),
        default="",
        entry_points=EVERYWHERE,
        doc="Calls to `server` go over TLS; this PEM file holds the authorities that may sign it, `system` takes those "
        "of the machine. In Spark the file must exist on the executors too.",
    ),
    Option(
        name="serverCert",
        type=Text("file"),
        default="",
        entry_points=EVERYWHERE,
        doc="The certificate (PEM) by which the client shows itself to `server`; with `serverKey`.",
    ),
    Option(
        name="serverKey",
        type=Text("file"),
        default="",
        entry_points=EVERYWHERE,
        doc="The private key (PEM) of `serverCert`.",
    ),
    Option(
        name="serverToken",
        type=Text("file"),
        default="",
        entry_points=EVERYWHERE,
        doc="Where the token for `server` is: a file, or `env:NAME`, an environment variable; never the token itself. "
        "It is read at each call, so a replaced one counts at once.",
    ),
    Option(
        name="retryTimeout",
        type=Duration(),
        entry_points=EVERYWHERE,
        doc="How long a call is repeated, with growing delays, while storage or `server` does not answer or is "
        "overloaded. Not given: 1 minute in Spark (driver and tasks) and in consumers; elsewhere the few attempts "
        "that a client makes within seconds.",
    ),
    Option(
        name="slots",
        type=Number(0, 100_000),
        default=0,
        entry_points=frozenset({EntryPoint.BATCH, EntryPoint.STREAM}),
        doc="Number of tasks that pull splits; 0: the planner chooses.",
    ),
    Option(
        name="splitBytes",
        type=Number(1, 2**63 - 1),
        default=128 << 20,
        entry_points=EVERYWHERE,
        doc="A base file without logs above this size is cut into runs of row groups, each a split. Footers of smaller "
        "files are not read for that. A stream keeps its value while it reads the snapshot it began with.",
    ),
    Option(
        name="eventTime",
        type=Text("column"),
        default="",
        entry_points=EVERYWHERE,
        doc="The column whose lowest and highest value each split carries as its event-time bounds. In Spark the rows "
        "have the columns `_penstock_watermark` and `_penstock_marker` then (`with_source_watermark`).",
    ),
    Option(
        name="metadata",
        type=OnOff(),
        default="on",
        entry_points=EVERYWHERE,
        doc="Whether planning takes listings and statistics from the table's metadata table where that is valid; "
        "`off`: folders are listed. The rows are the same.",
    ),
    Option(
        name="columnsByName",
        type=OnOff(),
        default="off",
        entry_points=EVERYWHERE,
        doc="On a table with a schema-on-read history, columns of older files are found by the ids that the history "
        "gives them. `on`: by name, as Hudi does unless it is told otherwise; what a renamed column held is then null, "
        "and a new column of an old name shows the old one's values.",
    ),
    Option(
        name="timelineTimezone",
        type=Text("time zone"),
        entry_points=EVERYWHERE,
        doc="The writer's time zone (such as `Europe/Berlin`) of a table whose timeline is LOCAL: needed to convert "
        "ISO times and epochs. A table whose timeline is UTC does not need it.",
    ),
    Option(
        name="deleteField",
        type=Text("column"),
        default="",
        entry_points=EVERYWHERE,
        doc="With `deleteMarker`: log records whose value in this column is the marker are deletes. What the table's "
        "own properties say goes first.",
    ),
    Option(
        name="deleteMarker",
        type=Text("value"),
        default="",
        entry_points=EVERYWHERE,
        doc="The value of `deleteField` that marks a delete.",
    ),
    Option(
        name="batchRows",
        type=Number(1, 2**20),
        default=32_768,
        entry_points=EVERYWHERE,
        doc="Rows of a record batch, at most.",
    ),
    Option(
        name="onCorrupt",
        type=Choice(("error", "skip")),
        entry_points=EVERYWHERE,
        doc="What becomes of a read when rows of a completed instant are lost, in a damaged stretch of a log file or "
        "with a log file that is gone. Not given, or `error`: it fails and says what is lost. `skip`: it goes on "
        "without those rows, as Hudi does; what was skipped is counted and logged. What a failed append left behind "
        "is always skipped, for nothing is lost by it.",
    ),
    *STREAM_OPTIONS,
    *GROUP_OPTIONS,
    *KAFKA_OPTIONS,
)


def parse_options(
    given: Mapping[str, object],
    *,
    entry_point: EntryPoint,
    environment: Mapping[str, str] | None = None,
    file: Mapping[str, tuple[str, object]] | None = None,
) -> ParsedOptions:
    """What a caller gave, checked and typed: explicit before environment before file before default. `file` is (where
    it stands, value) by option name; as of the environment, what does not apply at this door is left out.

    A value of None counts as not given. Hudi's, Flink's and hudi-rs's names are translated. ConfigurationError: an
    unknown name (the nearest is offered), a bad value, one option given twice (also once by ours and once by a
    translated name), an option that does not apply at this door. UnsupportedFeature: a value that Penstock does not
    read (yet).
    """
    values: dict[str, object] = {}
    origin: dict[str, str] = {}
    unused: list[str] = []
    for name, value in folded(given).items():
        if value is None:
            continue
        match _meaning(name, value):
            case foreign_names.OurOption(option=target, value=translated):
                if target in origin:
                    raise _given_twice(target, origin[target], name)
                values[target], origin[target] = translated, name
            case foreign_names.NotUsed():
                unused.append(name)
            case foreign_names.Accepted():
                pass
    _refuse_elsewhere(origin, entry_point)
    for option, value in _from_environment(environment or {}):
        if option.name not in origin and entry_point in option.entry_points:
            values[option.name], origin[option.name] = value, option.environment_name
    for option in OPTIONS:
        if option.name in (file or {}) and option.name not in origin and entry_point in option.entry_points:
            origin[option.name], values[option.name] = (file or {})[option.name]
    parsed = {
        option.field: option.type.parse(origin[option.name], values[option.name])
        for option in OPTIONS
        if option.name in values
    }
    warnings = [f"not used by Penstock's readers: {', '.join(sorted(unused))}"] if unused else []
    warnings += _misspelt(environment or {})
    return ParsedOptions(explicit=frozenset(origin), warnings=tuple(warnings), **parsed)  # type: ignore[arg-type]


def option_named(name: str) -> Option | None:
    """The option of this name in any spelling and case, None if it is not ours."""
    return _BY_SPELLING.get(CLIENT if is_client_setting(name) else plain_spelling(name))


def _meaning(name: str, value: object) -> foreign_names.Translation:
    option = option_named(name)
    if option is not None:
        return foreign_names.OurOption(option.name, value)
    translated = foreign_names.translate(name, value)
    if translated is not None:
        return translated
    known = [*(ours.name for ours in OPTIONS), BROKERS, *foreign_names.RULES]
    near = nearest(name, known) or f": expected one of {', '.join(ours.name for ours in OPTIONS)}"
    raise ConfigurationError(f"unknown option {name[:80]!r}{near}")


def _given_twice(target: str, first: str, second: str) -> ConfigurationError:
    ours = [name for name in (first, second) if option_named(name) is not None]
    advice = "" if len(ours) == 2 else f", best {ours[0] if ours else target}"
    return ConfigurationError(f"options {first} and {second} both set {target}: give one of them{advice}")


def _refuse_elsewhere(origin: Mapping[str, str], entry_point: EntryPoint) -> None:
    for option in OPTIONS:
        if option.name in origin and entry_point not in option.entry_points:
            raise ConfigurationError(
                f"option {origin[option.name]} does not apply here ({entry_point.value}): {option.name} is for "
                f"{', '.join(sorted(option.entry_points))}"
            )


def _from_environment(environment: Mapping[str, str]) -> list[tuple[Option, str]]:
    return [
        (option, environment[option.environment_name]) for option in OPTIONS if option.environment_name in environment
    ]


def _misspelt(environment: Mapping[str, str]) -> list[str]:
    known = {option.environment_name for option in OPTIONS}
    found: list[str] = []
    for name in sorted(environment):
        if name.startswith("PENSTOCK_") and name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.9)
            found += [f"environment variable {name} is not read: did you mean {close[0]}?"] if close else []
    return found


_BY_SPELLING: Final = {plain_spelling(name): option for option in OPTIONS for name in (option.name, option.python_name)}
if {option.field for option in OPTIONS} != {field.name for field in fields(ParsedOptions)} - {"explicit", "warnings"}:
    raise InvariantViolation("options and fields of ParsedOptions differ")
