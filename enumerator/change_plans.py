"""The plan of a query of changes: one split a file group, with what each commit did to it. Pure.

Not here: what a commit did (`changes`), plans of rows (`planner`).
"""

from __future__ import annotations

from penstock.enumerator.changes import group_changes, has_logs
from penstock.enumerator.scans import refuse_without_meta_columns, scan_of, scope_of, wanted_columns
from penstock.enumerator.split_ids import changes_id, in_commit_order
from penstock.enumerator.table_state import TableState
from penstock.proto.queries import Changes, PlanRequest
from penstock.proto.splits import Plan, Split
from penstock.table.partition_values import partition_values
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.changes import change_schema


def plan_changes(state: TableState, request: PlanRequest, query: Changes) -> Plan:
    """The plan of a request for changes.

    `columns`, `where` and `event_time` are about the columns of changes in the query's format. Errors as for
    `planner.plan_splits`; PositionExpired if files that tell a change are gone.
    """
    refuse_without_meta_columns(state.properties, state.facts.table)
    table = arrow_schema(parse_record_schema(state.schema_json, f"schema of table {state.facts.table}"))
    columns = wanted_columns(request, table, change_schema(table, query.format))
    (selection,) = state.selections
    changes = group_changes(state, selection, table, skip_corrupt=request.skip_corrupt)
    partitions = {partition for partition, _ in changes}
    scan = scan_of(state, request, selection, table, columns, partitions, has_logs=has_logs(changes.values()))
    scope = scope_of(state, selection, scan)
    splits = (
        Split(
            split_id=changes_id(scope, group, found),
            partition=group[0],
            partition_values=partition_values(group[0], scan.partition_fields) or (),
            file_group=group[1],
            order_key=found.steps[-1].order_key,
            base=None,
            part=found,
        )
        for group, found in changes.items()
    )
    return Plan(scan=scan, commit_range=selection.commit_range, splits=in_commit_order(splits))
