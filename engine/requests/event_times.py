"""Turns the options of event times into the rule of a watermark, for streams and consumer groups."""

from __future__ import annotations

from typing import Final

from penstock.engine.requests.batch import Describe
from penstock.proto.errors import ConfigurationError, TableNotFound
from penstock.proto.model.names import checked_name
from penstock.proto.model.streams import Alignment, EventTimeRule, WatermarkFallback
from penstock.proto.options.registry import ParsedOptions
from penstock.table.storage.uris import redacted_uri

_NEED_EVENT_TIME: Final = {
    "maxOutOfOrderness": "limits how late the event time of a row may be",
    "idleTimeout": "advances the watermark of event times",
    "watermarkFallback": "is the source of event-time bounds",
    "endWatermark": "sets the final watermark of event times",
    "eventTimeUnit": "is the unit of the event-time column",
    "alignWith": "aligns the event times of streams and groups",
}
"""Options that need `eventTime`, with their effect for the error text."""
_NEED_LATENESS: Final = ("idleTimeout", "watermarkFallback", "alignWith")


def check_event_time_options(options: ParsedOptions) -> None:
    """ConfigurationError for options of event times that do not fit each other, in a stream or a group."""
    if not options.event_time:
        for name, meaning in _NEED_EVENT_TIME.items():
            if name in options.explicit:
                raise ConfigurationError(f"option {name} {meaning}: give eventTime (a column) with it, or leave it out")
        return
    if options.query == "cdc" and options.cdc_format == "hudi":
        raise ConfigurationError(
            f"option eventTime={options.event_time[:80]} with cdcFormat=hudi: the column is inside the JSON text of "
            "`before` and `after`, so that its bounds are unknown; use cdcFormat=rows"
        )
    if options.idle_timeout_us == 0:
        raise ConfigurationError("option idleTimeout: got 0, expected more than 0; leave it out for none")


def check_group_options(options: ParsedOptions) -> None:
    """The same for a consumer group. Without maxOutOfOrderness a group has no watermark, and nothing may need one."""
    check_alignment(options)
    named = [name for name in (*_NEED_LATENESS, "maxOutOfOrderness") if name in options.explicit]
    if not named:
        return
    check_event_time_options(options)
    if options.max_out_of_orderness_us is None:
        raise ConfigurationError(
            f"option {named[0]} {_NEED_EVENT_TIME[named[0]]}: give maxOutOfOrderness with it, such as 10 minutes: how "
            "late a row may be. It has no default"
        )


def check_alignment(options: ParsedOptions) -> None:
    """ConfigurationError for options of alignment that do not fit each other."""
    if not options.align_with:
        if "maxDrift" in options.explicit:
            raise ConfigurationError(
                "option maxDrift is for aligned streams and groups: give alignWith with it, or leave it out"
            )
        return
    checked_name("option alignWith", options.align_with)
    if not options.max_drift_us:
        raise ConfigurationError(
            "option alignWith needs maxDrift, such as 10 minutes, more than 0: how far above the lowest watermark of "
            "the set the stream or group may read"
        )
    if options.server is None:
        raise ConfigurationError(
            "option alignWith needs server: the streams and groups of a set meet at the server; without one, each is "
            "planned in a process of its own"
        )


def alignment_of(options: ParsedOptions) -> Alignment | None:
    """The membership in an alignment set; None without `alignWith`."""
    if not options.align_with or options.max_drift_us is None:
        return None
    return Alignment(set=options.align_with, max_drift_us=options.max_drift_us, idle_timeout_us=options.idle_timeout_us)


def event_time_rule(table: str, options: ParsedOptions, describe: Describe | None) -> EventTimeRule | None:
    """The rule; None without `eventTime` or `maxOutOfOrderness`. The table's description is fetched only if the
    completion times of commits are needed; without `describe` the server checks each table. ConfigurationError: they
    are unknown."""
    if not options.event_time or options.max_out_of_orderness_us is None:
        return None
    fallback = WatermarkFallback(options.watermark_fallback)
    if fallback is WatermarkFallback.COMMIT_TIME and options.timeline_timezone is None and describe is not None:
        try:
            declared = describe().timeline_timezone
        except TableNotFound:
            # A stream may start before its table exists. If the table is LOCAL, its bounds are unknown.
            declared = "UTC"
        if declared.upper() != "UTC":
            raise ConfigurationError(
                f"option watermarkFallback=commitTime: the timeline of table {redacted_uri(table)} is written in its "
                "writer's local time (hoodie.table.timeline.timezone=LOCAL), so that commit times in UTC are unknown; "
                "set the option timelineTimezone to the writer's zone, such as Europe/Berlin, or use scan or hold"
            )
    return EventTimeRule(
        max_out_of_orderness_us=options.max_out_of_orderness_us,
        fallback=fallback,
        timezone=options.timeline_timezone or "",
    )
