"""Which instants conflict with a write, by the file groups that both touch. Pure.

Source: Hudi `SimpleConcurrentFileWritesConflictResolutionStrategy`, and `BucketIndexConcurrentFileWrites…` for tables
with a bucket index, where two writers that create a group of one bucket conflict. Stricter than Hudi in one point: two
writers that insert into one partition conflict unless the bucket of a key determines its group, because each may have
inserted the key of the other. With a global index, two writers that insert anywhere do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from penstock.proto.model.writes import TouchedGroups
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import META_COLUMNS, OPERATION, parse_record_schema
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.instants import Action, Instant


def first_other_schema(mine: str, commits: Iterable[tuple[Instant, CommitMetadata]]) -> Instant | None:
    """The first commit that records other columns than `mine`, or other types of them: readers take the schema of one
    commit, and lose a column that only the other has. Both schemas as commits record them."""
    for instant, commit in commits:
        if commit.schema_json and commit.schema_json != mine and _columns(commit.schema_json) != _columns(mine):
            return instant
    return None


def _columns(schema_json: str) -> dict[str, pa.DataType]:
    columns = arrow_schema(parse_record_schema(schema_json))
    return {field.name: field.type for field in columns if field.name not in (*META_COLUMNS, OPERATION)}


@dataclass(frozen=True, slots=True)
class StartOfWrite:
    """The timeline when a write began."""

    newest_completed: str
    """Requested time of the newest completed write; '' for none."""
    pending: frozenset[str]
    """Requested times of the writes that were pending."""

    @staticmethod
    def of(timeline: Timeline) -> StartOfWrite:
        """The start of a write at this state of the timeline."""
        newest = max((item.requested_time for item in timeline.completed_writes), default="")
        return StartOfWrite(newest, frozenset(item.requested_time for item in timeline.pending))


def touched_by(commit: CommitMetadata) -> TouchedGroups:
    """What a completed write changed. A table service creates file groups too, but adds no key."""
    written = {(stat.partition, stat.file_id) for stat in commit.stats}
    inserted = {stat.partition for stat in commit.stats if not stat.prev_commit}
    inserted |= {stat.partition for stat in commit.stats if stat.num_inserts and not stat.file_name.startswith(".")}
    added = frozenset() if commit.is_service else frozenset(inserted)
    return TouchedGroups(groups=frozenset({*written, *commit.replaced}), inserted_into=added)


def rewritten_by(commit: CommitMetadata) -> TouchedGroups:
    """The groups whose base file a completed write replaced: a compaction of them would lose its rows. Logs may come
    between a compaction's plan and its completion."""
    return TouchedGroups(
        groups=frozenset(
            (stat.partition, stat.file_id)
            for stat in commit.stats
            if stat.prev_commit and stat.path and not stat.file_name.startswith(".")
        )
    )


def completed_since(timeline: Timeline, start: StartOfWrite, own: str) -> tuple[Instant, ...]:
    """The writes that completed since the start, by requested time. Compactions are among them; of layout 2 they
    conflict with no log (`is_harmless`)."""
    return tuple(
        item
        for item in timeline.completed_writes
        if item.requested_time != own
        and (item.requested_time > start.newest_completed or item.requested_time in start.pending)
    )


def is_harmless(commit: CommitMetadata, layout: int, *, writes_base_files: bool, was_pending: bool) -> bool:
    """Whether a completed compaction changes nothing for a write of logs. On layout 2 the completion time decides which
    slice a log belongs to; on layout 1 the instant in its name, which is that of a compaction that `was_pending` when
    the write began (Hudi `ConcurrentOperation`)."""
    return commit.compacted and not writes_base_files and (layout == 2 or was_pending)


def pending_services(timeline: Timeline) -> tuple[Instant, ...]:
    """Pending clusterings and replacecommits, whose groups must not be written."""
    actions = (Action.CLUSTERING, Action.REPLACE_COMMIT)
    return tuple(item for item in timeline.pending if item.action in actions)


def pending_rollbacks(timeline: Timeline) -> list[Instant]:
    """The rollbacks that are planned and not completed."""
    return [item for item in timeline.instants if item.action is Action.ROLLBACK and not item.is_completed]


def pending_restores(timeline: Timeline) -> list[Instant]:
    """The restores that are planned and not completed."""
    return [item for item in timeline.instants if item.action is Action.RESTORE and not item.is_completed]


def first_conflict(
    own: TouchedGroups, others: Iterable[tuple[Instant, TouchedGroups]], *, by_bucket: bool
) -> tuple[Instant, str] | None:
    """The first instant that conflicts, and by which group; None if none does."""
    for instant, touched in others:
        if group := own.conflicts_with(touched, by_bucket=by_bucket):
            return instant, group
    return None
