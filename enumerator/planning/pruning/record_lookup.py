"""File groups that the record index of the metadata table excludes. `index_gap` is pure.

The index describes the newest snapshot, and no key that a table holds twice. It is used only if the timelines show that
it does: Hudi's writers of some releases and engines do not update it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from penstock.enumerator.planning.selection import TimelineFacts
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.errors import PenstockError
from penstock.proto.model.queries import ReadOptimized, Snapshot
from penstock.proto.model.splits import CommitTimeOrdering
from penstock.table.config.merge_rules import merge_mode
from penstock.table.files.slices import GroupId
from penstock.table.metadata.metadata_table import MetadataTable
from penstock.table.metadata.record_index import RECORD_INDEX, locate
from penstock.table.metadata.validity import INITIAL
from penstock.table.partitions.pruning import partition_pruning
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.instants import Action

_ADDS_BLINDLY: Final = ("", "INSERT", "INSERT_PREPPED", "BULK_INSERT", "BULK_INSERT_PREPPED", "INSERT_OVERWRITE")
"""Operations that may write a key which another file group holds. '' is an operation that was not recorded."""
_SERVICE_DIGITS: Final = 20
"""On layout 1 the metadata table builds an index at the time of an instant of the table and three more digits."""
_MOVES_NO_KEY: Final = ("COMPACT", "LOG_COMPACT", "INDEX", "ALTER_SCHEMA")


def is_of_newest_rows(state: TableState) -> bool:
    """Whether the request reads the rows that a record index describes.

    That is a snapshot of a table that is copy-on-write, or merged by commit time. With event-time ordering a delete may
    lose against an older row, which the index then lacks. A read-optimized query returns rows that logs have deleted
    and moved.
    """
    query, properties = state.request.request.query, state.properties
    if not properties.is_merge_on_read:
        return isinstance(query, Snapshot | ReadOptimized)
    try:
        return isinstance(query, Snapshot) and isinstance(merge_mode(properties), CommitTimeOrdering)
    except PenstockError:  # merge rules that this build lacks; the table may have no logs
        return False


def without_keys(
    state: TableState, groups: Collection[GroupId], keys: Collection[str], metadata: MetadataTable
) -> frozenset[GroupId] | str:
    """The groups of a plan of the newest rows that hold none of the keys by the record index; a text with the reason if
    the index cannot be used. Errors as `record_index.locate`."""
    gap = index_gap(state.facts, metadata.timeline, metadata.partitions_of)
    if gap:
        return gap
    located = {group for found in locate(metadata, keys).values() for group in found}
    pruning = partition_pruning(state.properties, state.schema.arrow, state.request.row_filter)
    for partition, file_id in sorted(located.difference(groups)):
        if partition not in state.pruned and not (pruning is not None and pruning.drops(partition)):
            return f"it names file group {file_id} of partition {partition!r}, which the table does not have"
    return frozenset(groups) - located


def index_gap(facts: TimelineFacts, metadata: Timeline, partitions_of: Callable[[str], Collection[str]]) -> str:
    """Why the record index may not describe the rows of the timeline; '' if it does.

    `metadata` is the timeline of the metadata table, `partitions_of` the metadata partitions that its instant wrote.
    """
    timeline = facts.timeline
    if any(item.action is Action.RESTORE for item in timeline.instants):
        return "the table was restored"
    ahead = _first_unknown(timeline, metadata)
    if ahead:
        return f"it has instant {ahead}, which is not complete in the table"
    built = _built(timeline, metadata, partitions_of)
    first = timeline.completed_writes[0].requested_time if timeline.completed_writes else ""
    for item in timeline.completed_writes:
        commit = facts.commits[item.requested_time]
        if not _adds_keys(commit):
            continue
        begins = item.requested_time == first and not facts.complete_from
        if commit.operation in _ADDS_BLINDLY and not begins:
            return f"instant {item.requested_time} ({commit.operation or 'unrecorded operation'}) may repeat keys"
        is_built_from = (item.completion_time or item.requested_time) < built
        if not is_built_from and RECORD_INDEX not in partitions_of(item.requested_time):
            return f"it lacks instant {item.requested_time}"
    return ""


def _first_unknown(data: Timeline, metadata: Timeline) -> str:
    """The first instant of the metadata table that did not complete in the data table; '' if there is none."""
    known = {item.requested_time for item in data.instants if item.is_completed}
    for item in metadata.instants:
        time = item.requested_time
        if item.action is not Action.DELTA_COMMIT or not item.is_completed or time.startswith(INITIAL):
            continue
        names = {time, time[:-3]} if metadata.layout == 1 else {time}  # services of layout 1 have three more digits
        if time >= data.first_active and not names & known:
            return time
    return ""


def _built(data: Timeline, metadata: Timeline, partitions_of: Callable[[str], Collection[str]]) -> str:
    """The instant before which all instants are in the index because it was built from the table's files; '' if the
    metadata table does not say."""
    indexing = {item.requested_time for item in data.instants if item.action is Action.INDEXING}
    times = []
    for item in metadata.completed_writes:
        time = item.requested_time
        if not (time.startswith(INITIAL) or time in indexing or len(time) == _SERVICE_DIGITS):
            continue
        if RECORD_INDEX in partitions_of(time):
            times.append(item.completion_time or time[:-3])
    return min(times, default="")


def _adds_keys(commit: CommitMetadata) -> bool:
    """Whether the instant wrote keys into file groups that did not hold them."""
    if commit.compacted or commit.operation in _MOVES_NO_KEY:
        return False
    return any(stat.num_inserts > 0 or (stat.num_writes > 0 and not stat.prev_commit) for stat in commit.stats)
