"""Turns options and a table into the `PlanRequest` of a batch read, in the same way for every entry point.

The table's description is fetched only if an option needs it: ISO times need the zone of the timeline, `after=latest`
the newest position.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from penstock.engine.requests.times import TimelineZone, ZoneFor, range_bound, requested_time
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import (
    Changes,
    Incremental,
    Latest,
    PlanRequest,
    Query,
    RangeQuery,
    ReadOptimized,
    Snapshot,
    SnapshotAsOf,
)
from penstock.proto.model.reports import TableDescription
from penstock.proto.model.splits import DeleteMarker
from penstock.proto.options.registry import ParsedOptions
from penstock.table.storage.uris import redacted_uri

RANGES: Final = ("incremental", "cdc")
"""Values of `query` that read a range of instants."""

Describe = Callable[[], TableDescription]
"""Fetches the table's description from the enumerator; called at most once, and only if an option needs it."""


def plan_request(table: str, options: ParsedOptions, describe: Describe, *, slots: int | None = None) -> PlanRequest:
    """The request of a batch read. `slots` overrides the option. ConfigurationError: options exclude each other."""
    return request_of(table, query_of(table, options, describe), options, slots=slots)


def request_of(table: str, query: Query, options: ParsedOptions, *, slots: int | None = None) -> PlanRequest:
    """The request for `query`, with the options for planning and for the returned columns and rows."""
    if "cdcFormat" in options.explicit and not isinstance(query, Changes):
        raise ConfigurationError("option cdcFormat is the format of changes: give query=cdc with it, or leave it out")
    if options.event_time_unit is not None and not options.event_time:
        raise ConfigurationError("option eventTimeUnit is the unit of the event-time column: give eventTime with it")
    completed = options.completion_time == "on"
    return PlanRequest(
        table=table,
        query=query,
        columns=options.columns,
        where=options.where,
        slots=options.slots if slots is None else slots,
        event_time=options.event_time,
        event_time_unit=options.event_time_unit or "",
        target_split_bytes=options.split_bytes,
        metadata=options.metadata == "on",
        record_index=options.record_index == "on",
        meta=options.meta == "on",
        columns_by_name=options.columns_by_name == "on",
        delete_marker=_delete_marker(options),
        skip_corrupt=options.on_corrupt == "skip",
        completion_time=completed,
        timeline_timezone=(options.timeline_timezone or "") if completed else "",
    )


def _delete_marker(options: ParsedOptions) -> DeleteMarker | None:
    if bool(options.delete_field) != bool(options.delete_marker):
        present, missing = ("deleteField", "deleteMarker") if options.delete_field else ("deleteMarker", "deleteField")
        raise ConfigurationError(
            f"option {present} without {missing}: a column marks deletes by one of its values; give both, or none"
        )
    return DeleteMarker(options.delete_field, options.delete_marker) if options.delete_field else None


def query_of(table: str, options: ParsedOptions, describe: Describe) -> Query:
    """The query that `query`, `after`, `upto` and `asOf` select. ConfigurationError: options exclude each other."""
    describe = cache(describe)
    if options.query in RANGES:
        return _range_query(options, *_range(table, options, describe))
    for name, value in (("after", options.after), ("upto", options.upto)):
        if value is not None:
            raise ConfigurationError(
                f"option {name} bounds a range of instants, but query={options.query}: add query=incremental (or cdc), "
                f"or leave {name} out"
            )
    if options.as_of is None:
        return ReadOptimized() if options.query == "read_optimized" else Snapshot()
    instant = requested_time("asOf", options.as_of, _zone(table, options, describe))
    return SnapshotAsOf(instant, base_files_only=options.query == "read_optimized")


def no_files_warning(request: PlanRequest, splits: int) -> str:
    """The warning for a read as of a time whose plan has no file, else ''. Hudi returns no rows either."""
    if splits or not isinstance(request.query, SnapshotAsOf):
        return ""
    instant = request.query.instant
    day = (
        "; a date without a time of day is its first moment, as in Hudi: give the time of day, such as 23:59:59, for "
        "the state at its end"
        if str(instant).endswith("000000000")
        else ""
    )
    return (
        f"table {redacted_uri(request.table)}: 0 rows: no commit requested at or before {instant} has a file that this "
        f"read includes{day}"
    )


def _range_query(options: ParsedOptions, after: Position, upto: Position | Latest) -> RangeQuery:
    """The query for the rows of a range, or for its changes."""
    if options.query == "cdc":
        return Changes(ChangeFormat(options.cdc_format), after, upto)
    return Incremental(after, upto)


def _range(table: str, options: ParsedOptions, describe: Describe) -> tuple[Position, Position | Latest]:
    if options.as_of is not None:
        raise ConfigurationError(
            "option asOf goes with query=snapshot or read_optimized: a range ends at upto (an order key)"
        )
    if options.after is None:
        raise ConfigurationError(
            f"query={options.query} needs the option after, where the range begins (exclusive): after=earliest for "
            "all instants that the table retains, or the last order key that was consumed"
        )
    after = range_bound("after", options.after, _zone(table, options, describe))
    upto: Position | Latest = Latest()
    if options.upto is not None:
        upto = range_bound("upto", options.upto, _zone(table, options, describe))
    if isinstance(after, Latest):
        after = describe().newest
    if isinstance(upto, Position):
        check_order(table, options, after, upto)
    return after, upto


def check_order(table: str, options: ParsedOptions, after: Position, upto: Position) -> None:
    """ConfigurationError for a range that ends before it starts."""
    if upto < after:
        raise ConfigurationError(
            f"range ({after}, {upto}] of table {redacted_uri(table)} ends before it starts: got "
            f"after={options.after} and upto={options.upto}; give an upto at or after `after`"
        )


def _zone(table: str, options: ParsedOptions, describe: Describe) -> ZoneFor:
    return lambda text: TimelineZone(table, describe().timeline_timezone, options.timeline_timezone).required(text)
