"""Pages of a table's active timeline. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from penstock.proto.model.reports import TimelineInstant, TimelinePage
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Instant


def timeline_page(timeline: Timeline, timezone: str, after: str, as_of: str, max_instants: int) -> TimelinePage:
    """The instants requested after `after` and at or before `as_of` ('': no bound), by requested time.

    At most `max_instants` (0: no limit). The instants with one requested time are in one page, so that a page can begin
    after any requested time; a page has more than `max_instants` only if its first requested time has more.
    """
    times = [instant.requested_time for instant in timeline.instants]
    start = bisect_right(times, after)
    last = bisect_right(times, as_of) if as_of else len(times)
    end = last
    if max_instants and start + max_instants < last:
        first_beyond = times[start + max_instants]
        end = bisect_left(times, first_beyond)
        if end == start:
            end = bisect_right(times, first_beyond)
    return TimelinePage(
        instants=tuple(map(_listed, timeline.instants[start:end])), timeline_timezone=timezone, more=end < last
    )


def _listed(instant: Instant) -> TimelineInstant:
    return TimelineInstant(
        requested_time=instant.requested_time,
        completion_time=instant.completion_time,
        action=instant.action.value,
        state=instant.state.value,
        file=instant.file_name,
    )
