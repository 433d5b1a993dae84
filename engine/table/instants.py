"""The instants of a table's timeline as values for users: `TableInstant`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

from penstock.engine.requests.times import utc_of
from penstock.table.timeline.active import Timeline


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


def instants_of(timeline: Timeline, zone: tzinfo | None) -> tuple[TableInstant, ...]:
    """The instants by requested time. `zone` is the timeline's zone, if it is known."""
    return tuple(
        TableInstant(
            requested_time=str(instant.requested_time),
            completion_time=None if instant.completion_time is None else str(instant.completion_time),
            order_key=str(timeline.order_key(instant)) if instant.is_completed else None,
            action=instant.action.value,
            state=instant.state.value,
            requested_at=_utc(instant.requested_time, zone),
            completed_at=_utc(instant.completion_time, zone),
            file=instant.file_name,
        )
        for instant in timeline.instants
    )


def _utc(instant: str | None, zone: tzinfo | None) -> datetime | None:
    return utc_of(instant, zone) if instant is not None and zone is not None else None
