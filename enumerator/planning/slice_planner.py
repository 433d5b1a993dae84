"""The pure planner: a table's state and a request in, ordered splits out. Same input, same bytes.

Belongs here: which file slices a query reads, and the splits they become. Not here: I/O (`discovery`), what a range
touches (`selection`), event-time bounds and runs of row groups (`bounds`, `row_groups`: they need footers).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from penstock.enumerator.planning.log_writes import LogContents, log_contents, without_gone_logs
from penstock.enumerator.planning.missing_files import LaterEvidence, Missing, later_evidence, missing_of_group
from penstock.enumerator.planning.pruning.partitions import filter_of_rows
from penstock.enumerator.planning.row_lineage import RowLineages
from penstock.enumerator.planning.scan import (
    refuse_unread_format,
    refuse_without_meta_columns,
    scan_of,
    scope_of,
    wanted_columns,
)
from penstock.enumerator.planning.selection import Selection, asks_ancestors
from penstock.enumerator.planning.split_ids import in_commit_order, slice_id
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.splits import (
    Exclusions,
    Plan,
    RowLineage,
    Scan,
    Split,
)
from penstock.table.files.names import LogName
from penstock.table.files.slices import (
    DataFile,
    GroupId,
    OrderedUpTo,
    VisibleFiles,
    group_files,
    instant_is_visible,
    newest_base,
    slice_group,
    visible_files,
)
from penstock.table.partitions.pruning import partition_pruning
from penstock.table.partitions.values import partition_values
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema


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
        refuse_without_meta_columns(state.properties, state.facts.table)
    schema = arrow_schema(parse_record_schema(state.schema_json, f"schema of table {state.facts.table}"))
    columns = wanted_columns(request, schema, schema)
    gone: list[Missing] = []
    for selection in _alternatives(state):
        chosen = _choose(state, selection, skip_corrupt=request.skip_corrupt)
        if isinstance(chosen, Missing):
            gone.append(chosen)
            continue
        partitions = {item.group[0] for item in chosen}
        has_logs = any(item.files.logs for item in chosen)
        scan = scan_of(state, request, selection, schema, columns, partitions, has_logs=has_logs)
        kept = _not_ruled_out(state, schema, scan, filter_of_rows(request), chosen)
        splits = in_commit_order(_splits(state, selection, scan, kept))
        return Plan(scan=scan, commit_range=selection.commit_range, splits=splits)
    raise gone[0].error(state.facts.table)


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
    seen = later_evidence(state.facts, selection.view, state.committed)
    evidences = {selection.view: seen}
    by_group = group_files(state.files)
    hidden = _replaced_groups(state, selection)
    chosen: list[_Chosen] = []
    for group in sorted(_candidates(by_group, selection, seen) - hidden):
        if group[0] in state.pruned:
            continue
        view = selection.view_of(group)
        if view not in evidences:
            evidences[view] = later_evidence(state.facts, view, state.committed)
        evidence = evidences[view]
        files = by_group.get(group, [])
        if group not in evidence.replaced and not any(file.listed or file.named_by for file in files):
            continue  # cleaned away whole, and by no active instant replaced: an archived one ended it
        slices = slice_group(files, state.pending_compactions.get(group, frozenset()), state.committed)
        pick = newest_base if selection.base_files_only else visible_files
        found = pick(slices, view, state.committed)
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


def _not_ruled_out(
    state: TableState, schema: pa.Schema, scan: Scan, where: str, chosen: Collection[_Chosen]
) -> list[_Chosen]:
    """What is chosen, but for partitions whose path says that the filter keeps none of their rows."""
    pruning = partition_pruning(state.properties, schema, where) if scan.partition_fields else None
    return [item for item in chosen if pruning is None or not pruning.drops(item.group[0])]


def _splits(state: TableState, selection: Selection, scan: Scan, chosen: Collection[_Chosen]) -> list[Split]:
    make = _SplitMaker(
        state, scan, scope_of(state, selection, scan), log_contents(state.facts, _logs_of(state, selection, chosen))
    )
    ancestries = RowLineages(state, selection, lambda group, files, *told: make.split(group, files, "", *told))
    return [
        make.split(item.group, item.files, item.order_key, *ancestries.told(item.group, item.files)) for item in chosen
    ]


def _logs_of(state: TableState, selection: Selection, chosen: Collection[_Chosen]) -> list[DataFile]:
    """The logs that may be read: those chosen, and where ancestors may be asked all that are there."""
    if asks_ancestors(selection):
        return [file for file in state.files if isinstance(file.name, LogName)]
    return [log for item in chosen for log in item.files.logs]


@dataclass(frozen=True, slots=True)
class _SplitMaker:
    """Makes splits of a scan out of the files of slices."""

    state: TableState
    scan: Scan
    scope: str
    contents: LogContents

    def split(
        self,
        group: GroupId,
        files: VisibleFiles,
        order_key: str,
        ancestry: RowLineage | None,
        left_out: Exclusions | None,
    ) -> Split:
        """One slice's; without an order key at that of its newest file."""
        partition, file_id = group
        base = files.base
        if base is not None:
            refuse_unread_format(self.state, base)
        logs = tuple(self.contents.ref(log) for log in files.logs)
        sharing = self.scan.visible if self.state.properties.layout == 1 else None
        return Split(
            split_id=slice_id(self.scope, group, base.ref if base else None, logs, left_out, sharing=sharing),
            partition=partition,
            partition_values=partition_values(partition, self.scan.partition_fields) or (),
            file_group=file_id,
            order_key=InstantTime(order_key or _newest_key(self.state, files)),
            base=base.ref if base else None,
            base_instant=base.name.instant if base else "",
            logs=logs,
            ancestry=ancestry,
            left_out=left_out,
        )
