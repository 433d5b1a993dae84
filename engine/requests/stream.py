"""Options of a stream whose caller keeps the place, turned into what it reads, how far a batch goes, where it starts.

Belongs here: which options go together for a stream, and what they mean for a table. Not here: options of any plan
(`requests`), texts of times (`times`), consumer groups (`requests.group`), Spark's schema and columns (`spark`). Pure
but for `describe`, which asks for the table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.engine.requests.batch import RANGES, Describe, check_order, request_of
from penstock.engine.requests.hybrid import changes_read, hybrid_of
from penstock.engine.requests.times import TimelineZone, range_bound
from penstock.proto.errors import ConfigurationError, TableNotFound
from penstock.proto.model.lost_ranges import OnLostRange
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import Changes, Incremental, Latest, RangeQuery, RoundLimits
from penstock.proto.model.streams import (
    EventTimeRule,
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamScope,
    StreamStart,
    WatermarkFallback,
)
from penstock.proto.options.registry import EntryPoint, ParsedOptions
from penstock.table.storage.filesystem import redacted_uri
from penstock.table.timeline.zones import named_zone

_NEED_EVENT_TIME: Final = {
    "maxOutOfOrderness": "says how late a row's event time may be",
    "idleTimeout": "moves the watermark of event times",
    "watermarkFallback": "says what bounds event times",
    "endWatermark": "says where the watermark of event times ends",
    "eventTimeUnit": "is the unit of the event-time column",
}


def check_streamable(options: ParsedOptions) -> None:
    """ConfigurationError for a query that no stream has."""
    if "query" in options.explicit and options.query not in RANGES:
        raise ConfigurationError(
            f"query={options.query} cannot be streamed: a stream returns the rows of one range after the other "
            "(query=incremental), or their changes (query=cdc); leave query out, or read a batch"
        )


def check_stream_options(options: ParsedOptions) -> None:
    """ConfigurationError for options that no stream of any table can have together."""
    check_streamable(options)
    if "cdcFormat" in options.explicit and options.query != "cdc":
        raise ConfigurationError(
            "option cdcFormat says what changes look like: give query=cdc with it, or leave it out"
        )
    _check_event_time(options)
    hybrid_of(options, EntryPoint.STREAM, lost_range_policy(options))
    if options.timeline_timezone is not None:
        named_zone(options.timeline_timezone)
    if options.upto is not None and options.upto.strip() == "latest":
        raise ConfigurationError(
            "option upto=latest would change on every restart: give an order key; or leave upto out and use "
            "trigger(availableNow=True), which ends where the table stands when it begins"
        )


def _check_event_time(options: ParsedOptions) -> None:
    if not options.event_time:
        for name, meaning in _NEED_EVENT_TIME.items():
            if name in options.explicit:
                raise ConfigurationError(f"option {name} {meaning}: give eventTime (a column) with it, or leave it out")
        return
    if options.query == "cdc" and options.cdc_format == "hudi":
        raise ConfigurationError(
            f"option eventTime={options.event_time[:80]} with cdcFormat=hudi: the column is inside the JSON text of "
            "`before` and `after`, where nothing can be said of it; use cdcFormat=rows"
        )
    if options.max_out_of_orderness_us is None:
        raise ConfigurationError(
            "option eventTime needs maxOutOfOrderness, such as 10 minutes: how late a row may be. It has no default, "
            "for Spark drops every row that is later, and only you know what your data does"
        )
    if options.idle_timeout_us == 0:
        raise ConfigurationError("option idleTimeout: got 0, expected more than 0; leave it out for none")
    if "endWatermark" in options.explicit and options.upto is None:
        raise ConfigurationError(
            "option endWatermark says where the watermark goes when a stream ends: give upto with it, or leave it out"
        )


def lost_range_policy(options: ParsedOptions) -> OnLostRange:
    """What `onLostRange`, or Spark's `failOnDataLoss`, asks for. ConfigurationError where they disagree."""
    said = options.on_lost_range
    if options.fail_on_data_loss is not None:
        meant = "fail" if options.fail_on_data_loss else "earliest"
        if said is not None and said != meant:
            raise ConfigurationError(
                f"failOnDataLoss={str(options.fail_on_data_loss).lower()} says onLostRange={meant}, but onLostRange is "
                f"{said}: give one of them"
            )
        said = meant
    policy = OnLostRange(said or "fail")
    if policy is OnLostRange.SNAPSHOT and options.hybrid is None and options.query == "cdc":
        raise ConfigurationError(
            "option onLostRange=snapshot hands out the table's rows, which are no changes: give fail or earliest with "
            "query=cdc, or query=incremental"
        )
    return policy


def stream_scope(table: str, options: ParsedOptions, describe: Describe) -> StreamScope:
    """What the stream reads, without limits and target (`stream_limits`).

    ConfigurationError for options that exclude each other, also for this table. The table is described only if an
    option needs it.
    """
    check_stream_options(options)
    policy = lost_range_policy(options)
    request = request_of(table, _query(options), options)
    return StreamScope(
        request=replace(request, hybrid=hybrid_of(options, EntryPoint.STREAM, policy)),
        rule=_rule(table, options, describe),
        upto=_upto(table, options, describe),
        on_lost_range=policy,
        end_watermark_us=options.end_watermark_us,
    )


def stream_limits(options: ParsedOptions) -> RoundLimits:
    """How far one micro-batch may go."""
    return RoundLimits(
        max_commits=options.max_commits_per_trigger,
        max_files=options.max_files_per_trigger,
        max_bytes=options.max_bytes_per_trigger,
        max_rows=options.max_rows_per_trigger,
    )


def stream_start(table: str, options: ParsedOptions, describe: Describe) -> StreamStart:
    """Where a stream starts that has no checkpoint: `after`, else with the table as it is then.

    ConfigurationError: no time, or one after `upto`.
    """
    if options.after is None or options.after.strip() == "snapshot":
        return StartSnapshot()
    bound = _bound("after", options.after, table, options, describe)
    if isinstance(bound, Latest):
        return StartLatest()
    upto = _upto(table, options, describe)
    if upto is not None:
        check_order(table, options, bound, upto)
    return StartAfter(bound)


def _query(options: ParsedOptions) -> RangeQuery:
    changes = changes_read(options)
    return Incremental() if changes is None else Changes(changes)


def _upto(table: str, options: ParsedOptions, describe: Describe) -> Position | None:
    if options.upto is None or options.upto.strip() == "latest":
        return None
    bound = _bound("upto", options.upto, table, options, describe)
    return None if isinstance(bound, Latest) else bound


def _bound(name: str, text: str, table: str, options: ParsedOptions, describe: Describe) -> Position | Latest:
    return range_bound(
        name,
        text,
        lambda word: TimelineZone(table, describe().timeline_timezone, options.timeline_timezone).required(word),
    )


def _rule(table: str, options: ParsedOptions, describe: Describe) -> EventTimeRule | None:
    if not options.event_time or options.max_out_of_orderness_us is None:
        return None
    fallback = WatermarkFallback(options.watermark_fallback)
    if fallback is WatermarkFallback.COMMIT_TIME and options.timeline_timezone is None:
        try:
            declared = describe().timeline_timezone
        except TableNotFound:
            declared = "UTC"  # a stream may begin before its table; of one that turns out LOCAL no bound is known
        if declared.upper() != "UTC":
            raise ConfigurationError(
                f"option watermarkFallback=commitTime: the timeline of table {redacted_uri(table)} is written in its "
                "writer's local time (hoodie.table.timeline.timezone=LOCAL), so that no commit's time is known; set "
                "the option timelineTimezone to the writer's zone, such as Europe/Berlin, or use scan or hold"
            )
    return EventTimeRule(
        max_out_of_orderness_us=options.max_out_of_orderness_us,
        fallback=fallback,
        timezone=options.timeline_timezone or "",
    )
