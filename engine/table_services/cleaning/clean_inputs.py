"""What cleans depend on in a table: slices, plans of services, savepoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.proto.model.positions import InstantTime, Position
from penstock.table.files.slices import CommittedInstants, GroupId
from penstock.table.hudi_table import HudiTable
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import WRITE_ACTIONS, Action, Instant
from penstock.writer.table_services.cleaning import CleaningFacts

_VERSIONS: Final = (6, 9)
_COMPACTIONS: Final = (Action.COMPACTION, Action.LOG_COMPACTION)


def cleaning_facts(table: HudiTable) -> CleaningFacts:
    """The state of a pinned table that its cleans depend on."""
    timeline = table.timeline()
    order_keys: Mapping[str, str] = timeline.order_keys
    archived: dict[str, str] = {
        time: key for time, key in table.archived_completions().items() if time not in order_keys
    }
    plans = [(item, table.compaction_plan(item)) for item in timeline.pending if item.action in _COMPACTIONS]
    compactions: dict[GroupId, set[str]] = {}
    inputs: dict[GroupId, str] = {}
    for item, groups in plans:
        for part in groups:
            group = (part.partition, part.file_id)
            inputs[group] = min(inputs.get(group, part.base_instant), part.base_instant)
            if item.action is Action.COMPACTION:
                compactions.setdefault(group, set()).add(item.requested_time)
    return CleaningFacts(
        committed=CommittedInstants(
            layout=timeline.layout, order_keys={**archived, **order_keys}, archived_before=timeline.first_active
        ),
        replaced=replaced_groups(table, timeline),
        pending_compactions=compactions,
        compaction_inputs=inputs,
        clustering_inputs=_clustering_inputs(table, timeline),
        savepoints={item.requested_time: table.savepoint(item).protected for item in timeline.savepoints},
    )


def replaced_groups(table: HudiTable, timeline: Timeline) -> Mapping[GroupId, str]:
    """File group -> requested time of the newest completed replacecommit that replaced it."""
    return {
        group: item.requested_time
        for item in timeline.completed_writes
        if item.action is Action.REPLACE_COMMIT
        for group in table.commit(item).replaced
    }


def _clustering_inputs(table: HudiTable, timeline: Timeline) -> Mapping[GroupId, str]:
    pending = [item for item in timeline.pending if item.action in (Action.CLUSTERING, Action.REPLACE_COMMIT)]
    return {
        group: item.requested_time for item in reversed(pending) for group in table.requested_replace(item).input_groups
    }


def pending_cleans(timeline: Timeline) -> tuple[Instant, ...]:
    """The cleans that are planned and not completed, by requested time."""
    return tuple(item for item in timeline.instants if item.action is Action.CLEAN and not item.is_completed)


def reads_archived_writes(table: HudiTable, timeline: Timeline, reader: Position | None) -> bool:
    """Whether the reader at this position has not read all archived writes of a pinned table."""
    if reader is None:
        return False
    return any(not reader.holds(key) for key in archived_writes(table, timeline).values())


def archived_writes(table: HudiTable, timeline: Timeline) -> Mapping[InstantTime, InstantTime]:
    """Requested time -> order key of the archived writes of a pinned table."""
    if not table.has_archived():
        return {}
    if completions := table.archived_completions():
        return completions
    archived = (item for item in table.archive().instants if item.is_completed and item.action in WRITE_ACTIONS)
    return {item.requested_time: timeline.order_key(item) for item in archived}
