"""The table and the parsed options of one `load()`, for a batch or a stream. Pure: the environment is passed in.

Spark lower-cases the keys, and passes the table as the option `path`. `penstock.proto.options.registry` defines the
options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql.types import StructType

from penstock.engine.requests.batch import RANGES
from penstock.engine.requests.hybrid import access_of
from penstock.engine.requests.stream import lost_range_policy
from penstock.engine.spark.task.input_partitions import SlotReading
from penstock.engine.spark.watermark.columns import WATERMARK, event_time_column, table_part
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import OnLostRange
from penstock.proto.options.registry import OPTIONS, EntryPoint, ParsedOptions, option_named, parse_options

_TABLE_KEY = "path"
_TABLES_KEY = "paths"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The table and the options of a load; picklable, because it is the state of every reader."""

    table: str
    """Path or URI of the table, or its name on the server."""
    options: ParsedOptions
    """The parsed options."""


def loaded(given: Mapping[str, str], entry_point: EntryPoint, environment: Mapping[str, str]) -> Loaded:
    """Parses the options that Spark passes. ConfigurationError: no table, several, an unknown or misplaced option."""
    by_name = {name.lower(): value for name, value in given.items()}
    if _TABLES_KEY in by_name:
        raise ConfigurationError("one table per load(): got a list of paths, expected one; load each and union them")
    table = by_name.pop(_TABLE_KEY, "")
    if not table:
        raise ConfigurationError("no table: give load() its path, or with the option server its name there")
    return Loaded(table, parse_options(by_name, entry_point=entry_point, environment=environment))


_OF_SPARK: Final = frozenset({EntryPoint.BATCH, EntryPoint.STREAM})


def entry_point_at_load(given: Mapping[str, str]) -> EntryPoint:
    """The entry point whose options load() accepts. At load() Spark does not say whether a batch or a stream follows:
    STREAM if one of the options exists only for streams, else BATCH."""
    ours = [option for option in map(option_named, given) if option is not None]
    return (
        EntryPoint.STREAM
        if any(option.entry_points & _OF_SPARK == {EntryPoint.STREAM} for option in ours)
        else EntryPoint.BATCH
    )


def only_a_batch(options: ParsedOptions) -> bool:
    """Whether no stream accepts these options, so that the rules of a batch apply at load()."""
    never_streamed = {option.name for option in OPTIONS if EntryPoint.STREAM not in option.entry_points}
    return bool(options.explicit & never_streamed) or ("query" in options.explicit and options.query not in RANGES)


def only_a_stream(options: ParsedOptions) -> bool:
    """Whether no batch accepts these options, so that the rules of a stream apply at load()."""
    return any(
        option.entry_points & _OF_SPARK == {EntryPoint.STREAM} for option in OPTIONS if option.name in options.explicit
    )


def requested_columns(schema: StructType, options: ParsedOptions) -> tuple[str, ...]:
    """The columns that a reader with this schema requests. They are always named, so that a column added between load()
    and the plan does not appear. ConfigurationError if `.schema()` and the option `columns` disagree."""
    names: list[str] = schema.fieldNames()
    if not names:
        raise ConfigurationError("the schema has no columns: name at least one")
    if options.columns and [n.lower() for n in options.columns] != [n.lower() for n in names]:
        raise ConfigurationError(
            f"option columns and .schema() name different columns: {', '.join(options.columns)[:500]} and"
            f" {', '.join(names)[:500]}; give one of them"
        )
    return tuple(names)


def resolved(
    load: Loaded, schema: StructType, *, limit_rows: int | None = None, narrows: bool = False
) -> tuple[Loaded, SlotReading]:
    """The load with its columns and event-time column named as in the schema, and the settings for reading its slots.

    ConfigurationError: the schema lacks a column that the options need.
    """
    options = load.options
    table = table_part(schema, options)
    columns = requested_columns(table, options)
    event_time = event_time_column(table, options).name if options.event_time else ""
    reading = SlotReading(
        schema=table,
        limit_rows=limit_rows,
        batch_rows=options.batch_rows,
        mergers=options.mergers,
        event_time=event_time,
        watermarked=schema if WATERMARK in schema.fieldNames() and event_time else None,
        event_time_unit=options.event_time_unit,
        narrows=narrows,
        access=access_of(options),
        retry=options.retry,
        skips_lost=lost_range_policy(options) is OnLostRange.EARLIEST,
    )
    return Loaded(load.table, replace(options, columns=columns, event_time=event_time)), reading
