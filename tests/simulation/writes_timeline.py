"""The timeline of a table in the world of writes: what was begun, completed and rolled back, in order."""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.checkers import fail


class Change(NamedTuple):
    """A change of the timeline."""

    kind: str
    """`begin`, `complete` or `roll back`."""
    instant: int
    """The instant."""
    write: int
    """The number of its write."""


Timeline = tuple[Change, ...]


def begin(timeline: Timeline, write: int, instant: int) -> Timeline:
    """With an instant of the write."""
    return (*timeline, Change("begin", instant, write))


def newest(timeline: Timeline) -> int:
    """The newest instant."""
    return max((change.instant for change in timeline), default=0)


def status(timeline: Timeline, instant: int) -> str:
    """`begin` while it is pending, else how it ended; '' if there is no such instant."""
    return next((change.kind for change in reversed(timeline) if change.instant == instant), "")


def completed(timeline: Timeline, write: int, instant: int) -> Timeline:
    """With the instant completed."""
    if status(timeline, instant) != "begin":
        fail("completed once", f"instant {instant} of write {write} completes, and it is {status(timeline, instant)!r}")
    return (*timeline, Change("complete", instant, write))


def rolled_back(timeline: Timeline, write: int, instant: int) -> Timeline:
    """With the instant rolled back; unchanged if it was before."""
    if status(timeline, instant) == "complete":
        fail("acknowledged", f"instant {instant} of write {write} is complete, and is rolled back")
    return timeline if status(timeline, instant) == "roll back" else (*timeline, Change("roll back", instant, write))


def pending(timeline: Timeline) -> tuple[Change, ...]:
    """The begins of the instants that have not ended."""
    return tuple(each for each in timeline if each.kind == "begin" and status(timeline, each.instant) == "begin")


def check_no_lost_update(timeline: Timeline, groups: tuple[frozenset[str], ...]) -> None:
    """Of two completed writes that changed one file group, one began after the other was complete. `groups` are those
    of each write."""
    begun = {each.instant: place for place, each in enumerate(timeline) if each.kind == "begin"}
    ends = [(place, each) for place, each in enumerate(timeline) if each.kind == "complete"]
    for place, first in ends:
        for other, second in ends:
            if place < other and begun[second.instant] < place and groups[first.write] & groups[second.write]:
                fail(
                    "lost update",
                    f"write {second.write} began before write {first.write} was complete, and both changed "
                    f"{sorted(groups[first.write] & groups[second.write])}",
                )
