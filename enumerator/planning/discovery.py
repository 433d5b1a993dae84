"""Read everything that planning needs about a table: `discover` returns a frozen `TableState`.

All reads of the timeline, its metadata and the partitions' folders happen here. `schemas` opens data files where a
schema requires it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC
from typing import Final

from penstock.enumerator.log import log_fallback
from penstock.enumerator.planning.archived_timeline import checked_against, for_query, needs_every_partition
from penstock.enumerator.planning.file_inventory import CleanedFile, files_of_groups, is_skeleton, with_sources
from penstock.enumerator.planning.pruning.partitions import partitions_to_prune, pruned_partitions
from penstock.enumerator.planning.scan import bind_request, refuse_without_meta_columns
from penstock.enumerator.planning.schemas import (
    commit_has_operation,
    schema_history,
    schema_instant,
    table_schema_text,
)
from penstock.enumerator.planning.selection import Selection, TimelineFacts, needs_lineage, select
from penstock.enumerator.planning.table_state import BoundRequest, TableSchema, TableState
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat, ChangesOf
from penstock.proto.model.positions import MAX_COMPLETIONS, CompletionTimes, InstantTime
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Query, SnapshotAsOf
from penstock.proto.model.splits import AllRows, RowsOf
from penstock.table.bootstrap.index import INDEX_FILE, read_sources
from penstock.table.files.external_names import ExternalFiles
from penstock.table.files.names import LogName, parse_file_name
from penstock.table.files.slices import CommittedInstants, DataFile, Everything, GroupId, hidden_instants
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.listing import TableListing
from penstock.table.schema.avro import OPERATION
from penstock.table.schema.completion import returned_schema
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action, Instant
from penstock.table.timeline.zones import completion_times, named_zone

_PENDING_REPLACES: Final = (Action.REPLACE_COMMIT, Action.CLUSTERING)


def read_timeline(table: HudiTable, passed_over: Collection[str] = ()) -> TimelineFacts:
    """The active timeline with the metadata of every completed write. Metadata that was read before is cached.

    `passed_over` are the requested times of pending instants to be ignored, as pending clusterings are. A pinned table
    is read once.
    """
    key = ("read_timeline", frozenset(passed_over))
    return table.once_pinned(key, lambda: _read_timeline(table, passed_over))


def _read_timeline(table: HudiTable, passed_over: Collection[str]) -> TimelineFacts:
    timeline = table.timeline()
    return TimelineFacts(
        table=redacted_uri(table.base_path),
        timeline=timeline,
        commits=table.commits_of(timeline),
        pending_clusterings=pending_clusterings(table, timeline).union(passed_over),
        complete_from=complete_from(table, timeline),
    )


def discover(table: HudiTable, table_name: str, request: PlanRequest, passed_over: Collection[str] = ()) -> TableState:
    """Read the state of the table that planning the request needs, and bind the request to the table's schema.

    `table_name` is the table's name in plans. The timeline is read before the folders, so a file that appears in the
    meantime belongs to an unknown instant and does not count. Only partitions of selected groups are listed, or all if
    the query does not select groups. UnsupportedFeature; ConfigurationError for a column, filter or event-time column
    that does not fit the table; PositionExpired, SchemaMismatch, CorruptFile, StorageError.
    """
    table.refuse_unsupported()
    active = read_timeline(table, passed_over)
    facts = for_query(table, active, request.query)
    selections = select(request.query, facts)
    as_of = request.query.instant if isinstance(request.query, SnapshotAsOf) else None
    where = f"schema of table {facts.table}"
    schema = TableSchema.parse(table_schema_text(table, facts, as_of), where)
    as_of_end = schema_instant(request, facts, schema)
    if as_of_end is not None:
        as_of = as_of_end
        schema = TableSchema.parse(table_schema_text(table, facts, as_of_end, files_upto=as_of_end), where)
    bound = _bound_request(table, facts, request, schema)
    selected = _selected_groups(selections)
    lists_all = needs_every_partition(request.query, facts)
    known = _written_partitions(facts) if selected is None else {partition for partition, _ in selected}
    pruning = partitions_to_prune(table.properties, schema.arrow, bound.row_filter, facts, known)
    files_now = TableListing(table, facts.timeline, metadata=request.metadata, external=_external(table, facts))
    if selected is None or lists_all:
        listing = files_now.all_files(_every_partition(facts), pruning)
    else:
        listing = files_now.of({name for name in known if pruning is None or not pruning.drops(name)})
    if files_now.fallback:
        log_fallback(table_name, files_now.fallback)
    groups = None if selected is None else selected | _written_groups(facts, selections, listing)
    created = table.creating_instants(frozenset(listing)) if lists_all else {}
    facts = checked_against(facts, listing, created, request.query)
    cleaned = _cleaned_files(table, facts, selections, active.timeline)
    pruned = pruned_partitions(pruning, {*known, *listing, *(file.partition for file in cleaned)}, listing)
    whole = facts
    if not lists_all and not isinstance(request.query, Changes):
        facts = _within_partitions(facts, selected is not None or bool(pruned), known.difference(pruned))
    files = files_of_groups(facts, listing, cleaned, groups, pruned, sizes_may_lag=files_now.from_metadata)
    files = _with_sources(table, files)
    return TableState(
        table=table_name,
        properties=table.properties,
        facts=facts,
        request=bound,
        selections=selections,
        committed=_committed(table, facts, selections, files),
        files=files,
        cleaned={file.path: file.cleaned_by for file in cleaned},
        pending_compactions=_pending_compactions(table, facts.timeline),
        schema=schema,
        metadata_usable=not files_now.fallback,
        schema_history="" if request.columns_by_name else schema_history(table, whole, as_of),
        pruned=pruned,
        storing_operations=_storing_operations(table, whole, request.query, selections, schema),
        completion_times=_completion_times(table, active.timeline, request, selections),
    )


def _with_sources(table: HudiTable, files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    """The files of a bootstrapped table, its skeletons with their source files. The index is read again once its file
    changes."""
    if not table.properties.bootstrap_base_path:
        return files
    partitions = frozenset(file.partition for file in files if is_skeleton(file))
    if not partitions:
        return files
    key = ("bootstrap index", partitions, table.storage.file_info(INDEX_FILE))
    return with_sources(files, table.derived_once(key, lambda: read_sources(table.storage, partitions)))


def _bound_request(table: HudiTable, facts: TimelineFacts, request: PlanRequest, schema: TableSchema) -> BoundRequest:
    query = request.query
    if isinstance(query, Incremental | Changes):
        refuse_without_meta_columns(table.properties, facts.table)
    changes = query.format if isinstance(query, Changes) else None
    returned = returned_schema(schema.arrow, changes, completion_time=request.completion_time)
    return bind_request(request, schema, returned)


def _completion_times(
    table: HudiTable, active: Timeline, request: PlanRequest, selections: Collection[Selection]
) -> CompletionTimes | None:
    """The completion times of the instants whose rows the selections may return; None unless they are requested.

    They are those of the active timeline, and of the history if it may hold others of these instants. Empty on layout
    1. ConfigurationError if the timeline's zone is not known, or for more than MAX_COMPLETIONS instants.
    """
    if not request.completion_time:
        return None
    if table.properties.layout == 1:
        return CompletionTimes()
    known = {item.requested_time: active.order_key(item) for item in active.completed_writes}
    needed = _instants_of_rows(selections)
    if needed is None or not needed <= known.keys():
        known = {**table.archived_completions(), **known}
    if needed is not None:
        known = {instant: known[instant] for instant in needed & known.keys()}
    where = redacted_uri(table.base_path)
    if len(known) > MAX_COMPLETIONS:
        raise ConfigurationError(
            f"option completionTime: the timeline of table {where} has {len(known)} instants, expected at most "
            f"{MAX_COMPLETIONS}; leave the option out, or read a range of instants"
        )
    if table.properties.timezone.upper() != "UTC" and not request.timeline_timezone:
        raise ConfigurationError(
            f"option completionTime: the timeline of table {where} is written in its writer's local time "
            "(hoodie.table.timeline.timezone=LOCAL), so the times of its commits are not known; set the option "
            "timelineTimezone to the writer's zone, such as Europe/Berlin"
        )
    zone = UTC if table.properties.timezone.upper() == "UTC" else named_zone(request.timeline_timezone)
    return completion_times(known, zone)


def _instants_of_rows(selections: Collection[Selection]) -> frozenset[InstantTime] | None:
    """The instants that the returned rows may carry; None for any."""
    instants: set[InstantTime] = set()
    for selection in selections:
        match selection.rows:
            case AllRows():
                return None
            case RowsOf(of_range, services):
                instants |= of_range | services
            case ChangesOf():
                instants |= selection.instants
    return frozenset(instants)


def _storing_operations(
    table: HudiTable, facts: TimelineFacts, query: Query, selections: Collection[Selection], schema: TableSchema
) -> frozenset[InstantTime]:
    """For changes as rows of a table with the column `_hoodie_operation`: the selected instants whose files have it.

    Instants of which no file can be read are included, so that planning fails with the missing file. Opens one file of
    each instant.
    """
    if not isinstance(query, Changes) or query.format is not ChangeFormat.ROWS:
        return frozenset()
    if OPERATION not in schema.record.by_name():
        return frozenset()
    instants = {instant for selection in selections for instant in selection.instants}
    return frozenset(instant for instant in instants if commit_has_operation(table, facts, instant) is not False)


def _external(table: HudiTable, facts: TimelineFacts) -> ExternalFiles:
    """Whether instants registered files of external writers. Such tables are written without meta columns."""
    if registering := [commit for commit in facts.commits.values() if commit.has_external_files]:
        for commit in registering:
            commit.decode()  # which of their files count is decided by the metadata table alone: none may be damaged
        return ExternalFiles.KNOWN
    archived = facts.complete_from and not table.properties.populate_meta_fields
    return ExternalFiles.POSSIBLE if archived else ExternalFiles.NONE


def _every_partition(facts: TimelineFacts) -> set[str] | None:
    """All partitions that can exist if active instants wrote the whole table; None if an instant was archived."""
    return None if facts.complete_from or not facts.commits else _written_partitions(facts)


def _written_partitions(facts: TimelineFacts) -> set[str]:
    """The partitions in which known instants wrote or replaced groups."""
    known = {partition for commit in facts.commits.values() for partition in commit.partitions}
    return known | {partition for commit in facts.commits.values() for partition, _ in commit.replaced}


def _within_partitions(facts: TimelineFacts, only_some: bool, partitions: Collection[str]) -> TimelineFacts:
    """The facts with the write stats of these partitions only, if only some are read: no others are decoded."""
    if not only_some:
        return facts
    return replace(facts, commits={time: commit.within(partitions) for time, commit in facts.commits.items()})


def _selected_groups(selections: Collection[Selection]) -> frozenset[GroupId] | None:
    """The groups of all alternative selections; None for every group of the table."""
    groups: set[GroupId] = set()
    for selection in selections:
        if selection.groups is None:
            return None
        groups.update(selection.groups)
    return frozenset(groups)


def _written_groups(
    facts: TimelineFacts, selections: Collection[Selection], partitions: Collection[str]
) -> set[GroupId]:
    """The groups in these partitions that the range's instants wrote into, those that were replaced later included.

    If the plan needs row lineage, also all groups that a service replaced (`row_lineage`).
    """
    instants = {instant for selection in selections for instant in selection.instants}
    written = {
        (stat.partition, stat.file_id)
        for instant in instants
        for stat in facts.commits[instant].stats
        if stat.partition in partitions
    }
    if any(needs_lineage(selection) for selection in selections):
        services = (commit for commit in facts.commits.values() if commit.is_service)
        written |= {group for commit in services for group in commit.replaced if group[0] in partitions}
    return written


def pending_clusterings(table: HudiTable, timeline: Timeline) -> frozenset[str]:
    """Requested times of pending replacecommits that are clusterings. On layout 1 their requested file says so."""
    return frozenset(
        item.requested_time
        for item in timeline.pending
        if item.action in _PENDING_REPLACES
        and (item.action is Action.CLUSTERING or (timeline.layout == 1 and table.requested_replace(item).is_clustering))
    )


def _pending_compactions(table: HudiTable, timeline: Timeline) -> dict[GroupId, frozenset[str]]:
    pending: dict[GroupId, frozenset[str]] = {}
    for item in timeline.pending:
        if item.action is Action.COMPACTION:
            for group in table.compaction_plan(item):
                known = pending.get((group.partition, group.file_id), frozenset())
                pending[group.partition, group.file_id] = known | {item.requested_time}
    return pending


def complete_from(table: HudiTable, timeline: Timeline) -> str:
    """The order key from which the active timeline is complete; '' if nothing was archived.

    On layout 1 every archived instant was requested before the first active one. On layout 2 a slow instant may be
    archived although it completed after active ones, so the completion times in the history decide.
    """
    if not table.has_archived():
        return ""
    if timeline.layout == 1:
        return timeline.first_active
    newest = table.newest_archived_completion()
    if newest is not None:
        return newest
    return "" if table.has_history() else timeline.first_active


def _cleaned_files(
    table: HudiTable, facts: TimelineFacts, selections: Collection[Selection], active: Timeline
) -> tuple[CleanedFile, ...]:
    """Files that known cleans removed; none if the view shows all instants, because no clean removes what it needs.

    Not: files of instants that a restore removed after the clean. If a savepoint is all that remains of the timeline
    before the restore, they are older than `first_active`, as archived ones are.
    """
    completed = facts.timeline.order_keys
    committed = _active_committed(facts)
    if all(
        isinstance(selection.view, Everything)
        or (selection.ends_at is None and not hidden_instants(completed, selection.view, committed))
        for selection in selections
    ):
        return ()
    cleans = [(clean.requested_time, table.clean(clean)) for clean in _active_cleans(facts)]
    files = tuple(
        CleanedFile(partition.partition, name, requested_time)
        for requested_time, clean in (*facts.archived_cleans, *cleans)
        for partition in clean.partitions
        for name in partition.file_names
    )
    if not files or all(item.action is not Action.RESTORE for item in active.completed_rollbacks):
        return files
    removed = table.rolled_back(active)
    return tuple(file for file in files if (name := parse_file_name(file.name)) is None or name.instant not in removed)


def _active_cleans(facts: TimelineFacts) -> list[Instant]:
    archived = {requested_time for requested_time, _ in facts.archived_cleans}
    return [clean for clean in facts.timeline.completed_cleans if clean.requested_time not in archived]


def _active_committed(facts: TimelineFacts) -> CommittedInstants:
    timeline = facts.timeline
    return CommittedInstants(
        layout=timeline.layout,
        order_keys=timeline.order_keys,
        archived_before=timeline.first_active,
    )


def _committed(
    table: HudiTable, facts: TimelineFacts, selections: Collection[Selection], files: Collection[DataFile]
) -> CommittedInstants:
    """Committed instants. The completion times of archived ones are included if slicing their logs or a view by order
    key may depend on them."""
    active = _active_committed(facts)
    if active.layout == 1 or not facts.complete_from:
        return active
    by_order = any(not isinstance(selection.view, Everything) for selection in selections)
    archived = (
        file
        for file in files
        if file.name.instant < active.archived_before and file.name.instant not in active.order_keys
    )
    if not any(by_order or isinstance(file.name, LogName) for file in archived):
        return active
    order_keys: dict[str, str] = {**dict(table.archived_completions().items()), **active.order_keys}
    return CommittedInstants(
        layout=active.layout,
        order_keys=order_keys,
        archived_before=active.archived_before,
    )
