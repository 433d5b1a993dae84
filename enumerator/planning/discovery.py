"""Everything planning needs to know of a table, read in one go: `discover` returns a frozen `TableState`.

Shell: all reads of the timeline, its metadata and the partitions' folders are here. Not here: decisions about them
(`selection`, `planner`), data files' contents (`footers`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from penstock.enumerator.log import log_fallback
from penstock.enumerator.planning.archived_timeline import asks_every_partition, checked_against, for_query
from penstock.enumerator.planning.file_inventory import CleanedFile, files_of_groups
from penstock.enumerator.planning.pruning.partitions import filter_of_rows, pruning_before_listing, ruled_out
from penstock.enumerator.planning.schemas import (
    commit_has_operation,
    schema_instant,
    schema_of_newest_file,
    stores_operation,
)
from penstock.enumerator.planning.selection import Selection, TimelineFacts, asks_ancestors, select
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.errors import CorruptFile
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.queries import Changes, PlanRequest, Query, SnapshotAsOf
from penstock.table.files.external_names import ExternalFiles, is_external
from penstock.table.files.names import LogName
from penstock.table.files.slices import CommittedInstants, DataFile, Everything, GroupId, instant_is_visible
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.listing import TableListing
from penstock.table.schema.history import history_json
from penstock.table.schema.tables import SCHEMA_HISTORY_KEY, has_operation, table_schema_json
from penstock.table.storage.filesystem import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.instants import Action, Instant

_PENDING_REPLACES: Final = (Action.REPLACE_COMMIT, Action.CLUSTERING)


def read_timeline(table: HudiTable, passed_over: Collection[str] = ()) -> TimelineFacts:
    """The active timeline with the metadata of every completed write; what was read before is not read again.

    `passed_over` are requested times of pending instants that hold nothing back, as pending clusterings do not."""
    timeline = table.timeline()
    commits: dict[str, CommitMetadata] = {item.requested_time: table.commit(item) for item in timeline.completed_writes}
    return TimelineFacts(
        table=redacted_uri(table.base_path),
        timeline=timeline,
        commits=commits,
        pending_clusterings=pending_clusterings(table, timeline).union(passed_over),
        complete_from=complete_from(table, timeline),
    )


def discover(table: HudiTable, table_name: str, request: PlanRequest, passed_over: Collection[str] = ()) -> TableState:
    """What planning the request needs, read from storage now; plans call the table `table_name`.

    The timeline is read before the folders, so a file that appears meanwhile belongs to an instant that is not known
    and does not count. Only partitions of selected groups are listed; all of them, if the query selects no groups.
    UnsupportedFeature, ConfigurationError, CorruptFile, StorageError.
    """
    table.refuse_unsupported()
    facts = for_query(table, read_timeline(table, passed_over), request.query)
    selections = select(request.query, facts)
    as_of = request.query.instant if isinstance(request.query, SnapshotAsOf) else None
    schema_json = table_schema(table, facts, as_of)
    at_end = schema_instant(request, facts, schema_json)
    if at_end is not None:
        as_of, schema_json = at_end, table_schema(table, facts, at_end, files_upto=at_end)
    wanted = _wanted_groups(selections)
    births = asks_every_partition(request.query, facts)
    known = _written_partitions(facts) if wanted is None else {partition for partition, _ in wanted}
    pruning = pruning_before_listing(table.properties, schema_json, filter_of_rows(request), facts, known)
    files_now = TableListing(table, facts.timeline, metadata=request.metadata, external=_external(table, facts))
    if wanted is None or births:
        listing = files_now.all_files(_every_partition(facts), pruning)
    else:
        listing = files_now.of({name for name in known if pruning is None or not pruning.drops(name)})
    if files_now.fallback:
        log_fallback(table_name, files_now.fallback)
    groups = None if wanted is None else wanted | _written_groups(facts, selections, listing)
    created = table.creating_instants(frozenset(listing)) if births else {}
    facts = checked_against(facts, listing, created, request.query)
    cleaned = _cleaned_files(table, facts, selections)
    files = files_of_groups(facts, listing, cleaned, groups, sizes_may_lag=files_now.from_metadata)
    pruned = ruled_out(pruning, {*known, *(file.partition for file in files)}, listing)
    return TableState(
        table=table_name,
        properties=table.properties,
        facts=facts,
        selections=selections,
        committed=_committed(table, facts, selections, files),
        files=tuple(file for file in files if file.partition not in pruned),
        cleaned={file.path: file.cleaned_by for file in cleaned},
        pending_compactions=_pending_compactions(table, facts.timeline),
        schema_json=schema_json,
        metadata_usable=not files_now.fallback,
        schema_history="" if request.columns_by_name else _schema_history(table, facts, as_of),
        pruned=pruned,
        storing_operations=_storing_operations(table, facts, request.query, selections, schema_json),
    )


def _storing_operations(
    table: HudiTable, facts: TimelineFacts, query: Query, selections: Collection[Selection], schema_json: str
) -> frozenset[InstantTime]:
    """The selected instants whose files have the column `_hoodie_operation`, for changes as rows of a table that has
    it; also those of which no file can be read, so that the plan fails by the file that is gone. One file of each
    instant is opened."""
    if not isinstance(query, Changes) or query.format is not ChangeFormat.ROWS:
        return frozenset()
    if not has_operation(schema_json, f"schema of table {facts.table}"):
        return frozenset()
    instants = {instant for selection in selections for instant in selection.instants}
    return frozenset(instant for instant in instants if commit_has_operation(table, facts, instant) is not False)


def _external(table: HudiTable, facts: TimelineFacts) -> ExternalFiles:
    """Whether instants registered files of other writers: such tables are written without meta columns."""
    if any(is_external(stat.path) for commit in facts.commits.values() for stat in commit.stats):
        return ExternalFiles.KNOWN
    archived = facts.complete_from and not table.properties.populate_meta_fields
    return ExternalFiles.POSSIBLE if archived else ExternalFiles.NONE


def _every_partition(facts: TimelineFacts) -> set[str] | None:
    """Every partition there can be, if active instants wrote all of the table; None if any was archived."""
    return None if facts.complete_from or not facts.commits else _written_partitions(facts)


def _written_partitions(facts: TimelineFacts) -> set[str]:
    """The partitions that known instants wrote into or replaced groups in."""
    known = {stat.partition for commit in facts.commits.values() for stat in commit.stats}
    return known | {partition for commit in facts.commits.values() for partition, _ in commit.replaced}


def _wanted_groups(selections: Collection[Selection]) -> frozenset[GroupId] | None:
    """The groups of all alternatives; None for every group of the table."""
    wanted: set[GroupId] = set()
    for selection in selections:
        if selection.groups is None:
            return None
        wanted.update(selection.groups)
    return frozenset(wanted)


def _written_groups(
    facts: TimelineFacts, selections: Collection[Selection], partitions: Collection[str]
) -> set[GroupId]:
    """Groups in these partitions that the range's instants wrote to, those that were replaced later included; and all
    that a service replaced, where services left rows that only those groups can tell the writer of (`ancestry`)."""
    instants = {instant for selection in selections for instant in selection.instants}
    written = {
        (stat.partition, stat.file_id)
        for instant in instants
        for stat in facts.commits[instant].stats
        if stat.partition in partitions
    }
    if any(asks_ancestors(selection) for selection in selections):
        services = (commit for commit in facts.commits.values() if commit.is_service)
        written |= {group for commit in services for group in commit.replaced if group[0] in partitions}
    return written


def pending_clusterings(table: HudiTable, timeline: Timeline) -> frozenset[str]:
    """Requested times of pending replacecommits that are clusterings; on layout 1 only their requested files tell."""
    return frozenset(
        item.requested_time
        for item in timeline.pending
        if item.action in _PENDING_REPLACES
        and (item.action is Action.CLUSTERING or (timeline.layout == 1 and table.requested_replace(item).is_clustering))
    )


def _pending_compactions(table: HudiTable, timeline: Timeline) -> dict[GroupId, frozenset[str]]:
    found: dict[GroupId, frozenset[str]] = {}
    for item in timeline.pending:
        if item.action is Action.COMPACTION:
            for group in table.compaction_plan(item):
                known = found.get((group.partition, group.file_id), frozenset())
                found[group.partition, group.file_id] = known | {item.requested_time}
    return found


def complete_from(table: HudiTable, timeline: Timeline) -> str:
    """The order key from which on the active timeline lacks nothing; '' if nothing was archived.

    On layout 1 everything archived was requested before the first active instant. On layout 2 a slow instant may have
    been archived although it completed behind active ones, so the history's completion times tell.
    """
    if not table.has_archived():
        return ""
    if timeline.layout == 1:
        return timeline.first_active
    return max(table.archived_completions().values(), default="" if table.has_history() else timeline.first_active)


def _cleaned_files(
    table: HudiTable, facts: TimelineFacts, selections: Collection[Selection]
) -> tuple[CleanedFile, ...]:
    """Files that known cleans removed; none if the view shows all instants, since what it needs is never cleaned."""
    completed = facts.timeline.completed_writes
    committed = _active_committed(facts)
    if all(
        isinstance(selection.view, Everything)
        or (
            selection.ends_at is None
            and all(instant_is_visible(item.requested_time, selection.view, committed) for item in completed)
        )
        for selection in selections
    ):
        return ()
    active = [(clean.requested_time, table.clean(clean)) for clean in _active_cleans(facts)]
    return tuple(
        CleanedFile(partition.partition, name, requested_time)
        for requested_time, clean in (*facts.archived_cleans, *active)
        for partition in clean.partitions
        for name in partition.file_names
    )


def _active_cleans(facts: TimelineFacts) -> list[Instant]:
    archived = {requested_time for requested_time, _ in facts.archived_cleans}
    return [clean for clean in facts.timeline.completed_cleans if clean.requested_time not in archived]


def _active_committed(facts: TimelineFacts) -> CommittedInstants:
    timeline = facts.timeline
    return CommittedInstants(
        layout=timeline.layout,
        order_keys={item.requested_time: timeline.order_key(item) for item in timeline.completed_writes},
        archived_before=timeline.first_active,
    )


def _committed(
    table: HudiTable, facts: TimelineFacts, selections: Collection[Selection], files: Collection[DataFile]
) -> CommittedInstants:
    """Committed instants, with the completion times of archived ones where a decision may turn on them: slicing of
    their logs, and a view by order key."""
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


def table_schema(
    table: HudiTable, facts: TimelineFacts, as_of: str | None = None, *, files_upto: str | None = None
) -> str:
    """The table's schema: as commits or the table's properties recorded it, else as its newest data file has it.

    `_hoodie_operation` is a column if the newest data file has it (of instants requested up to `files_upto`, if given).
    SchemaMismatch if nothing has a schema.
    """
    recorded = recorded_schemas(facts, as_of)
    if any(text.strip() for text in recorded) or table.properties.create_schema.strip():
        return table_schema_json(
            recorded, table.properties, stores_operation=stores_operation(table, facts, files_upto)
        )
    found = schema_of_newest_file(table.storage, facts, _schema_order(facts, as_of))
    own = bool(found) and has_operation(found, f"the newest data file of table {facts.table}")
    return table_schema_json([found], table.properties, stores_operation=own)


def recorded_schemas(facts: TimelineFacts, as_of: str | None = None) -> list[str]:
    """Schemas that active commits recorded, by preference: newest first, those of services last, which may have begun
    before the schema changed (`HoodieActiveTimeline.getLastCommitMetadataWithValidSchema`); as of a requested time its
    own and older ones newest first, then newer ones oldest first (as of a time before every commit there is no row to
    be wrong)."""
    commits = [facts.commits[instant] for instant in _schema_order(facts, as_of)]
    if as_of is None:
        commits.sort(key=lambda commit: not commit.may_change_schema)
    return [commit.schema_json for commit in commits]


def _schema_order(facts: TimelineFacts, as_of: str | None) -> list[InstantTime]:
    recorded = [item.requested_time for item in facts.timeline.completed_writes]
    if as_of is None:
        return recorded[::-1]
    shown = sum(instant <= as_of for instant in recorded)
    return [*recorded[:shown][::-1], *recorded[shown:]]


def _schema_history(table: HudiTable, facts: TimelineFacts, as_of: str | None) -> str:
    """The schema-on-read history (`table.schema.history`) that belongs to the schema which `recorded_schemas` prefers,
    '' if the table had none by then, or a writer without schema-on-read came after it: Hudi then finds columns by name.

    What cannot change a schema does not count, as in `TableSchemaResolver.getTableInternalSchemaFromCommitMetadata`.
    CorruptFile if the stored history is gone.
    """
    with_schema = [item for item in _schema_order(facts, as_of) if facts.commits[item].schema_json.strip()]
    writers = [item for item in with_schema if facts.commits[item].may_change_schema]
    chosen = next(iter(writers or with_schema), None)
    current = facts.commits[chosen].extra.get(SCHEMA_HISTORY_KEY, "") if chosen is not None else ""
    if not current.strip():
        return ""
    stored = table.schema_commits()
    if not stored:
        raise CorruptFile(
            f"table {facts.table}: commit {chosen} is of a schema-on-read history, and .hoodie/.schema holds none: "
            "restore it, or read with columnsByName=on"
        )
    return history_json(current, table.schema_history(stored[-1][1]), f"table {facts.table}")
