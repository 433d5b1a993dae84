"""docs/reference/options.md, from the registry of options and the translation of other projects' names."""

from __future__ import annotations

from penstock.proto.options.foreign_names import READING_PREFIXES, RULES, NoEffect, OnlyValue, Refused, Renamed, Rule
from penstock.proto.options.registry import OPTIONS, EntryPoint, Option
from reference.rendering import Page, code, described, table

HEAD = """Spark, Python, the command line and the environment have the same options. The name of an option is camelCase
in Spark, snake_case in Python and `PENSTOCK_UPPER_CASE` in the environment. On the command line it is a `--kebab-case`
flag of `penstock read`, or `--option NAME=VALUE`. `penstock splits plan` has the flags that affect a plan,
`penstock tail` those of a consumer. Spark, Python and `--option` accept any spelling in any case.

An explicit value overrides the environment, and the environment overrides the default. An unknown name is an error that
names the nearest option. No default can lose rows.

"""

TIMES = """## Times

`after` and `upto` are order keys: completion time on timeline layout 2 (table version 8 and 9), requested time on
layout 1 (version 6). A range is `(after, upto]`. `asOf` is a requested time on either layout, as `as.of.instant`.

| text | means |
|---|---|
| 14 or 17 digits | the instant itself, compared as text as Hudi does |
| `earliest`, or zeros alone | before every instant (`after`, `upto`) |
| `latest` | the newest position at planning time (`after`, `upto`) |
| `snapshot` | first a snapshot of the table, then the commits after it (`after` of a stream) |
| `2026-01-31` | that day's first millisecond |
| `2026-01-31T23:59:59`, or a blank for the T | that whole second: `upto`, `asOf` include it, `after` excludes it |
| `2026-01-31T23:59:59.123` | that millisecond; finer digits are cut off |
| the same with `Z` or `+01:00` | converted to the timeline's zone; without one, a time is in the timeline's zone |
| 10 or 13 digits (`asOf` alone) | seconds, milliseconds since 1970 UTC |

A timeline is written in UTC or in its writer's local time (`hoodie.table.timeline.timezone`). For local time, ISO times
and epochs need the option `timelineTimezone`; without it they are an error.

"""

FOREIGN_HEAD = """## Names of Hudi, Flink and hudi-rs

These names are translated, not aliased, because their bounds differ. A value without an exact translation is an error
that names Penstock's option. Penstock's option together with a translated one is also an error.

"""


def page() -> Page:
    """The page."""
    prefixes = ", ".join(code(prefix) for prefix in READING_PREFIXES)
    tail = (
        f"\nAny other name under {prefixes} is an error. Every other `hoodie.` name does not affect the rows of a "
        "read: it is accepted, and one warning names all such names.\n"
    )
    options = table(("option", "type", "default", "where", "what it does"), map(row, OPTIONS))
    foreign = table(("name", "translation"), ((code(name), fate(rule)) for name, rule in RULES.items()))
    body = HEAD + options + "\n" + TIMES + FOREIGN_HEAD + foreign + tail
    about = "every option of a read; forms of times; names of Hudi, Flink and hudi-rs"
    return Page("options", "Options", about, "proto/options/registry.py", body)


def row(option: Option) -> tuple[str, ...]:
    """The row of one option."""
    entry_points = (
        "everywhere"
        if option.entry_points == set(EntryPoint)
        else ", ".join(entry_point for entry_point in EntryPoint if entry_point in option.entry_points)
    )
    default = "none" if option.default is None else code(option.default) if option.default not in ("", ()) else "empty"
    return code(option.name), option.type.form, default, entry_points, described(f"option {option.name}", option.doc)


def fate(rule: Rule) -> str:
    """The translation of a foreign name, in words."""
    match rule:
        case Renamed(option=option, doc=doc):
            return f"`{option}`: {doc}"
        case OnlyValue(values=values, advice=advice, in_streams=in_streams):
            accepted = _values(values) + (f", of streams {_values(in_streams)}" if in_streams is not None else "")
            return f"accepted: {accepted}; else an error ({advice})" if values else f"an error: {advice}"
        case Refused(advice=advice):
            return f"an error: {advice}"
        case NoEffect():
            return "accepted with a warning: changes no row"


def _values(values: frozenset[str]) -> str:
    return ", ".join(f"`{value}`" if value else "empty" for value in sorted(values))
