"""The plan of a query of changes: one split a file group, with what each commit did to it. Pure.

Not here: what a commit did (`changes`), plans of rows (`planner`).
"""

from __future__ import annotations

from penstock.enumerator.changes import group_changes, has_logs
from penstock.enumerator.planner import (
    checked_history,
    event_time_column,
    merge_rules_of,
    path_fields,
    refuse_without_meta_columns,
    visible_instants,
)
from penstock.enumerator.split_ids import changes_id, in_commit_order, scope_id
from penstock.enumerator.table_state import TableState
from penstock.proto.queries import Changes, PlanRequest
from penstock.proto.splits import Plan, Scan, Split
from penstock.table.columns import resolve_column, resolve_columns
from penstock.table.partition_values import partition_values
from penstock.table.predicate import parse_predicate
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.changes import change_schema


def plan_changes(state: TableState, request: PlanRequest, query: Changes) -> Plan:
    """The plan of a request for changes.

    `columns`, `where` and `event_time` are about the columns of changes in the query's format. Errors as for
    `planner.plan_splits`; PositionExpired if files that tell a change are gone.
    """
    refuse_without_meta_columns(state)
    table = arrow_schema(parse_record_schema(state.schema_json, f"schema of table {state.facts.table}"))
    schema = change_schema(table, query.format)
    columns = resolve_columns(request.columns, schema.names)
    if request.where:
        parse_predicate(request.where, schema)
    if request.event_time:
        event_time_column(request.event_time, schema)
    if request.delete_marker is not None:
        resolve_column(request.delete_marker.field, table.names)
    (selection,) = state.selections
    changes = group_changes(state, selection, table, skip_corrupt=request.skip_corrupt)
    merging = has_logs(changes.values())
    rules = merge_rules_of(state, request.delete_marker, has_logs=merging)
    fields = path_fields(state, table, {partition for partition, _ in changes}, rules, merging=merging)
    scan = Scan(
        table=state.table,
        base_path=state.properties.base_path,
        table_version=state.properties.version,
        schema_json=state.schema_json,
        columns=columns,
        where=request.where,
        merge=rules.mode,
        visible=visible_instants(state, selection),
        rows=selection.rows,
        partition_fields=fields,
        delete_marker=rules.delete_marker,
        fill=rules.fill,
        skip_corrupt=request.skip_corrupt,
        schema_history=checked_history(state, fields),
    )
    marker = () if scan.delete_marker is None else (scan.delete_marker.field, scan.delete_marker.value)
    scope = scope_id(
        (state.properties.database, state.properties.name, state.properties.base_path, *marker),
        selection.view,
        selection.rows,
        scan.visible,
        by_blocks=state.properties.layout == 1,
    )
    splits = (
        Split(
            split_id=changes_id(scope, group, found),
            partition=group[0],
            partition_values=partition_values(group[0], fields) or (),
            file_group=group[1],
            order_key=found.steps[-1].order_key,
            base=None,
            part=found,
        )
        for group, found in changes.items()
    )
    return Plan(scan=scan, commit_range=selection.commit_range, splits=in_commit_order(splits))
