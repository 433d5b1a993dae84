"""The registry of all options (name, type, default, entry points, help), and `parse_options`.

Every entry point (Spark, Arrow, consumer, command line) uses this registry; docs/reference/options.md is generated from
it. Names are camelCase in Spark and files, kebab-case as flags, snake_case in Python and PENSTOCK_* in the environment.
Each entry point accepts every spelling in any case, because Spark passes keys in lower case. An option whose default
could lose a row has no default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.options import foreign_names
from penstock.proto.options.entry import EVERYWHERE, READS, EntryPoint, Option, OptionValue
from penstock.proto.options.groups import GROUP_OPTIONS
from penstock.proto.options.kafka import BROKERS, CLIENT, KAFKA_OPTIONS, fold_client_settings, is_client_setting
from penstock.proto.options.merging import MERGE_OPTIONS
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
    Time,
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
        doc="The rows to read. `snapshot`: the table's rows. `read_optimized`: the rows of base files only. "
        "`incremental`: the rows that a range of instants wrote. `cdc`: each change that those instants "
        "made. A stream or a consumer reads ranges: `incremental` (its default) or `cdc`.",
    ),
    Option(
        name="cdcFormat",
        type=Choice(("rows", "hudi")),
        default="rows",
        entry_points=EVERYWHERE,
        doc="The format of changes with `query=cdc`. `rows`: rows of the table with `_change_type` (+I, -U, "
        "+U, -D), `_change_instant` and `_change_seq`, which order them. `hudi`: one row with `op`, "
        "`ts_ms`, `before` and `after`, as Hudi's own reader returns it.",
    ),
    Option(
        name="after",
        type=Time(),
        entry_points=EVERYWHERE,
        doc="The start of the range, exclusive: an order key, which is a completion time on timeline layout 2 "
        "and a requested time on layout 1. `earliest`: before every instant. A consumer group starts at "
        "`earliest` unless `after` is given when the group is created. Streams, whose default it is, and consumer "
        "groups accept `snapshot`: they first read the rows that the table has then, in the order of `eventTime` "
        "if it is given, and after that what is committed later.",
    ),
    Option(
        name="upto",
        type=Time(),
        entry_points=EVERYWHERE,
        doc="The end of the range, inclusive: an order key. Not given, or `latest`: the newest position when "
        "the plan is made. A stream or a consumer group ends there and does not accept `latest`; not "
        "given, it never ends.",
    ),
    Option(
        name="asOf",
        type=Time(),
        entry_points=READS,
        doc="Time travel: the snapshot, or the rows of base files, as of this *requested* time, as Hudi's "
        "`as.of.instant`.",
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
        doc="The rows to return: an SQL condition (docs/reference/semantics.md), applied after merging.",
    ),
    Option(
        name="limit",
        type=Number(0, 2**63 - 1),
        entry_points=READS,
        doc="The maximum number of rows: exact in Arrow and on the command line; in Spark it applies to each split.",
    ),
    Option(
        name="threads",
        type=Number(0, 256),
        default=0,
        entry_points=frozenset({EntryPoint.ARROW, EntryPoint.CLI}),
        doc="The number of splits that are read side by side, each in its own thread. 1: one split after the other, in "
        "the caller's thread. 0: one for each CPU, at most four; one if the read has one split, splits of local files "
        "that are smaller than 1 MiB on average, or a `limit` of at most `batchRows`. At most 32 MiB of decoded "
        "batches wait for the caller.",
    ),
    Option(
        name="ordered",
        type=OnOff(),
        default="on",
        entry_points=frozenset({EntryPoint.ARROW, EntryPoint.CLI}),
        doc="The order of rows with several `threads`. `on`: all rows of a split, then those of the next one, in the "
        "order of the plan, as with one thread. `off`: batches as they are decoded; those of one split keep their "
        "order. A split that takes long then delays no other.",
    ),
    Option(
        name="server",
        type=Address(),
        entry_points=EVERYWHERE,
        doc="The address of an enumerator's server; the table is then a name that it serves. Not given: the "
        "enumerator runs in this process. An address that is not on the loopback interface requires TLS "
        "(`serverCa`).",
    ),
    Option(
        name="serverCa",
        type=Text("file"),
        default="",
        entry_points=EVERYWHERE,
        doc="Enables TLS for calls to `server`: a PEM file of the authorities that sign the server's "
        "certificate, or `system` for those of the machine. In Spark the file must exist on the executors "
        "too.",
    ),
    Option(
        name="serverCert",
        type=Text("file"),
        default="",
        entry_points=EVERYWHERE,
        doc="The client's certificate (PEM) for `server`; requires `serverKey`.",
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
        doc="The location of the token for `server`: a file, or `env:NAME` for an environment variable; never "
        "the token itself. It is read at each call, so that a replaced token applies at once.",
    ),
    Option(
        name="retryTimeout",
        type=Duration(),
        entry_points=EVERYWHERE,
        doc="How long a call is retried, with growing delays, while storage or `server` is unavailable or "
        "overloaded. Not given: 1 minute in Spark (driver and tasks) and in consumers; elsewhere only the "
        "few attempts that a client makes within seconds.",
    ),
    Option(
        name="slots",
        type=Number(0, 100_000),
        default=0,
        entry_points=frozenset({EntryPoint.BATCH, EntryPoint.STREAM}),
        doc="The number of tasks that pull splits; 0: the planner chooses.",
    ),
    Option(
        name="splitBytes",
        type=Number(1, 2**63 - 1),
        default=128 << 20,
        entry_points=EVERYWHERE,
        doc="A base file without logs that is larger than this is divided into runs of row groups, one split "
        "each. Footers of smaller files are not read for that. A stream keeps its value while it reads "
        "its first snapshot.",
    ),
    Option(
        name="eventTime",
        type=Text("column"),
        default="",
        entry_points=EVERYWHERE,
        doc="The event-time column: each split carries the lowest and highest value of this column. In Spark "
        "the rows then have the columns `_penstock_watermark` and `_penstock_marker` "
        "(`with_source_watermark`).",
    ),
    Option(
        name="metadata",
        type=OnOff(),
        default="on",
        entry_points=EVERYWHERE,
        doc="Whether planning uses the listings and statistics of the table's metadata table where that is "
        "valid; `off`: it lists folders. The rows are the same.",
    ),
    Option(
        name="recordIndex",
        type=OnOff(),
        default="off",
        entry_points=READS,
        doc="`on`: filters by record key use the record index of the metadata table. Set it only for a table in which "
        "no key is twice, also in two partitions: of a key the index names one row, and a filter returns no other.",
    ),
    Option(
        name="meta",
        type=OnOff(),
        default="on",
        entry_points=frozenset({EntryPoint.ARROW, EntryPoint.CLI, EntryPoint.CONSUMER}),
        doc="Whether Hudi's meta columns (`_hoodie_commit_time` to `_hoodie_file_name`, `_hoodie_operation`) are "
        "returned if `columns` is empty; `off`: they are left out. `where` may name them in any case.",
    ),
    Option(
        name="columnsByName",
        type=OnOff(),
        default="off",
        entry_points=EVERYWHERE,
        doc="How columns of older files are found on a table with a schema-on-read history. `off`: by the ids "
        "in the history. `on`: by name, which is Hudi's default; a renamed column is then null in older "
        "files, and a new column with an old name shows the old column's values.",
    ),
    Option(
        name="completionTime",
        type=OnOff(),
        default="off",
        entry_points=EVERYWHERE,
        doc="Whether the columns include `_completion_time` (timestamp, UTC; whole milliseconds, as Hudi records "
        "them), after all others: when the commit in `_hoodie_commit_time` completed; of a change, its own commit. "
        "Null on timeline layout 1, for a commit that neither the active timeline nor the history of timeline layout "
        "2 holds, and for records of a topic. `columns` and `where` may name it.",
    ),
    Option(
        name="nativeParquet",
        type=OnOff(),
        default="on",
        entry_points=frozenset({EntryPoint.BATCH}),
        doc="Whether `penstock.spark.table` and `penstock.spark.sql` read base files without logs by Spark's own "
        "Parquet reader, where it returns the same rows; `off`: Penstock reads every file. "
        '`spark.read.format("penstock")` never uses it.',
    ),
    Option(
        name="timelineTimezone",
        type=Text("time zone"),
        entry_points=EVERYWHERE,
        doc="The writer's time zone (such as `Europe/Berlin`) of a table whose timeline is LOCAL, which is "
        "needed to convert ISO times and epochs, and for `completionTime`. A table whose timeline is UTC does "
        "not need it.",
    ),
    *MERGE_OPTIONS,
    Option(
        name="batchRows",
        type=Number(1, 2**20),
        default=32_768,
        entry_points=EVERYWHERE,
        doc="The maximum number of rows of a record batch.",
    ),
    Option(
        name="onCorrupt",
        type=Choice(("error", "skip")),
        entry_points=EVERYWHERE,
        doc="What happens when rows of a completed instant are lost, because a log file is damaged or "
        "missing. Not given, or `error`: the read fails and names what is lost. `skip`: the read continues "
        "without those rows, as Hudi does, and counts and logs what it skipped. The leftover of a failed "
        "append is always skipped, because it holds no committed rows.",
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
    """The caller's options, checked and typed. Precedence: `given`, `environment`, `file`, default.

    `file` maps an option's name to (location in the file, value). Options of the environment and the file that do not
    apply at this entry point are ignored. A value of None counts as not given. Names of Hudi, Flink and hudi-rs are
    translated.

    ConfigurationError: an unknown name (with the most similar known one), an invalid value, an option given twice (also
    by its own and a translated name), an option that does not apply at this entry point. UnsupportedFeature: a value
    that Penstock does not support.
    """
    values: dict[str, object] = {}
    origin: dict[str, str] = {}
    unused: list[str] = []
    implied: tuple[str, str] | None = None
    for name, value in fold_client_settings(given).items():
        if value is None:
            continue
        match _meaning(name, value, entry_point):
            case foreign_names.OurOption(option=target, value=translated, query=query):
                if target in origin:
                    raise _given_twice(target, origin[target], name)
                values[target], origin[target] = translated, name
                implied = implied if query is None else (query, name)
            case foreign_names.NotUsed():
                unused.append(name)
            case foreign_names.Accepted():
                pass
    if implied is not None and "query" not in origin:
        values["query"], origin["query"] = implied
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
    """The option with this name, in any spelling and case; None if Penstock has no such option."""
    return _BY_SPELLING.get(CLIENT if is_client_setting(name) else plain_spelling(name))


def _meaning(name: str, value: object, entry_point: EntryPoint) -> foreign_names.Translation:
    option = option_named(name)
    if option is not None:
        return foreign_names.OurOption(option.name, value)
    translated = foreign_names.translate(name, value, entry_point)
    if translated is not None:
        return translated
    known = [*(ours.name for ours in OPTIONS), BROKERS, *foreign_names.RULES]
    suggestion = nearest(name, known) or f": expected one of {', '.join(ours.name for ours in OPTIONS)}"
    raise ConfigurationError(f"unknown option {name[:80]!r}{suggestion}")


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
    warnings: list[str] = []
    for name in sorted(environment):
        if name.startswith("PENSTOCK_") and name not in known:
            import difflib  # late: for error texts

            close = difflib.get_close_matches(name, known, n=1, cutoff=0.9)
            warnings += [f"environment variable {name} is not read: did you mean {close[0]}?"] if close else []
    return warnings


_BY_SPELLING: Final = {plain_spelling(name): option for option in OPTIONS for name in (option.name, option.python_name)}
if {option.field for option in OPTIONS} != {field.name for field in fields(ParsedOptions)} - {"explicit", "warnings"}:
    raise InvariantViolation("options and fields of ParsedOptions differ")
