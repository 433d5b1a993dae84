"""Bind a request to the table's schema, and make the scan: the part of a plan that all its splits share. Pure.

The scan holds the columns, merge rules, visible instants and partition columns. This module also refuses tables,
columns and options that Hudi or this build cannot read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Protocol

import pyarrow as pa

from penstock.enumerator.planning.event_time.bounds import UNIT_US, EventTimeColumn
from penstock.enumerator.planning.file_inventory import is_skeleton
from penstock.enumerator.planning.selection import Selection
from penstock.enumerator.planning.split_ids import in_commit_order, scope_id
from penstock.enumerator.planning.table_state import BoundRequest, TableSchema, TableState
from penstock.proto.errors import ConfigurationError, CorruptFile, TableError, UnsupportedFeature
from penstock.proto.model.queries import Changes, PlanRequest
from penstock.proto.model.splits import (
    FORMAT_VERSION,
    PLAIN_VERSION,
    CommitTimeOrdering,
    CustomMerge,
    DeleteMarker,
    EventTimeOrdering,
    Plan,
    Scan,
    Split,
    VisibleInstants,
)
from penstock.proto.value_classes import dataclass
from penstock.table.bootstrap.index import INDEX_FILE
from penstock.table.bootstrap.sources import BOOTSTRAP_BASE_PATH
from penstock.table.columns import resolve_column
from penstock.table.config.merge_rules import merge_rules
from penstock.table.config.payload_classes import MergeRules
from penstock.table.config.properties import TableProperties
from penstock.table.config.record_keys import keys_may_be_named, virtual_key_fields
from penstock.table.files.names import BaseName
from penstock.table.files.slices import DataFile, OrderedUpTo, RequestedUpTo, hidden_instants
from penstock.table.lance import is_lance
from penstock.table.partitions.values import path_value_fields, text_fields
from penstock.table.predicate.parse import parse_predicate
from penstock.table.schema.completion import returned_columns
from penstock.table.schema.history import check_current, parse_history
from penstock.table.storage.uris import uri_without_credentials

_ALL_NINES: Final = "9" * 24


def bind_request(request: PlanRequest, schema: TableSchema, returned: pa.Schema) -> BoundRequest:
    """Resolve the request's names and parse its filter against the table's `schema`.

    `returned` are the columns that the query returns: the table's own, or those of change rows. ConfigurationError for
    a column, filter, event-time column or delete marker that does not fit.
    """
    columns = returned_columns(request.columns, returned.names, meta=request.meta)
    predicate = parse_predicate(request.where, returned) if request.where else None
    event_time = None
    if request.event_time:
        name = event_time_column(request.event_time, schema.arrow)
        kind = schema.arrow.field(name).type
        check_event_time(name, kind, request.event_time_unit, unit_needed=request.scan_event_time)
        event_time = EventTimeColumn(name, schema.record.by_name()[name].type, request.event_time_unit)
    if request.delete_marker is not None:
        resolve_column(request.delete_marker.field, schema.arrow.names)
    row_filter = None if isinstance(request.query, Changes) else predicate
    return BoundRequest(request=request, columns=columns, row_filter=row_filter, event_time=event_time)


@dataclass(frozen=True, slots=True)
class PlannedSplits:
    """The result of planning."""

    plan: Plan
    """The scan and its splits."""
    missing_logs: tuple[DataFile, ...] = ()
    """Log files that the plan leaves out because they are missing and the request tolerates that."""


class ScanContent(Protocol):
    """The files that a plan reads, before they are made into splits."""

    @property
    def selection(self) -> Selection:
        """The selection that is planned."""
        ...

    @property
    def partitions(self) -> Collection[str]:
        """The partitions of the files."""
        ...

    @property
    def has_logs(self) -> bool:
        """Whether log files are merged."""
        ...

    @property
    def missing_logs(self) -> tuple[DataFile, ...]:
        """Log files that are left out because they are missing."""
        ...

    def splits(self, state: TableState, scan: Scan, scope: str) -> Iterable[Split]:
        """The splits of the scan. `scope` is the part of split ids that they share."""
        ...


def plan_of(state: TableState, content: ScanContent) -> PlannedSplits:
    """The plan that reads the content: one scan, and its splits by order key, then split id.

    UnsupportedFeature for merging that this build lacks; TableError and SchemaMismatch for tables that Hudi does not
    read.
    """
    scan = _scan_of(state, content)
    scope = _scope_of(state, content.selection, scan)
    splits = in_commit_order(content.splits(state, scan, scope))
    plan = Plan(scan=scan, commit_range=content.selection.commit_range, splits=splits)
    return PlannedSplits(plan, content.missing_logs)


def _scan_of(state: TableState, content: ScanContent) -> Scan:
    request, merging = state.request.request, content.has_logs
    rules = _merge_rules(state, request.delete_marker, merging=merging)
    fields = _path_fields(state, content.partitions, rules, merging=merging)
    keys = virtual_key_fields(state.properties) if merging else ()
    sources = _folder_of_sources(state, content.partitions, fields)
    return Scan(
        format_version=FORMAT_VERSION if sources else PLAIN_VERSION,
        table=state.table,
        base_path=state.properties.base_path,
        table_version=state.properties.version,
        schema_json=state.schema.text,
        columns=state.request.columns,
        where=request.where,
        merge=rules.mode,
        visible=_visible_instants(state, content.selection),
        rows=content.selection.rows,
        partition_fields=fields,
        delete_marker=rules.delete_marker,
        fill=rules.fill,
        skip_corrupt=request.skip_corrupt,
        key_fields=keys,
        keys_may_be_named=bool(keys) and keys_may_be_named(state.properties),
        schema_history=_checked_history(state, fields),
        completion_times=state.completion_times,
        bootstrap_base_path=sources,
    )


def _folder_of_sources(state: TableState, partitions: Collection[str], path_fields: Collection[str]) -> str:
    """The folder of the source files, without credentials; '' if no file has a source.

    UnsupportedFeature if partition columns must be read from files (the property of slash-separated dates, or paths
    that do not fit the columns): source files of Hive's layout lack these columns, and a file does not have the text of
    a formatted one. A table that lacks the columns itself needs no values: Hudi bootstraps ORC files this way.
    """
    has_sources = any(file.ref.source is not None for file in state.files)
    needs_paths = has_sources or bool(text_fields(state.properties))
    top_level = [name.partition(".")[0] for name in state.properties.partition_fields]
    needed = _lower(top_level) & _lower(state.schema.arrow.names)
    if partitions and needed and not path_fields and needs_paths:
        names = ", ".join(state.properties.partition_fields)
        raise UnsupportedFeature(
            f"bootstrapped table: values of the partition columns {names} of table {state.facts.table} are not taken "
            f"from its paths (key generator {state.properties.keygen_name}), and source files may lack them; this "
            "build reads skeletons whose paths have a part for each column, and no property of slash-separated dates"
        )
    return uri_without_credentials(state.properties.bootstrap_base_path) if has_sources else ""


def _scope_of(state: TableState, selection: Selection, scan: Scan) -> str:
    """The part of split ids that the plan's splits share."""
    marker = () if scan.delete_marker is None else (scan.delete_marker.field, scan.delete_marker.value)
    return scope_id(
        (state.properties.database, state.properties.name, state.properties.base_path, *marker),
        selection.view,
        selection.rows,
        scan.visible,
        by_blocks=state.properties.layout == 1,
    )


def refuse_without_meta_columns(properties: TableProperties, table: str) -> None:
    """ConfigurationError for a range of a table whose files have no meta columns. Hudi refuses such ranges, too."""
    if not properties.populate_meta_fields:
        raise ConfigurationError(
            f"range of a table without meta columns: rows of table {table} do not hold their instant "
            "(hoodie.populate.meta.fields=false), and Hudi refuses it, too; read a snapshot"
        )


def refuse_unread_format(state: TableState, base: DataFile) -> None:
    """TableError for a bootstrapped file in Lance, which Hudi does not bootstrap, and for an HFile, which it reads in
    metadata tables only; CorruptFile for a skeleton without a source file."""
    if is_skeleton(base) and base.ref.source is None:
        raise CorruptFile(
            f"base file {base.ref.path} of table {state.facts.table} is a skeleton of a metadata-only bootstrap, and "
            f"{INDEX_FILE} names no source file for it (or the table has no {BOOTSTRAP_BASE_PATH}): its other columns "
            "are unknown; restore the index"
        )
    source = base.ref.source
    if source is not None and any(is_lance(path) for path in (base.ref.path, source.path)):
        raise TableError(
            f"bootstrap in Lance: base file {base.ref.path} of table {state.facts.table} with source file "
            f"{source.path}; Hudi bootstraps files in Parquet and ORC only"
        )
    if isinstance(base.name, BaseName) and base.name.extension == "hfile":
        raise TableError(
            f"base file {base.ref.path} of table {state.facts.table} is an HFile, a format for metadata tables; Hudi "
            "does not read it in a data table either"
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
    """ConfigurationError unless the unit fits the event-time column.

    A column of plain numbers takes one of s, ms, us, and with `unit_needed` (streams, which need the bounds of all
    splits) requires one. A timestamp or date has its own unit and takes none.
    """
    units = ", ".join(UNIT_US)
    if unit and unit not in UNIT_US:
        raise ConfigurationError(f"unit {unit[:40]!r} of event-time column {column!r}: expected one of {units}")
    plain = pa.types.is_int64(column_type)
    if unit and not plain:
        raise ConfigurationError(
            f"unit {unit!r} of event-time column {column!r}: the column is {column_type}, which has its own unit; "
            "leave eventTimeUnit out"
        )
    if plain and unit_needed and not unit:
        raise ConfigurationError(
            f"event-time column {column!r} holds plain numbers ({column_type}) of unknown unit: give "
            f"eventTimeUnit ({units})"
        )


def _merge_rules(state: TableState, delete_marker: DeleteMarker | None, *, merging: bool) -> MergeRules:
    """The table's merge rules. A table with unknown rules is refused only if there are logs to merge."""
    if merging:
        return merge_rules(state.properties, delete_marker)
    return MergeRules(mode=CommitTimeOrdering())


def _visible_instants(state: TableState, selection: Selection) -> VisibleInstants:
    """The instants whose log blocks count: completed ones that the view shows.

    No instant completes before it is requested. So an unknown instant that was requested before the end of a range may
    have been archived and counts; one that was requested after the end is not visible.
    """
    timeline = state.facts.timeline
    hidden = hidden_instants(timeline.order_keys, selection.view, state.committed)
    members = frozenset([item.requested_time for item in timeline.completed_writes]).difference(hidden)
    match selection.view:
        case RequestedUpTo(instant):
            before, not_after = timeline.first_active, instant
        case OrderedUpTo(order_key):
            before, not_after = min(timeline.first_active, order_key), _ALL_NINES
        case _:
            before, not_after = timeline.first_active, _ALL_NINES
    return VisibleInstants(members, archived_before=before, not_after=not_after)


def _path_fields(
    state: TableState, partitions: Collection[str], rules: MergeRules, *, merging: bool
) -> tuple[str, ...]:
    """The columns, by their names in the table, whose values come from the partition path; none if a partition field is
    not a top-level column (only files hold the values of a nested field)."""
    names = state.schema.arrow.names
    fields = path_value_fields(state.properties, partitions)
    formatted = _lower(text_fields(state.properties))
    if state.properties.drop_partition_columns and partitions:
        _refuse_unknown_dropped(state, fields, rules, merging=merging)
    elif partitions and merging and (merged_by := _merging_columns(state, rules) & formatted):
        raise TableError(
            f"bootstrapped table: {state.facts.table} merges by {', '.join(sorted(merged_by))}: values of formatted "
            "partition columns are texts of the path, and Hudi 1.2.0 fails here, too; read it read-optimized"
        )
    if not _lower(fields) <= _lower(names):
        return ()
    return tuple(resolve_column(field, names) for field in fields)


def _merging_columns(state: TableState, rules: MergeRules) -> set[str]:
    """The columns by which log records are merged, in lower case."""
    properties = state.properties
    needed = _lower(() if properties.populate_meta_fields else properties.record_key_fields)
    if isinstance(rules.mode, EventTimeOrdering | CustomMerge):
        needed |= _lower_columns(rules.mode.ordering_fields)
    return needed if rules.delete_marker is None else needed | {rules.delete_marker.field.lower()}


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def _lower_columns(fields: Iterable[str]) -> set[str]:
    """The columns that have the fields, which may be in structs (`struct.field`)."""
    return _lower(field.partition(".")[0] for field in fields)


def _refuse_unknown_dropped(state: TableState, fields: tuple[str, ...], rules: MergeRules, *, merging: bool) -> None:
    """TableError where the files lack the partition columns and the path does not supply them, or where log records are
    merged by them. Hudi fails in both cases, too."""
    properties = state.properties
    feature = "partition columns left out of the files (hoodie.datasource.write.drop.partition.columns=true)"
    if fields != properties.partition_fields:
        raise TableError(
            f"{feature}: the paths of table {state.facts.table} have another number of parts than it has partition "
            "columns, so their values are unknown; Hudi does not read it either"
        )
    needed = _merging_columns(state, rules) | _lower_columns(properties.ordering_fields)
    if merging and (merged_by := needed & _lower(fields)):
        raise TableError(
            f"{feature}: {state.facts.table} merges by {', '.join(sorted(merged_by))}, which its log records lack; "
            "Hudi does not read it either"
        )


def _checked_history(state: TableState, path_fields: Collection[str]) -> str:
    """The schema-on-read history. SchemaMismatch unless it has the ids of all columns in the files."""
    if state.schema_history:
        where = f"table {state.facts.table}"
        check_current(state.schema.record, parse_history(state.schema_history, where), path_fields, where)
    return state.schema_history
