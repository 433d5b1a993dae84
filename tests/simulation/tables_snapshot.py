"""The snapshots with which the tables of a simulated group start: a split of each file group, in several rounds."""

from __future__ import annotations

from dataclasses import replace

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.model.streams import SnapshotPlace, SnapshotProgress
from tests.simulation.tables_ledger import Row, Table, at, number_at

Parts = list[tuple[int, list[Row]]]


def before_snapshot(table: Table) -> Progress:
    """The progress before the snapshot of the table as it is."""
    newest = at(len(table.commits))
    splits = len(table.splits(0, len(table.commits)))
    if not splits:
        return Progress(newest)
    snapshot = SnapshotProgress(newest, SnapshotPlace(done=0, total=splits, digest="d"))
    return Progress(snapshot.position, snapshot=snapshot)


def next_of_snapshot(table: Table, snapshot: SnapshotProgress, most: int) -> tuple[Parts, Progress, EventTimeSpan]:
    """The next splits of the snapshot, at most `most`; the progress after them; the span of all that is to come."""
    upto, place = number_at(snapshot.at), snapshot.place
    parts = list(table.splits(0, upto).items())
    end = min(place.done + most, place.total)
    coming = span_after(table, upto)
    for _, rows in parts[end:]:
        coming |= table.span(rows)
    later = SnapshotProgress(snapshot.at, replace(place, done=end))
    progress = Progress(snapshot.at) if end == place.total else Progress(later.position, snapshot=later)
    return parts[place.done : end], progress, coming


def span_after(table: Table, number: int) -> EventTimeSpan:
    """The span of the commits after one."""
    span = EventTimeSpan()
    for rows in table.splits(number, len(table.commits)).values():
        span |= table.span(rows)
    return span
