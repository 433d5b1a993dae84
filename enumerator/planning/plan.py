"""The planning entry points: plan a request, describe a table, find its newest position. Each reads the table now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from itertools import islice
from typing import Final, assert_never

from penstock.enumerator.log import log_event, log_fallback
from penstock.enumerator.paused_collector import paused_collector
from penstock.enumerator.planning.annotate import TimeSources, with_event_times
from penstock.enumerator.planning.archived_timeline import with_archive
from penstock.enumerator.planning.commit_order import newest_position
from penstock.enumerator.planning.discovery import (
    complete_from,
    discover,
    pending_clusterings,
    read_timeline,
)
from penstock.enumerator.planning.pruning.pruned_plan import PrunedPlan
from penstock.enumerator.planning.scan import PlannedSplits
from penstock.enumerator.planning.schemas import table_schema_text
from penstock.enumerator.planning.selection import TimelineFacts, select
from penstock.enumerator.planning.slice_planner import plan_splits
from penstock.enumerator.planning.table_state import TableSchema, TableState
from penstock.proto.errors import CorruptFile, PositionExpired, SchemaMismatch, StorageError, TableError
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.proto.model.reports import TableDescription
from penstock.proto.model.splits import CommitTimeOrdering, CustomMerge, EventTimeOrdering, Plan
from penstock.table.config.merge_rules import merge_mode
from penstock.table.config.properties import TableProperties
from penstock.table.files.slices import DataFile
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.files import FILES
from penstock.table.metadata.metadata_table import indexes
from penstock.table.storage.filesystem import Storage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline

_MAX_STALE_INSTANTS: Final = 16
"""Instants whose files a stale listing may lack before planning fails with a retryable error."""
_MAX_CHECKED_FILES: Final = 1_000
Planning = Callable[[HudiTable, str, PlanRequest, Collection[str]], Plan]
"""`plan_request`, or a function that wraps it."""


def plan_request(
    table: HudiTable,
    table_name: str,
    request: PlanRequest,
    passed_over: Collection[str] = (),
    sources: TimeSources | None = None,
) -> Plan:
    """The plan of a request, from the table as it is now. `table_name` is the table's name in the scan. A pinned table
    is planned with its timeline.

    A folder listing may be stale: a file that metadata names and the listing lacks is checked by its name before it
    counts as missing. A table may change while it is planned: if planning fails for a missing file, it is retried once
    with a fresh timeline and from the folders, so that an incomplete metadata table cannot be the cause. `passed_over`
    are the requested times of pending instants to be ignored. `sources` are event-time sources beside the table's
    files. Errors as for `discovery.discover`, `slice_planner.plan_splits` and `change_planner.plan_changes`;
    CorruptFile for a base file without a readable footer if the plan needs it.
    """
    return pruned_plan(table, table_name, request, passed_over, sources).plan


def pruned_plan(
    table: HudiTable,
    table_name: str,
    request: PlanRequest,
    passed_over: Collection[str] = (),
    sources: TimeSources | None = None,
) -> PrunedPlan:
    """The plan of a request as `plan_request`, and what the request's filter excludes from it."""
    sources = sources or TimeSources()
    try:
        return _planned(table, table_name, request, passed_over, sources)
    except (StorageError, PositionExpired, CorruptFile) as error:
        table = table.unpinned()
        plan = _planned(table, table_name, replace(request, metadata=False), passed_over, sources)
        if request.metadata and FILES in indexes(table.properties):
            table.count_metadata_fallback()
            log_fallback(table_name, f"planned again from folders after: {error}")
        return plan


def describe(table: HudiTable, table_name: str) -> TableDescription:
    """The table now. A merge mode that no query supports is given as its setting; the schema is '' if there is none."""
    facts = read_timeline(table)
    properties = table.properties
    return TableDescription(
        table=table_name,
        base_path=redacted_uri(table.base_path),
        hudi_name=properties.name,
        table_type=properties.table_type,
        table_version=properties.version,
        timeline_layout=properties.layout,
        timeline_timezone=properties.timezone,
        merge_mode=_merge_mode_text(properties),
        record_key_fields=properties.record_key_fields,
        partition_fields=properties.partition_fields,
        ordering_fields=properties.ordering_fields,
        schema_json=_recorded_schema(table, facts),
        newest=newest_position(facts.timeline, facts.pending_clusterings, facts.is_data),
    )


def newest_schema(table: HudiTable) -> TableSchema | None:
    """The table's schema now; None if none is recorded and there is no data."""
    text = _recorded_schema(table, read_timeline(table))
    return TableSchema.parse(text, f"schema of table {redacted_uri(table.base_path)}") if text else None


def newest(table: HudiTable, after: Position | None, max_commits: int) -> Position:
    """The newest position that may be consumed; see `commit_order.newest_position`.

    Reads only the metadata that is needed, and archived instants only if `after` lies among them. EARLIEST does not: a
    first range is the state at its end.
    """
    timeline = table.timeline()
    if after is not None and not after.is_earliest and _lags(table, timeline, after):
        facts = with_archive(read_timeline(table), table.archive())
        select(Incremental(after), facts)
        return newest_position(facts.timeline, facts.pending_clusterings, facts.is_data, after, max_commits)
    clusterings = pending_clusterings(table, timeline)
    return newest_position(
        timeline, clusterings, lambda item: not table.commit_lazily(item).is_service, after, max_commits
    )


def _lags(table: HudiTable, timeline: Timeline, after: Position) -> bool:
    """Whether archived instants may lie after `after`. The archive is read only if active instants lie after it."""
    newest_active = max(map(timeline.order_key, timeline.completed_writes), default="")
    return after.order_key < newest_active and after.order_key < complete_from(table, timeline)


def _merge_mode_text(properties: TableProperties) -> str:
    try:
        mode = merge_mode(properties)
    except TableError:
        return properties.merge_mode or properties.payload_class or "CUSTOM"
    match mode:
        case CommitTimeOrdering():
            return "COMMIT_TIME_ORDERING"
        case EventTimeOrdering():
            return "EVENT_TIME_ORDERING"
        case CustomMerge(name, _, _):
            return f"CUSTOM ({name})"
        case _:
            assert_never(mode)


def _recorded_schema(table: HudiTable, facts: TimelineFacts) -> str:
    try:
        return table_schema_text(table, facts)
    except SchemaMismatch:
        return ""


def _planned(
    table: HudiTable, table_name: str, request: PlanRequest, passed_over: Collection[str], sources: TimeSources
) -> PrunedPlan:
    with paused_collector():
        state, planned = _planned_splits(table, discover(table, table_name, request, passed_over))
    for log in planned.missing_logs:
        log_event("log file gone", level=logging.WARNING, table=table_name, file=log.ref.path, instant=log.named_by)
    pruned = PrunedPlan(planned.plan)
    if not isinstance(request.query, Changes) and state.request.row_filter is not None:
        from penstock.enumerator.planning.pruning.groups import prune_groups  # late: most reads have no condition

        pruned = prune_groups(table, state, planned.plan)
    return replace(pruned, plan=with_event_times(table, state, pruned.plan, sources))


def _planned_splits(table: HudiTable, state: TableState) -> tuple[TableState, PlannedSplits]:
    """The splits of the state, and the state with the files that its listing lacked."""
    request = state.request.request
    for _ in range(_MAX_STALE_INSTANTS):
        try:
            return state, _splits(state)
        except (PositionExpired, CorruptFile) as error:
            if _listed_by_metadata(table, state, request) and not request.skip_corrupt:
                raise  # the metadata table may lack files that no commit names: list the folders
            unlisted = _unlisted_files(table.storage, state.files, error.missing_file)
            if not unlisted:
                if not request.skip_corrupt:
                    raise
                return state, _splits(state, tolerate_missing_logs=True)
            state = replace(state, files=tuple(unlisted.get(file.ref.path, file) for file in state.files))
            log_event(
                "stale listing",
                level=logging.WARNING,
                table=state.table,
                files=len(unlisted),
                first=error.missing_file,
            )
    raise StorageError(f"the listing of table {state.table} lacks files of many instants; a retry may succeed")


def _splits(state: TableState, *, tolerate_missing_logs: bool = False) -> PlannedSplits:
    if isinstance(state.request.request.query, Changes):
        from penstock.enumerator.planning.change_planner import plan_changes  # late: most plans are of rows

        return plan_changes(state, tolerate_missing_logs=tolerate_missing_logs)
    return plan_splits(state, tolerate_missing_logs=tolerate_missing_logs)


def _listed_by_metadata(table: HudiTable, state: TableState, request: PlanRequest) -> bool:
    return request.metadata and state.metadata_usable and FILES in indexes(table.properties)


def _unlisted_files(storage: Storage, files: Iterable[DataFile], missing: str) -> dict[str, DataFile]:
    """Path -> file that exists although the listing lacks it: `missing`, and others that the same instant names.

    Each is checked by its name, at most _MAX_CHECKED_FILES. Empty if `missing` does not exist.
    """
    unlisted = {file.ref.path: file for file in files if not file.listed}
    first = unlisted.get(missing)
    if first is None:
        return {}
    others = (file for file in unlisted.values() if file.named_by and file.named_by == first.named_by)
    existing: dict[str, DataFile] = {}
    for file in (first, *islice((file for file in others if file is not first), _MAX_CHECKED_FILES)):
        info = storage.file_info(file.ref.path)
        if info is not None:
            existing[file.ref.path] = file._replace(ref=replace(file.ref, size_bytes=info.size_bytes), listed=True)
        elif file is first:
            return {}
    return existing
