"""The three questions about a table, answered from storage: its plan for a request, what it is, how far it is.

Shell: reads, then asks the pure parts. Not here: keeping of plans (`plans`), names of tables (`embedded`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from itertools import islice
from typing import Final

from penstock.enumerator.log import log_event, log_fallback
from penstock.enumerator.planning.archived_timeline import with_archive
from penstock.enumerator.planning.change_planner import plan_changes
from penstock.enumerator.planning.commit_order import is_earliest, newest_position
from penstock.enumerator.planning.discovery import (
    complete_from,
    discover,
    pending_clusterings,
    read_timeline,
    table_schema,
)
from penstock.enumerator.planning.event_time.annotate import TimeSources, with_event_times
from penstock.enumerator.planning.pruning.files import without_ruled_out
from penstock.enumerator.planning.pruning.partitions import filter_of_rows
from penstock.enumerator.planning.selection import TimelineFacts, select
from penstock.enumerator.planning.slice_planner import plan_splits
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.errors import CorruptFile, PositionExpired, SchemaMismatch, StorageError, TableError
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.proto.model.reports import TableDescription
from penstock.proto.model.splits import EventTimeOrdering, FileRef, Plan
from penstock.table.config.merge_rules import merge_mode
from penstock.table.config.properties import TableProperties
from penstock.table.files.slices import DataFile
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.files import FILES
from penstock.table.metadata.metadata_table import indexes
from penstock.table.storage.filesystem import Storage, redacted_uri
from penstock.table.timeline.active import Timeline

_MOST_STALE: Final = 16
"""Instants of whose files a listing may lack some before it is asked for anew."""
_MAX_LOOKED_AT: Final = 1_000
Planning = Callable[[HudiTable, str, PlanRequest, Collection[str]], Plan]
"""`plan_request`, or what adds to it."""


def plan_request(
    table: HudiTable,
    table_name: str,
    request: PlanRequest,
    passed_over: Collection[str] = (),
    sources: TimeSources | None = None,
) -> Plan:
    """The plan of a request, from the table as it is now; its scan calls the table `table_name`.

    A file that metadata names and a listing of folders lacks is looked at by its name before it counts as missing, for
    such a listing may be stale. A table changes while it is read: what fails for a file that is gone is tried once more
    from a fresh timeline, and from its folders, so that no metadata table that lacks a file can be the reason.
    `passed_over` are requested times of pending instants that hold no range back. `sources` are what event times may
    be told by beside the table's files.
    Errors as for `discovery.discover` and `planner.plan_splits`; CorruptFile for a base file without footer, where
    one is needed.
    """
    sources = sources or TimeSources()
    try:
        return _planned(table, table_name, request, passed_over, sources)
    except (StorageError, PositionExpired, CorruptFile) as error:
        plan = _planned(table, table_name, replace(request, metadata=False), passed_over, sources)
        if request.metadata and FILES in indexes(table.properties):
            table.count_metadata_fallback()
            log_fallback(table_name, f"planned again from folders after: {error}")
        return plan


def describe(table: HudiTable, table_name: str) -> TableDescription:
    """The table now. A merge mode that no query can read is told by its setting; '' for a schema that
    nothing tells."""
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
        merge_mode=_told_merge_mode(properties),
        record_key_fields=properties.record_key_fields,
        partition_fields=properties.partition_fields,
        ordering_fields=properties.ordering_fields,
        schema_json=_told_schema(table, facts),
        newest=newest_position(facts.timeline, facts.pending_clusterings, facts.is_data),
    )


def newest_schema_json(table: HudiTable) -> str:
    """The table's schema now; '' if it has none: nothing recorded one, and there is no data."""
    return _told_schema(table, read_timeline(table))


def newest(table: HudiTable, after: Position | None, max_commits: int) -> Position:
    """The newest position that may be consumed; see `order.newest_position`. Reads metadata only as far as needed, of
    archived instants only if `after` lies among them (EARLIEST does not: a first range holds the state at its end)."""
    timeline = table.timeline()
    if after is not None and not is_earliest(after) and _lags(table, timeline, after):
        facts = with_archive(read_timeline(table), table.archive())
        select(Incremental(after), facts)
        return newest_position(facts.timeline, facts.pending_clusterings, facts.is_data, after, max_commits)
    clusterings = pending_clusterings(table, timeline)
    return newest_position(timeline, clusterings, lambda item: not table.commit(item).is_service, after, max_commits)


def _lags(table: HudiTable, timeline: Timeline, after: Position) -> bool:
    """Whether archived instants may lie behind `after`. With nothing active behind it no archive is asked for."""
    newest_active = max(map(timeline.order_key, timeline.completed_writes), default="")
    return after.order_key < newest_active and after.order_key < complete_from(table, timeline)


def _told_merge_mode(properties: TableProperties) -> str:
    try:
        mode = merge_mode(properties)
    except TableError:
        return properties.merge_mode or properties.payload_class or "CUSTOM"
    return "EVENT_TIME_ORDERING" if isinstance(mode, EventTimeOrdering) else "COMMIT_TIME_ORDERING"


def _told_schema(table: HudiTable, facts: TimelineFacts) -> str:
    try:
        return table_schema(table, facts)
    except SchemaMismatch:
        return ""


def _planned(
    table: HudiTable, table_name: str, request: PlanRequest, passed_over: Collection[str], sources: TimeSources
) -> Plan:
    state = discover(table, table_name, request, passed_over)
    strict = replace(request, skip_corrupt=False)
    for _ in range(_MOST_STALE):
        try:
            plan = _of_state(table, table_name, state, strict, sources)
            return replace(plan, scan=replace(plan.scan, skip_corrupt=request.skip_corrupt))
        except (PositionExpired, CorruptFile) as error:
            if _listed_by_metadata(table, state, request) and not request.skip_corrupt:
                raise  # the metadata table may lack files that no commit names: list the folders
            seen = _not_listed(table.storage, state.files, error.missing_file)
            if not seen:
                if not request.skip_corrupt:
                    raise
                return _of_state(table, table_name, state, request, sources)
            state = replace(state, files=tuple(seen.get(file.ref.path, file) for file in state.files))
            log_event(
                "stale listing", level=logging.WARNING, table=table_name, files=len(seen), first=error.missing_file
            )
    raise StorageError(f"the listing of table {table_name} lacks files of many instants; asking again may help")


def _listed_by_metadata(table: HudiTable, state: TableState, request: PlanRequest) -> bool:
    return request.metadata and state.metadata_usable and FILES in indexes(table.properties)


def _not_listed(storage: Storage, files: Iterable[DataFile], missing: str) -> dict[str, DataFile]:
    """By path, the files that are there although the listing lacks them: `missing`, and others that the same instant
    names. Each is looked at by its name, at most _MAX_LOOKED_AT; none if `missing` is not there."""
    unlisted = {file.ref.path: file for file in files if not file.listed}
    first = unlisted.get(missing)
    if first is None:
        return {}
    others = (file for file in unlisted.values() if file.named_by and file.named_by == first.named_by)
    found: dict[str, DataFile] = {}
    for file in (first, *islice((file for file in others if file is not first), _MAX_LOOKED_AT)):
        info = storage.file_info(file.ref.path)
        if info is not None:
            found[file.ref.path] = replace(file, ref=FileRef(file.ref.path, info.size_bytes), listed=True)
        elif file is first:
            return {}
    return found


def _of_state(table: HudiTable, table_name: str, state: TableState, request: PlanRequest, sources: TimeSources) -> Plan:
    if isinstance(request.query, Changes):
        return with_event_times(table, state, request, plan_changes(state, request, request.query), sources)
    plan = plan_splits(state, request)
    if filter_of_rows(request) and request.metadata and state.metadata_usable:
        plan = without_ruled_out(table, table_name, state.facts.timeline, plan)
    return with_event_times(table, state, request, plan, sources)
