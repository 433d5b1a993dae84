"""The completed writes of a table from the hand-over instant back, archived ones last and only if they are asked for.

Shell around `penstock.table`: nothing is decided here but order. Not here: what the commits say (`walk`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.enumerator.handover.lake_commits import LakeCommit
from penstock.enumerator.planning.commit_order import completed_in_order, horizon
from penstock.enumerator.planning.discovery import complete_from, pending_clusterings
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import InstantTime, Position
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.filesystem import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.instants import Instant


@dataclass(frozen=True, slots=True)
class CommitsBack:
    """The hand-over instant (requested time) and its order key, and the completed writes from it back by order key.

    `near` is what the active timeline holds without a gap, `far` the rest, read when it is first iterated. Each can be
    iterated once.
    """

    instant: str
    order_key: str
    near: Iterable[LakeCommit]
    far: Iterable[LakeCommit]


def commits_back(table: HudiTable, instant: str | None = None, *, upto: Position | None = None) -> CommitsBack:
    """From the completed write of this requested time back; without one from the newest that nothing pending precedes
    on timeline layout 1, the newest on layout 2; with `upto` the newest up to that position.

    ConfigurationError if there is no such write, or something pending on layout 1 was requested before it. Errors of
    `HudiTable`, also while iterating.
    """
    timeline = table.timeline()
    clusterings = pending_clusterings(table, timeline)
    ordered = completed_in_order(timeline, clusterings)
    whole_from = complete_from(table, timeline)
    newest = _start(table, timeline, clusterings, ordered, instant, upto)
    last = _place(timeline, newest)
    near = [
        item for item in reversed(ordered) if timeline.order_key(item) >= whole_from and _place(timeline, item) <= last
    ]

    def far() -> Iterator[LakeCommit]:
        archive = table.archive()
        rolled_back = archive.rolled_back | table.rolled_back(timeline)
        seen = {item.requested_time for item in near} | rolled_back
        for item in reversed(completed_in_order(timeline.with_archived(archive.instants), clusterings)):
            if item.requested_time in seen or _place(timeline, item) > last:
                continue
            active = timeline.completed_write(item.requested_time)
            commit = table.commit(active) if active else archive.commits[item.requested_time]
            yield _commit(timeline, item, commit, archived=active is None)

    return CommitsBack(
        str(newest.requested_time),
        str(timeline.order_key(newest)),
        (_commit(timeline, item, table.commit(item), archived=False) for item in near),
        far() if whole_from else (),
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
        known = _up_to(timeline, ordered, upto) or _up_to(
            timeline, _archived_in_order(table, timeline, clusterings), upto
        )
        if not known:
            raise ConfigurationError(f"table {name} has no completed write to hand over at")
        return known[-1]
    wanted = InstantTime(instant)
    hole = horizon(timeline, clusterings)
    if hole is not None and wanted >= hole.requested_time:
        raise ConfigurationError(
            f"table {name}: hand-over at {wanted} would pass {hole.action} {hole.requested_time}, which is "
            f"{hole.state} and may still bring rows; name an instant before it, or let the writer finish"
        )
    found = next((item for item in ordered if item.requested_time == wanted), None)
    if found is None:
        archived = _archived_in_order(table, timeline, clusterings)
        found = next((item for item in archived if item.requested_time == wanted), None)
    if found is None:
        raise ConfigurationError(
            f"table {name}: {wanted} is not the requested time of a completed write (`penstock timeline` lists them)"
        )
    return found


def _up_to(timeline: Timeline, ordered: tuple[Instant, ...], upto: Position | None) -> tuple[Instant, ...]:
    return tuple(item for item in ordered if upto is None or timeline.order_key(item) <= upto.order_key)


def _archived_in_order(table: HudiTable, timeline: Timeline, clusterings: frozenset[str]) -> tuple[Instant, ...]:
    if not table.has_archived():
        return ()
    archive = table.archive()
    whole = completed_in_order(timeline.with_archived(archive.instants), clusterings)
    return tuple(item for item in whole if item.requested_time not in archive.rolled_back)


def _place(timeline: Timeline, item: Instant) -> tuple[InstantTime, InstantTime]:
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
