"""The completed writes of a table up to the hand-over instant, newest first. Archived ones are read on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.enumerator.handover.commit_offsets import LakeCommit
from penstock.enumerator.planning.commit_order import completed_in_order, horizon
from penstock.enumerator.planning.discovery import complete_from, pending_clusterings
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import InstantTime, Position
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.instants import Instant


@dataclass(frozen=True, slots=True)
class CommitHistory:
    """The completed writes up to the hand-over instant, in descending commit order."""

    instant: str
    """The requested time of the hand-over instant."""
    order_key: str
    """Its place in commit order."""
    active: Iterable[LakeCommit]
    """The writes that the active timeline holds without a gap. Can be iterated once."""
    archived: Iterable[LakeCommit]
    """The older ones, read when the iteration begins. Can be iterated once."""


def commits_before(table: HudiTable, instant: str | None = None, *, upto: Position | None = None) -> CommitHistory:
    """The completed writes up to the one with this requested time.

    Without `instant` the newest one counts (on timeline layout 1 the newest that no pending instant precedes), with
    `upto` the newest up to that position. Raises ConfigurationError if there is no such write, or if on layout 1 a
    pending instant was requested before it; errors of `HudiTable`, also during iteration.
    """
    timeline = table.timeline()
    clusterings = pending_clusterings(table, timeline)
    ordered = completed_in_order(timeline, clusterings)
    whole_from = complete_from(table, timeline)
    newest = _start(table, timeline, clusterings, ordered, instant, upto)
    last = _commit_order(timeline, newest)
    active = [
        item
        for item in reversed(ordered)
        if timeline.order_key(item) >= whole_from and _commit_order(timeline, item) <= last
    ]

    def archived() -> Iterator[LakeCommit]:
        archive = table.archive()
        rolled_back = archive.rolled_back | table.rolled_back(timeline)
        seen = {item.requested_time for item in active} | rolled_back
        for item in reversed(completed_in_order(timeline.with_archived(archive.instants), clusterings)):
            if item.requested_time in seen or _commit_order(timeline, item) > last:
                continue
            write = timeline.completed_write(item.requested_time)
            commit = table.commit(write) if write else archive.commits[item.requested_time]
            yield _commit(timeline, item, commit, archived=write is None)

    return CommitHistory(
        str(newest.requested_time),
        str(timeline.order_key(newest)),
        (_commit(timeline, item, table.commit(item), archived=False) for item in active),
        archived() if whole_from else (),
    )


def _start(
    table: HudiTable,
    timeline: Timeline,
    clusterings: frozenset[str],
    ordered: tuple[Instant, ...],
    instant: str | None,
    upto: Position | None,
) -> Instant:
    name = redacted_uri(table.base_path)
    if instant is None:
        candidates = _up_to(timeline, ordered, upto) or _up_to(
            timeline, _archived_in_order(table, timeline, clusterings), upto
        )
        if not candidates:
            raise ConfigurationError(f"table {name} has no completed write to hand over at")
        return candidates[-1]
    requested_time = InstantTime(instant)
    pending = horizon(timeline, clusterings)
    if pending is not None and requested_time >= pending.requested_time:
        raise ConfigurationError(
            f"table {name}: hand-over at {requested_time} would pass {pending.action} {pending.requested_time}, "
            f"which is {pending.state} and may still add rows; name an earlier instant, or let the writer finish"
        )
    match = next((item for item in ordered if item.requested_time == requested_time), None)
    if match is None:
        archived = _archived_in_order(table, timeline, clusterings)
        match = next((item for item in archived if item.requested_time == requested_time), None)
    if match is None:
        raise ConfigurationError(
            f"table {name}: {requested_time} is not the requested time of a completed write "
            "(`penstock timeline` lists them)"
        )
    return match


def _up_to(timeline: Timeline, ordered: tuple[Instant, ...], upto: Position | None) -> tuple[Instant, ...]:
    return tuple(item for item in ordered if upto is None or timeline.order_key(item) <= upto.order_key)


def _archived_in_order(table: HudiTable, timeline: Timeline, clusterings: frozenset[str]) -> tuple[Instant, ...]:
    if not table.has_archived():
        return ()
    archive = table.archive()
    whole = completed_in_order(timeline.with_archived(archive.instants), clusterings)
    return tuple(item for item in whole if item.requested_time not in archive.rolled_back)


def _commit_order(timeline: Timeline, item: Instant) -> tuple[InstantTime, InstantTime]:
    return timeline.order_key(item), item.requested_time


def _commit(timeline: Timeline, item: Instant, commit: CommitMetadata, *, archived: bool) -> LakeCommit:
    return LakeCommit(
        instant=str(item.requested_time),
        order_key=str(timeline.order_key(item)),
        action=item.action.value,
        operation=commit.operation,
        is_service=commit.is_service,
        wrote_nothing=not commit.stats and not commit.replaced,
        extra=commit.extra,
        archived=archived,
    )
