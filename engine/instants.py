"""The instants of a table's timeline as values for users: `TableInstant`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from typing import Final

from penstock.engine.requests.times import TimelineZone, requested_time, utc_of
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.reports import TimelineInstant, TimelinePage
from penstock.proto.options.registry import ParsedOptions
from penstock.proto.retry import Retry
from penstock.table.storage.uris import redacted_uri

MAX_INSTANTS: Final = 2_000_000
"""Instants that are accepted from an enumerator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInstant:
    """An instant of the active timeline, in its latest state."""

    requested_time: str
    """The digits by which the writer requested the instant; they identify it."""
    completion_time: str | None
    """The digits of its completion; None if it is pending, and on timeline layout 1."""
    order_key: str | None
    """Its place in the order of commits, for `after` and `upto`; None if it is pending."""
    action: str
    """Hudi's name of the action, such as `deltacommit`."""
    state: str
    """`requested`, `inflight` or `completed`."""
    requested_at: datetime | None
    """The requested time in UTC; None if the timeline's zone is unknown (option `timeline_timezone`)."""
    completed_at: datetime | None
    """The completion time in UTC; None without one, or if the zone is unknown."""
    file: str
    """The name of the instant's file in the timeline's folder."""


def list_instants(enumerator: Enumerator, table: str, options: ParsedOptions, retry: Retry) -> tuple[TableInstant, ...]:
    """The active instants of the table by requested time; of `options.as_of`, those requested at or before that time.

    They are requested in pages, each of which has the instants at its time. Errors: those of the enumerator;
    ConfigurationError if `as_of` needs a zone that is unknown, or for a list without an end.
    """

    def page(after: str, as_of: str, max_instants: int = 0) -> TimelinePage:
        return retry.call(partial(enumerator.list_instants, table, after=after, as_of=as_of, max_instants=max_instants))

    def zone_now(text: str) -> tzinfo:
        return zone_of(page("", "", 1)).required(text)

    def zone_of(read: TimelinePage) -> TimelineZone:
        return TimelineZone(table, read.timeline_timezone, options.timeline_timezone)

    as_of = "" if options.as_of is None else str(requested_time("asOf", options.as_of, zone_now))
    read = page("", as_of)
    zone = zone_of(read).known()
    instants = list(read.instants)
    while read.more:
        if len(instants) > MAX_INSTANTS:
            raise ConfigurationError(f"timeline of table {redacted_uri(table)}: more than {MAX_INSTANTS:,} instants")
        read = page(instants[-1].requested_time, as_of)
        instants += read.instants
    return tuple(_in_zone(instant, zone) for instant in instants)


def _in_zone(instant: TimelineInstant, zone: tzinfo | None) -> TableInstant:
    return TableInstant(
        requested_time=str(instant.requested_time),
        completion_time=None if instant.completion_time is None else str(instant.completion_time),
        order_key=None if instant.order_key is None else str(instant.order_key),
        action=instant.action,
        state=instant.state,
        requested_at=_utc(instant.requested_time, zone),
        completed_at=_utc(instant.completion_time, zone),
        file=instant.file,
    )


def _utc(instant: str | None, zone: tzinfo | None) -> datetime | None:
    return utc_of(instant, zone) if instant is not None and zone is not None else None
