"""The three questions about a table, answered from storage: its plan for a request, what it is, how far it is.

Shell: reads, then asks the pure parts. Not here: keeping of plans (`plans`), names of tables (`embedded`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from penstock.enumerator.bounds import event_time_bounds, read_footer, row_group_sizes
from penstock.enumerator.change_plans import plan_changes
from penstock.enumerator.discovery import (
    complete_from,
    discover,
    pending_clusterings,
    read_timeline,
    recorded_schemas,
)
from penstock.enumerator.events import tell_fallback
from penstock.enumerator.filtered_files import without_ruled_out
from penstock.enumerator.filtered_partitions import filter_of_rows
from penstock.enumerator.history import with_archive
from penstock.enumerator.log_slice_bounds import bounds_of_log_slices
from penstock.enumerator.order import is_earliest, newest_position
from penstock.enumerator.planner import plan_splits
from penstock.enumerator.row_groups import cut
from penstock.enumerator.scans import event_time_column
from penstock.enumerator.selection import TimelineFacts, select
from penstock.enumerator.split_ids import in_commit_order, run_id
from penstock.proto.errors import CorruptFile, PositionExpired, SchemaMismatch, StorageError, TableError
from penstock.proto.positions import Position
from penstock.proto.queries import Changes, Incremental, PlanRequest
from penstock.proto.reports import TableDescription
from penstock.proto.splits import EventTimeOrdering, Plan, Scan, Split
from penstock.table.hudi_table import HudiTable
from penstock.table.merge_rules import merge_mode
from penstock.table.metadata.files import FILES
from penstock.table.metadata.metadata_table import indexes
from penstock.table.properties import TableProperties
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import AvroField, parse_record_schema
from penstock.table.schema.tables import table_schema_json
from penstock.table.storage import Storage, shown_uri
from penstock.table.timeline import Timeline

_FOOTER_READERS: Final = 8

Planning = Callable[[HudiTable, str, PlanRequest, Collection[str]], Plan]
"""`plan_request`, or what adds to it."""


def plan_request(table: HudiTable, table_name: str, request: PlanRequest, passed_over: Collection[str] = ()) -> Plan:
    """The plan of a request, from the table as it is now; its scan calls the table `table_name`.

    A table changes while it is read: what fails for a file that is gone is tried once more from a fresh timeline, and
    from its folders, so that no metadata table that lacks a file can be the reason. `passed_over` are requested times
    of pending instants that hold no range back.
    Errors as for `discovery.discover` and `planner.plan_splits`; CorruptFile for a base file without footer, where
    one is needed.
    """
    try:
        return _planned(table, table_name, request, passed_over)
    except (StorageError, PositionExpired, CorruptFile) as error:
        plan = _planned(table, table_name, replace(request, metadata=False), passed_over)
        if request.metadata and FILES in indexes(table.properties):
            table.count_metadata_fallback()
            tell_fallback(table_name, f"planned again from folders after: {error}")
        return plan


def describe(table: HudiTable, table_name: str) -> TableDescription:
    """The table now. A merge mode that no query can read is told by its setting; '' for a schema nobody recorded."""
    facts = read_timeline(table)
    properties = table.properties
    return TableDescription(
        table=table_name,
        base_path=shown_uri(table.base_path),
        hudi_name=properties.name,
        table_type=properties.table_type,
        table_version=properties.version,
        timeline_layout=properties.layout,
        timeline_timezone=properties.timezone,
        merge_mode=_told_merge_mode(properties),
        record_key_fields=properties.record_key_fields,
        partition_fields=properties.partition_fields,
        ordering_fields=properties.ordering_fields,
        schema_json=_told_schema(facts, properties),
        newest=newest_position(facts.timeline, facts.pending_clusterings, facts.is_data),
    )


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


def _told_schema(facts: TimelineFacts, properties: TableProperties) -> str:
    try:
        return table_schema_json(recorded_schemas(facts), properties)
    except SchemaMismatch:
        return ""


def _planned(table: HudiTable, table_name: str, request: PlanRequest, passed_over: Collection[str]) -> Plan:
    state = discover(table, table_name, request, passed_over)
    if isinstance(request.query, Changes):
        return plan_changes(state, request, request.query)
    plan = plan_splits(state, request)
    if filter_of_rows(request) and request.metadata and state.metadata_usable:
        plan = without_ruled_out(table, table_name, state.facts.timeline, plan)
    event_time = None if plan.scan.schema_history else _event_time_field(plan.scan, request.event_time)
    if event_time is not None and request.metadata and state.metadata_usable:
        found = bounds_of_log_slices(table, table_name, state.facts.timeline, plan.splits, event_time)
        told = (replace(item, event_time=found.get(item.split_id, item.event_time)) for item in plan.splits)
        plan = replace(plan, splits=tuple(told))
    target_bytes = request.target_split_bytes
    open_ones = [split for split in plan.splits if _needs_footer(split, event_time, target_bytes)]
    if not open_ones:
        return plan
    with ThreadPoolExecutor(max_workers=_FOOTER_READERS) as pool:
        parts = pool.map(lambda split: _parts(table.storage, split, event_time, target_bytes), open_ones)
        refined = {split.split_id: made for split, made in zip(open_ones, parts, strict=True)}
    splits = (part for split in plan.splits for part in refined.get(split.split_id, (split,)))
    return replace(plan, splits=in_commit_order(splits))


def _event_time_field(scan: Scan, name: str) -> AvroField | None:
    """The event-time column, unless its values come from the partition path and files do not tell them."""
    if not name:
        return None
    record = parse_record_schema(scan.schema_json)
    column = event_time_column(name, arrow_schema(record))
    return None if column in scan.partition_fields else record.by_name()[column]


def _needs_footer(split: Split, event_time: AvroField | None, target_bytes: int) -> bool:
    """Whether the split has no logs, and either its event-time bounds are wanted or its base file may be cut."""
    return (
        split.base is not None and not split.logs and (event_time is not None or split.base.size_bytes > target_bytes)
    )


def _parts(storage: Storage, split: Split, event_time: AvroField | None, target_bytes: int) -> tuple[Split, ...]:
    """The split with event-time bounds, or cut into runs of row groups that have theirs."""
    if split.base is None:
        return (split,)
    footer = read_footer(storage, split.base)
    sizes_bytes = row_group_sizes(footer)
    runs = cut(sizes_bytes, target_bytes) if split.base.size_bytes > target_bytes else ()
    parts = [replace(split, part=run, split_id=run_id(split.split_id, run)) for run in runs] or [split]
    if event_time is None:
        return tuple(parts)
    row_groups = [range(run.first, run.end) for run in runs] or [range(len(sizes_bytes))]
    return tuple(
        replace(part, event_time=event_time_bounds(footer, groups, event_time.name, event_time.type))
        for part, groups in zip(parts, row_groups, strict=True)
    )
