"""What all splits of a plan share: the scan, settled from a table's state and a request. Pure.

Belongs here: columns, merge rules, visible instants, partition columns, and what is refused for all of a table. Not
here: which files a query reads (`planner`), what commits changed (`changes`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from penstock.enumerator.planning.event_time.bounds import UNIT_US
from penstock.enumerator.planning.selection import Selection
from penstock.enumerator.planning.split_ids import scope_id
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.errors import ConfigurationError, TableError, UnsupportedFeature
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.splits import CommitTimeOrdering, DeleteMarker, EventTimeOrdering, Scan, VisibleInstants
from penstock.table.columns import resolve_column, resolve_columns
from penstock.table.config.merge_rules import merge_rules
from penstock.table.config.payload_classes import MergeRules
from penstock.table.config.properties import TableProperties
from penstock.table.config.record_keys import keys_may_be_named, virtual_key_fields
from penstock.table.files.names import BaseName
from penstock.table.files.slices import DataFile, OrderedUpTo, RequestedUpTo, instant_is_visible
from penstock.table.partitions.values import path_value_fields
from penstock.table.predicate.parse import parse_predicate
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.history import check_current, parse_history

_ALL_NINES: Final = "9" * 24


def wanted_columns(request: PlanRequest, table: pa.Schema, returned: pa.Schema) -> tuple[str, ...]:
    """The names of the columns asked for, among those that the query returns; `table` are the table's own.

    ConfigurationError for a column, filter, event-time column or delete marker that does not suit them.
    """
    columns = resolve_columns(request.columns, returned.names)
    if request.where:
        parse_predicate(request.where, returned)
    if request.event_time:
        column = event_time_column(request.event_time, table)
        check_event_time(column, table.field(column).type, request.event_time_unit, unit_needed=request.scan_event_time)
    if request.delete_marker is not None:
        resolve_column(request.delete_marker.field, table.names)
    return columns


def scan_of(
    state: TableState,
    request: PlanRequest,
    selection: Selection,
    schema: pa.Schema,
    columns: tuple[str, ...],
    partitions: Collection[str],
    *,
    has_logs: bool,
) -> Scan:
    """The scan of a selection that reads these partitions, logs among their files or not. `schema` is the table's.

    UnsupportedFeature for merging that this build has not; TableError and SchemaMismatch for what Hudi does not read.
    """
    rules = _merge_rules(state, request.delete_marker, has_logs=has_logs)
    fields = _path_fields(state, schema, partitions, rules, merging=has_logs)
    keys = virtual_key_fields(state.properties) if has_logs else ()
    return Scan(
        table=state.table,
        base_path=state.properties.base_path,
        table_version=state.properties.version,
        schema_json=state.schema_json,
        columns=columns,
        where=request.where,
        merge=rules.mode,
        visible=_visible_instants(state, selection),
        rows=selection.rows,
        partition_fields=fields,
        delete_marker=rules.delete_marker,
        fill=rules.fill,
        skip_corrupt=request.skip_corrupt,
        key_fields=keys,
        keys_may_be_named=bool(keys) and keys_may_be_named(state.properties),
        schema_history=_checked_history(state, fields),
    )


def scope_of(state: TableState, selection: Selection, scan: Scan) -> str:
    """What the ids of a plan's splits have in common."""
    marker = () if scan.delete_marker is None else (scan.delete_marker.field, scan.delete_marker.value)
    return scope_id(
        (state.properties.database, state.properties.name, state.properties.base_path, *marker),
        selection.view,
        selection.rows,
        scan.visible,
        by_blocks=state.properties.layout == 1,
    )


def refuse_without_meta_columns(properties: TableProperties, table: str) -> None:
    """Hudi refuses ranges of such a table too."""
    if not properties.populate_meta_fields:
        raise ConfigurationError(
            f"range of a table without meta columns: rows of table {table} do not tell their instant "
            "(hoodie.populate.meta.fields=false), and Hudi refuses it, too; read a snapshot"
        )


def refuse_unread_format(state: TableState, base: DataFile) -> None:
    """UnsupportedFeature for a base file that is not Parquet; TableError for an HFile, which Hudi keeps for metadata
    tables: its Spark reader does not read one in a table of data."""
    if isinstance(base.name, BaseName) and base.name.extension == "hfile":
        raise TableError(
            f"base file {base.ref.path} of table {state.facts.table} is an HFile, the format of metadata tables alone; "
            "Hudi does not read it in a table of data either"
        )
    if isinstance(base.name, BaseName) and base.name.extension != "parquet":
        raise UnsupportedFeature(
            f"base file format {base.name.extension}: file {base.ref.path} of table {state.facts.table}; "
            "this build reads parquet"
        )


def event_time_column(name: str, schema: pa.Schema) -> str:
    """The column's name in the table. ConfigurationError unless it is there and a timestamp, date or long."""
    column = resolve_column(name, schema.names)
    column_type = schema.field(column).type
    if pa.types.is_timestamp(column_type) or pa.types.is_date32(column_type) or pa.types.is_int64(column_type):
        return column
    raise ConfigurationError(
        f"event-time column {column!r} is {column_type}: expected a timestamp, date or long column"
    )


def check_event_time(column: str, column_type: pa.DataType, unit: str, *, unit_needed: bool) -> None:
    """ConfigurationError unless the unit suits the event-time column: one of s, ms, us for plain numbers, and needed
    there if the bounds of all splits are wanted (streams); none for a timestamp or date, which have their own."""
    units = ", ".join(UNIT_US)
    if unit and unit not in UNIT_US:
        raise ConfigurationError(f"unit {unit[:40]!r} of event-time column {column!r}: expected one of {units}")
    plain = pa.types.is_int64(column_type)
    if unit and not plain:
        raise ConfigurationError(
            f"unit {unit!r} of event-time column {column!r}: the column is {column_type}, which has a unit of its own; "
            "leave eventTimeUnit out"
        )
    if plain and unit_needed and not unit:
        raise ConfigurationError(
            f"event-time column {column!r} holds plain numbers ({column_type}), whose unit nothing tells: give "
            f"eventTimeUnit ({units})"
        )


def _merge_rules(state: TableState, requested_marker: DeleteMarker | None, *, has_logs: bool) -> MergeRules:
    """The table's merge rules, if there is anything to merge: a table that has none we know is refused only then."""
    if has_logs:
        return merge_rules(state.properties, requested_marker)
    return MergeRules(mode=CommitTimeOrdering())


def _visible_instants(state: TableState, selection: Selection) -> VisibleInstants:
    """Which log blocks count: those of completed instants that the view shows. No instant completes before it is
    requested, so one that is not known any more and was requested before the end of a range may have been archived,
    one requested behind it is not shown."""
    timeline = state.facts.timeline
    shown = (
        item.requested_time
        for item in timeline.completed_writes
        if instant_is_visible(item.requested_time, selection.view, state.committed)
    )
    match selection.view:
        case RequestedUpTo(instant):
            before, not_after = timeline.first_active, instant
        case OrderedUpTo(order_key):
            before, not_after = min(timeline.first_active, order_key), _ALL_NINES
        case _:
            before, not_after = timeline.first_active, _ALL_NINES
    return VisibleInstants(frozenset(shown), archived_before=before, not_after=not_after)


def _path_fields(
    state: TableState, schema: pa.Schema, partitions: Collection[str], rules: MergeRules, *, merging: bool
) -> tuple[str, ...]:
    """The table's own names of the columns that take their values from the partition path; none if a partition field
    is no top-level column (a nested field: only files hold it)."""
    fields = path_value_fields(state.properties, partitions)
    if state.properties.drop_partition_columns and partitions:
        _refuse_unknown_dropped(state, fields, rules, merging=merging)
    columns = {name.lower() for name in schema.names}
    if any(field.lower() not in columns for field in fields):
        return ()
    return tuple(resolve_column(field, schema.names) for field in fields)


def _refuse_unknown_dropped(state: TableState, fields: tuple[str, ...], rules: MergeRules, *, merging: bool) -> None:
    """The files leave partition columns out: only the path can tell their values, and nothing may be merged by them.
    Hudi fails on both, too."""
    properties = state.properties
    feature = "partition columns left out of the files (hoodie.datasource.write.drop.partition.columns=true)"
    if fields != properties.partition_fields:
        raise TableError(
            f"{feature}: the paths of table {state.facts.table} have another number of parts than it has partition "
            "columns, so they do not tell their values; Hudi does not read it either"
        )
    if not merging:
        return
    needed = {*properties.ordering_fields, *(() if properties.populate_meta_fields else properties.record_key_fields)}
    if isinstance(rules.mode, EventTimeOrdering):
        needed.update(rules.mode.ordering_fields)
    if rules.delete_marker is not None:
        needed.add(rules.delete_marker.field)
    if merged_by := needed & set(fields):
        raise TableError(
            f"{feature}: {state.facts.table} merges by {', '.join(sorted(merged_by))}, which its log records lack; "
            "Hudi does not read it either"
        )


def _checked_history(state: TableState, path_fields: Collection[str]) -> str:
    """The schema-on-read history, if it tells the ids of all columns that files have."""
    if state.schema_history:
        where = f"table {state.facts.table}"
        record = parse_record_schema(state.schema_json, where)
        check_current(record, parse_history(state.schema_history, where), path_fields, where)
    return state.schema_history
