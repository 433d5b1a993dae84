"""Times of new instants. Pure.

Source: Hudi `HoodieInstantTimeGenerator`. An instant is the wall clock in the timeline's zone, in milliseconds, and
later than every instant of the timeline.
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import Final

from penstock.proto.errors import TableError
from penstock.proto.model.positions import InstantTime
from penstock.table.timeline.active import Timeline

_DIGITS: Final = 17
_LAST_MILLISECOND: Final = "999"
_FORM: Final = "%Y%m%d%H%M%S%f"
MAX_AHEAD: Final = timedelta(minutes=2)
"""The newest instant may be so far ahead of this machine's clock."""


def newest_time(timeline: Timeline) -> str:
    """The latest requested or completion time of the timeline's instants in any state; '' for an empty timeline."""
    times = [item.requested_time for item in timeline.instants]
    times += [item.completion_time for item in timeline.instants if item.completion_time]
    return max((time.ljust(_DIGITS, "9") for time in times), default="")


def next_time(now: datetime, zone: tzinfo, newest: str, table: str) -> InstantTime:
    """The time of a new instant: now in the zone of the timeline, but later than `newest`.

    `now` is aware of its zone. TableError if `newest` is ahead of the clock by more than MAX_AHEAD: then the clocks
    of two writers differ, or the zones in which they write instants.
    """
    local = now.astimezone(zone).replace(tzinfo=None)
    text = _text(local)
    if text > newest:
        return InstantTime(text)
    latest = _moment(newest, table)
    if latest - local > MAX_AHEAD:
        raise TableError(
            f"table {table}: its newest instant {newest} is {latest - local} ahead of this machine's clock in the "
            f"timeline's zone ({text}): the clock of a writer is wrong, or a writer used another time zone; an instant "
            "of another zone would hide rows, so nothing was written"
        )
    return InstantTime(_text(latest + timedelta(milliseconds=1)))


def _text(moment: datetime) -> str:
    return moment.strftime(_FORM)[:_DIGITS]


def _moment(text: str, table: str) -> datetime:
    try:
        whole = text[:14]
        parsed = datetime.strptime(f"{whole}{text[14:] or _LAST_MILLISECOND}000+0000", f"{_FORM}%z")
        return parsed.replace(tzinfo=None)
    except ValueError:
        raise TableError(f"table {table}: its newest instant {text[:40]!r} is no time; nothing was written") from None
