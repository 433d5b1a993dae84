"""Which file groups a compaction rewrites, and when one is due. Pure.

Source: Hudi `BaseHoodieCompactionPlanGenerator`, `ScheduleCompactionActionExecutor`: every group with logs, unless a
pending compaction, log compaction or clustering has it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from penstock.table.files.slices import GroupId
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action, Instant
from penstock.table.timeline.services.plans import CompactionGroup
from penstock.table.timeline.services.service_plan_encoder import InputSize
from penstock.writer.index.slices import LatestSlice, TableSlices


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What a compaction would do."""

    slices: tuple[LatestSlice, ...]
    """The slices that it rewrites, by partition and file id."""
    left_out: frozenset[str]
    """Partitions that have other groups with logs."""

    def groups(self) -> tuple[tuple[CompactionGroup, InputSize], ...]:
        """The groups as the plan's file has them."""
        return tuple((compaction_group(item), input_size([item])) for item in self.slices)


def plan_compaction(
    slices: TableSlices, busy: Collection[GroupId], partitions: Collection[str], most_bytes: int = 0
) -> CompactionPlan:
    """The compaction of all groups with logs in these partitions (none: all), but the `busy` ones, which a pending
    service has. With `most_bytes` only the first groups: those whose files have about this size, at least one."""
    with_logs = [item for partition in sorted(slices.by_partition) for item in slices.of(partition) if item.logs]
    chosen = [item for item in with_logs if item.group not in busy and (not partitions or item.partition in partitions)]
    if most_bytes:
        chosen = _first(chosen, most_bytes)
    others = {item.group for item in with_logs} - {item.group for item in chosen}
    return CompactionPlan(tuple(chosen), frozenset(partition for partition, _ in others))


def _first(slices: Sequence[LatestSlice], most_bytes: int) -> list[LatestSlice]:
    """The first slices up to a size of their files, at least one."""
    ends = accumulate(item.size_bytes + sum(log.size_bytes for log in item.logs) for item in slices)
    count = sum(end <= most_bytes for end in ends)
    return list(slices[: max(1, count)])


def compaction_group(item: LatestSlice) -> CompactionGroup:
    """A slice as the plan of a compaction has it."""
    return CompactionGroup(
        partition=item.partition,
        file_id=item.file_id,
        base_instant=item.key,
        base_file=item.base_name,
        logs=item.log_names,
    )


def input_size(slices: Iterable[LatestSlice]) -> InputSize:
    """The size of the files of slices."""
    items = list(slices)
    return InputSize(
        base_bytes=sum(item.size_bytes for item in items),
        log_files=sum(len(item.logs) for item in items),
        log_bytes=sum(log.size_bytes for item in items for log in item.logs),
    )


def pending_deltas(timeline: Timeline, clusterings: Collection[str]) -> tuple[Instant, ...]:
    """The pending writes of which a compaction must not be planned on layout 1: their logs may belong to a slice that
    it reads. Compactions and clusterings write none.

    clusterings: requested times of pending clusterings.
    """
    services = (Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING)
    return tuple(
        item for item in timeline.pending if item.action not in services and item.requested_time not in clusterings
    )


def deltas_since_compaction(timeline: Timeline, planned: Collection[str] = ()) -> int:
    """How many delta commits completed since the last compaction was planned, of a merge-on-read table: the last one
    that is complete (Hudi `CompactionUtils.getDeltaCommitsSinceLatestCompaction`), or `planned`, by requested times."""
    compactions = (item.requested_time for item in timeline.completed_writes if item.action is Action.COMMIT)
    last = max((*compactions, *planned), default="")
    deltas = (item for item in timeline.completed_writes if item.action is Action.DELTA_COMMIT)
    return sum((item.completion_time or item.requested_time) > last for item in deltas)
