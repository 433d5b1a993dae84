"""Which instants an archival moves from the active timeline, and what becomes of the files of the history. Pure.

Source: Hudi `TimelineArchiverV2`, `CompactionUtils.getEarliestInstantToRetainForCompaction`, `LSMTimelineWriter`. An
instant that is older than the active timeline counts as committed. So no instant is archived while a file could become
visible, or visible again, by that: not after the earliest pending write, and no replacecommit while files of a file
group that it replaced exist. Hudi keeps replacecommits by the metadata of the last clean instead. Of a table with a
metadata table no instant is archived that its last compaction did not merge.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.archive_v2 import HistoryFile
from penstock.table.timeline.instants import Action, Instant

MERGED_FILES: Final = 10
"""Files of a layer that are merged (Hudi `hoodie.timeline.compaction.batch.size`)."""
MANIFESTS: Final = 3
"""Manifests that are kept, beside those of merges (Hudi `hoodie.timeline.manifest.retained.versions`)."""
_MERGED_BYTES: Final = 1000 << 20
"""Most bytes of the files that are merged (Hudi `hoodie.timeline.compaction.target.file.max.bytes`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePolicy:
    """How many completed writes stay on the active timeline."""

    keep_min: int = 20
    """So many stay (Hudi `hoodie.keep.min.commits`)."""
    keep_max: int = 30
    """Nothing is archived as long as there are no more (Hudi `hoodie.keep.max.commits`)."""
    delta_commits: int = 5
    """Deltacommits after which a compaction is due, by default as many as for Hudi. So many stay."""

    def __post_init__(self) -> None:
        if not 1 <= self.keep_min < self.keep_max or self.delta_commits < 1:
            raise ConfigurationError(
                f"archive: got keep_min={self.keep_min}, keep_max={self.keep_max}, delta_commits={self.delta_commits}, "
                "expected 1 <= keep_min < keep_max and delta_commits >= 1"
            )


def instants_to_archive(
    timeline: Timeline,
    policy: ArchivePolicy,
    *,
    is_merge_on_read: bool,
    not_cleaned: Collection[str],
    metadata_compaction: str | None = None,
    keep_from: str = "",
) -> tuple[Instant, ...]:
    """The completed instants to archive, by requested time: the oldest writes, and cleans and rollbacks before the last
    of these. () while a restore is pending.

    not_cleaned: requested times of the replacecommits of which a replaced file group still has files.
    metadata_compaction: requested time of the last completed compaction of the metadata table; '' if it has none yet,
    so that nothing is archived; None without a metadata table. keep_from: the requested time from which on all
    instants stay, such as the first write that a reader which holds the cleaner has not read; '' for none.
    """
    completed = timeline.completed_writes
    is_restored = any(item.action is Action.RESTORE and not item.is_completed for item in timeline.instants)
    if len(completed) <= policy.keep_max or is_restored or metadata_compaction == "":
        return ()
    limits = [keep_from, _before_pending(timeline)]
    if is_merge_on_read:
        limits.append(_for_compaction(timeline, policy.delta_commits))
    limits.append(min((item.requested_time for item in timeline.savepoints), default=""))
    limits.append(min((time for time in not_cleaned if timeline.completed_write(time)), default=""))
    if metadata_compaction is not None:
        later = (item.requested_time for item in completed if timeline.order_key(item) > metadata_compaction)
        limits.append(min(later, default=""))
    limit = min(filter(None, limits), default="")
    writes = [item for item in completed if not limit or item.requested_time < limit]
    writes = writes[: len(completed) - policy.keep_min]
    if not writes:
        return ()
    last = writes[-1].requested_time
    others = [
        item
        for item in timeline.instants
        if item.is_completed and item.action in (Action.CLEAN, Action.ROLLBACK) and item.requested_time < last
    ]
    return tuple(sorted((*writes, *others), key=lambda item: (item.requested_time, item.action)))


def _before_pending(timeline: Timeline) -> str:
    """The last completed write before the earliest pending one, else that one; '' without a pending write."""
    first = min((item.requested_time for item in timeline.pending), default="")
    before = [item.requested_time for item in timeline.completed_writes if item.requested_time < first]
    return before[-1] if before else first


def _for_compaction(timeline: Timeline, delta_commits: int) -> str:
    """The earliest instant that must stay so that the deltacommits since the last compaction can be counted."""
    compactions = [item for item in timeline.completed_writes if item.action is Action.COMMIT]
    deltas = [item for item in timeline.instants if item.action is Action.DELTA_COMMIT]
    if not compactions:
        last, since = (deltas[0].requested_time if deltas else ""), deltas
    else:
        last = compactions[-1].requested_time
        since = [item for item in deltas if not item.is_completed or timeline.order_key(item) > last]
    if len(since) < delta_commits:
        return last
    return since[len(since) - delta_commits].requested_time


def files_to_merge(files: Sequence[HistoryFile], layer: int) -> tuple[HistoryFile, ...]:
    """The oldest files of a layer, which are merged into one of the next layer; () if there are too few, or they are
    large."""
    mine = sorted((file for file in files if file.layer == layer), key=lambda file: (file.first, file.last))
    if len(mine) < MERGED_FILES:
        return ()
    chosen: list[HistoryFile] = []
    size = 0
    for file in mine:
        chosen.append(file)
        size += max(0, file.size_bytes)
        if len(chosen) == MERGED_FILES:
            break
        if size > _MERGED_BYTES:
            if len(chosen) > 1:
                break
            chosen, size = [], 0
    return tuple(chosen) if len(chosen) > 1 else ()


def manifests_to_keep(versions: Sequence[int], merges: int) -> tuple[int, ...]:
    """The newest manifests, which are kept after so many merges."""
    return tuple(sorted(versions)[-(MANIFESTS + merges) :])
