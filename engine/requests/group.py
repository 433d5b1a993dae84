"""Turns the options of a consumer into the `GroupSpec` of its group: scope, start and limits of a round."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from functools import partial
from typing import NoReturn

from penstock.engine.requests.batch import RANGES, Describe, request_of
from penstock.engine.requests.event_times import alignment_of, check_group_options, event_time_rule
from penstock.engine.requests.hybrid import changes_read, hybrid_of
from penstock.engine.requests.times import TimelineZone, range_bound
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.groups import (
    GroupScope,
    GroupSpec,
    GroupStart,
    OnLostRange,
    StartAt,
    StartLatest,
    StartSnapshot,
)
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import Changes, Incremental, Latest, RangeQuery, RoundLimits
from penstock.proto.options.registry import EntryPoint, ParsedOptions
from penstock.table.timeline.zones import named_zone


def group_spec(table: str, options: ParsedOptions, describe: Describe, *, over_tables: bool = False) -> GroupSpec:
    """The scope, the start and the round limits of the group. `over_tables`: `table` is a pattern of names.

    Without `after` a group starts before every instant. The table's description is fetched only if a time needs the
    zone of the timeline. ConfigurationError: options exclude each other.
    """
    query = _query(options)
    policy = OnLostRange(options.on_lost_range or "fail")
    hybrid = hybrid_of(options, EntryPoint.CONSUMER, policy)
    check_group_options(options)
    if policy is OnLostRange.SNAPSHOT and isinstance(query, Changes):
        raise ConfigurationError(
            "option onLostRange=snapshot returns the rows of the table, not changes: give fail or earliest with "
            "query=cdc, or query=incremental"
        )
    scope = GroupScope(
        request=replace(request_of(table, query, options, slots=0), hybrid=hybrid),
        upto=_upto(table, options, describe),
        on_lost_range=policy,
        over_tables=over_tables,
        rule=event_time_rule(table, options, None if over_tables else describe),
        idle_timeout_us=options.idle_timeout_us,
        alignment=alignment_of(options),
    )
    limits = RoundLimits(
        max_commits=options.max_commits_per_trigger,
        max_files=options.max_files_per_trigger,
        max_bytes=options.max_bytes_per_trigger,
        max_rows=options.max_rows_per_trigger,
    )
    return GroupSpec(scope=scope, start=_start(table, options, describe), limits=limits)


def spec_over_tables(pattern: str, options: ParsedOptions) -> GroupSpec:
    """The same for a group over the tables whose names match the pattern. ConfigurationError also for times that need
    the zone of a table, unless `timelineTimezone` is UTC, and for hybrid reads, whose topic is of one table."""
    if options.hybrid is not None:
        raise ConfigurationError(
            f"tables {pattern}: option hybrid is for one table, because each table has a topic of its own: consume the "
            "table by its name"
        )
    return group_spec(pattern, options, partial(no_table_of, pattern), over_tables=True)


def no_table_of(pattern: str) -> NoReturn:
    """Raises instead of describing a table."""
    raise ConfigurationError(
        f"tables {pattern}: a time cannot be converted to an instant, because each table may have a time zone of its "
        "own, also one that joins later: set the option timelineTimezone=UTC if all timelines are in UTC; give the "
        "digits of an instant, earliest or latest; or move single tables to a time, each in its zone: penstock groups "
        "reset TABLE GROUP --to TIME"
    )


def group_start(option: str, text: str, table: str, timezone: str | None, describe: Describe) -> GroupStart:
    """The start that `text` names: snapshot, earliest, latest, the digits of an instant or an ISO time."""
    if text.strip() == "snapshot":
        return StartSnapshot()
    bound = _bound(option, text, table, timezone, describe)
    return StartLatest() if isinstance(bound, Latest) else StartAt(bound)


def _bound(option: str, text: str, table: str, timezone: str | None, describe: Describe) -> Position | Latest:
    if timezone is not None and named_zone(timezone) is UTC:
        return range_bound(option, text, lambda word: UTC)  # then every table's timeline is in UTC, declared or not
    zone = TimelineZone
    return range_bound(option, text, lambda word: zone(table, describe().timeline_timezone, timezone).required(word))


def _query(options: ParsedOptions) -> RangeQuery:
    kind = options.query if "query" in options.explicit else "incremental"
    if kind not in RANGES:
        raise ConfigurationError(
            f"query={kind} cannot be consumed by a group: its rounds are ranges of instants; give query=incremental "
            "(rows) or query=cdc (their changes), or read a batch"
        )
    changes = changes_read(options)
    return Incremental() if changes is None else Changes(changes)


def _start(table: str, options: ParsedOptions, describe: Describe) -> GroupStart:
    if options.after is None:
        return StartAt()
    return group_start("after", options.after, table, options.timeline_timezone, describe)


def _upto(table: str, options: ParsedOptions, describe: Describe) -> Position | None:
    if options.upto is None:
        return None
    bound = _bound("upto", options.upto, table, options.timeline_timezone, describe)
    if isinstance(bound, Latest):
        raise ConfigurationError(
            "option upto=latest would change at each join: give an order key, or leave upto out and stop when "
            "the group is caught up (`penstock tail --exit-at-end`)"
        )
    return bound
