"""The pure planner: a table's state and a request in, ordered splits out. Same input, same bytes.

Belongs here: which file slices a query reads, and the splits they become. Not here: I/O (`discovery`), what a range
touches (`selection`), event-time bounds and runs of row groups (`bounds`, `row_groups`: they need footers).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.enumerator.ancestry import Ancestries
from penstock.enumerator.filtered_partitions import filter_of_rows
from penstock.enumerator.log_writes import LogContents, log_contents, without_gone_logs
from penstock.enumerator.missing import LaterEvidence, Missing, later_evidence, missing_of_group
from penstock.enumerator.selection import Selection
from penstock.enumerator.split_ids import in_commit_order, scope_id, slice_id
from penstock.enumerator.table_state import TableState
from penstock.proto.errors import ConfigurationError, TableError, UnsupportedFeature
from penstock.proto.positions import InstantTime
from penstock.proto.queries import Incremental, PlanRequest
from penstock.proto.splits import (
    Ancestry,
    CommitTimeOrdering,
    DeleteMarker,
    EventTimeOrdering,
    Plan,
    RowsOf,
    Scan,
    Split,
    VisibleInstants,
)
from penstock.table.columns import resolve_column, resolve_columns
from penstock.table.merge_rules import merge_rules
from penstock.table.names import BaseName, LogName
from penstock.table.partition_pruning import partition_pruning
from penstock.table.partition_values import partition_values, path_value_fields
from penstock.table.payload_classes import MergeRules
from penstock.table.predicate import parse_predicate
from penstock.table.record_keys import keys_may_be_named, virtual_key_fields
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.history import check_current, parse_history
from penstock.table.slices import (
    DataFile,
    GroupId,
    OrderedUpTo,
    RequestedUpTo,
    VisibleFiles,
    group_files,
    instant_is_visible,
    newest_base,
    slice_group,
    visible_files,
)

_ALL_NINES: Final = "9" * 24


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What is read of a file group, and the split's place in commit order."""

    group: GroupId
    files: VisibleFiles
    order_key: InstantTime


def plan_splits(state: TableState, request: PlanRequest) -> Plan:
    """The plan of a request: one split a file slice, by order key, then split id.

    The preferred alternative whose files are all there is planned. PositionExpired or CorruptFile if every one lacks a
    file; ConfigurationError for a column, filter or event-time column that does not suit the table;
    UnsupportedFeature for what a chosen file or the table's merging needs and this build has not.
    """
    if isinstance(request.query, Incremental):
        refuse_without_meta_columns(state)
    schema = arrow_schema(parse_record_schema(state.schema_json, f"schema of table {state.facts.table}"))
    columns = resolve_columns(request.columns, schema.names)
    if request.where:
        parse_predicate(request.where, schema)
    if request.event_time:
        event_time_column(request.event_time, schema)
    if request.delete_marker is not None:
        resolve_column(request.delete_marker.field, schema.names)
    gone: list[Missing] = []
    for selection in _alternatives(state):
        chosen = _choose(state, selection, skip_corrupt=request.skip_corrupt)
        if isinstance(chosen, Missing):
            gone.append(chosen)
            continue
        has_logs = any(item.files.logs for item in chosen)
        rules = merge_rules_of(state, request.delete_marker, has_logs=has_logs)
        fields = path_fields(state, schema, {item.group[0] for item in chosen}, rules, merging=has_logs)
        keys = virtual_key_fields(state.properties) if has_logs else ()
        where = filter_of_rows(request)
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
            key_fields=keys,
            keys_may_be_named=bool(keys) and keys_may_be_named(state.properties),
            schema_history=checked_history(state, fields),
        )
        splits = in_commit_order(_splits(state, selection, scan, _not_ruled_out(state, schema, fields, where, chosen)))
        return Plan(scan=scan, commit_range=selection.commit_range, splits=splits)
    raise gone[0].error(state.facts.table)


def refuse_without_meta_columns(state: TableState) -> None:
    """Hudi refuses ranges of such a table too."""
    if not state.properties.populate_meta_fields:
        raise ConfigurationError(
            f"range of a table without meta columns: rows of table {state.facts.table} do not tell their instant "
            "(hoodie.populate.meta.fields=false), and Hudi refuses it, too; read a snapshot"
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


def _alternatives(state: TableState) -> list[Selection]:
    """The selections in order of preference, but the view with services behind the range first once the cleaner has
    begun to take what the range's own instants wrote: the newest files with the same rows are the last it takes."""
    instants = state.selections[0].instants
    begun = any(file.named_by in instants and not file.listed for file in state.files)
    return sorted(state.selections, key=lambda selection: begun and not _lets_services_in(selection))


def _lets_services_in(selection: Selection) -> bool:
    return isinstance(selection.view, OrderedUpTo) and bool(selection.view.services)


def _choose(state: TableState, selection: Selection, *, skip_corrupt: bool) -> list[_Chosen] | Missing:
    """What is read of each selected group that is not replaced and has something to show, by group."""
    evidence = later_evidence(state.facts, selection.view, state.committed)
    by_group = group_files(state.files)
    hidden = _replaced_groups(state, selection)
    chosen: list[_Chosen] = []
    for group in sorted(_candidates(by_group, selection, evidence) - hidden):
        if group[0] in state.pruned:
            continue
        files = by_group.get(group, [])
        if group not in evidence.replaced and not any(file.listed or file.named_by for file in files):
            continue  # cleaned away whole, and by no active instant replaced: an archived one ended it
        slices = slice_group(files, state.pending_compactions.get(group, frozenset()), state.committed)
        pick = newest_base if selection.base_files_only else visible_files
        found = pick(slices, selection.view, state.committed)
        missing = missing_of_group(group, slices, found, evidence, state.cleaned)
        if skip_corrupt and missing is not None and missing.is_unexplained:
            found = without_gone_logs(found, state)
            missing = missing_of_group(group, slices, found, evidence, state.cleaned)
        if missing is not None:
            return missing
        if found is not None:
            chosen.append(_Chosen(group, found, _order_key(state, selection, group, found)))
    return chosen


def _candidates(by_group: Collection[GroupId], selection: Selection, evidence: LaterEvidence) -> set[GroupId]:
    if selection.groups is not None:
        return set(selection.groups)
    return {*by_group, *evidence.built_on, *evidence.replaced}


def _replaced_groups(state: TableState, selection: Selection) -> set[GroupId]:
    """Groups that an instant in the view replaced: insert_overwrite, delete_partition, clustering."""
    return {
        group
        for requested_time, commit in state.facts.commits.items()
        if commit.replaced and instant_is_visible(requested_time, selection.view, state.committed)
        for group in commit.replaced
    }


def _order_key(state: TableState, selection: Selection, group: GroupId, found: VisibleFiles) -> InstantTime:
    if selection.groups is not None:
        return selection.groups[group]
    return _newest_key(state, found)


def _newest_key(state: TableState, found: VisibleFiles) -> InstantTime:
    return InstantTime(max(state.committed.order_key(file.name.instant) for file in found.files))


def merge_rules_of(state: TableState, asked_marker: DeleteMarker | None, *, has_logs: bool) -> MergeRules:
    """The table's merge rules, if there is anything to merge: a table that has none we know is refused only then."""
    if has_logs:
        return merge_rules(state.properties, asked_marker)
    return MergeRules(mode=CommitTimeOrdering())


def visible_instants(state: TableState, selection: Selection) -> VisibleInstants:
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


def path_fields(
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


def _not_ruled_out(
    state: TableState, schema: pa.Schema, path_fields: Collection[str], where: str, chosen: Collection[_Chosen]
) -> list[_Chosen]:
    """What is chosen, but for partitions whose path says that the filter keeps none of their rows."""
    pruning = partition_pruning(state.properties, schema, where) if path_fields else None
    return [item for item in chosen if pruning is None or not pruning.drops(item.group[0])]


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


def checked_history(state: TableState, path_fields: Collection[str]) -> str:
    """The schema-on-read history, if it tells the ids of all columns that files have."""
    if state.schema_history:
        where = f"table {state.facts.table}"
        record = parse_record_schema(state.schema_json, where)
        check_current(record, parse_history(state.schema_history, where), path_fields, where)
    return state.schema_history


def _splits(state: TableState, selection: Selection, scan: Scan, chosen: Collection[_Chosen]) -> list[Split]:
    marker = () if scan.delete_marker is None else (scan.delete_marker.field, scan.delete_marker.value)
    scope = scope_id(
        (state.properties.database, state.properties.name, state.properties.base_path, *marker),
        selection.view,
        selection.rows,
        scan.visible,
        by_blocks=state.properties.layout == 1,
    )
    make = _SplitMaker(state, scan, scope, log_contents(state.facts, _logs_of(state, selection, chosen)))
    ancestries = Ancestries(state, selection, lambda group, files, ancestry: make.split(group, files, "", ancestry))
    return [
        make.split(item.group, item.files, item.order_key, ancestries.of(item.group, item.files.base))
        for item in chosen
    ]


def _logs_of(state: TableState, selection: Selection, chosen: Collection[_Chosen]) -> list[DataFile]:
    """The logs that may be read: those chosen, and where ancestors may be asked all that are there."""
    if isinstance(selection.rows, RowsOf) and selection.rows.log_compactions:
        return [file for file in state.files if isinstance(file.name, LogName)]
    return [log for item in chosen for log in item.files.logs]


@dataclass(frozen=True, slots=True)
class _SplitMaker:
    """Makes splits of a scan out of the files of slices."""

    state: TableState
    scan: Scan
    scope: str
    contents: LogContents

    def split(self, group: GroupId, files: VisibleFiles, order_key: str, ancestry: Ancestry | None) -> Split:
        """One slice's; without an order key at that of its newest file."""
        partition, file_id = group
        base = files.base
        if base is not None and isinstance(base.name, BaseName) and base.name.extension != "parquet":
            raise UnsupportedFeature(
                f"base file format {base.name.extension}: file {base.ref.path} of table {self.state.facts.table}; "
                "this build reads parquet"
            )
        logs = tuple(self.contents.ref(log) for log in files.logs)
        return Split(
            split_id=slice_id(self.scope, group, base.ref if base else None, logs),
            partition=partition,
            partition_values=partition_values(partition, self.scan.partition_fields) or (),
            file_group=file_id,
            order_key=InstantTime(order_key or _newest_key(self.state, files)),
            base=base.ref if base else None,
            base_instant=base.name.instant if base else "",
            logs=logs,
            ancestry=ancestry,
        )
