"""The pure planner of changes: what each commit of a range did to each file group, and which files tell it.

Belongs here: how the changes of one commit are found (logged by the writer, stored as a changelog, or compared). Not
here: which instants and groups a range has (`selection`), reading (reader).

A step needs the group's state right before its commit and right after it. Those are views by commit order, whatever
services ran in between: compaction and clustering change files, never a state's rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from penstock.enumerator.planning.log_writes import LogContents, log_contents, without_gone_logs
from penstock.enumerator.planning.missing_files import Missing, later_evidence, missing_of_group
from penstock.enumerator.planning.scan import (
    refuse_unread_format,
    refuse_without_meta_columns,
    scan_of,
    scope_of,
    wanted_columns,
)
from penstock.enumerator.planning.selection import Selection, TimelineFacts, groups_of
from penstock.enumerator.planning.split_ids import changes_id, in_commit_order
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.errors import InvariantViolation, TableError
from penstock.proto.model.changes import (
    ChangeFormat,
    ChangesOf,
    ChangeSource,
    ChangeStep,
    ComparedStates,
    GroupChanges,
    LoggedImages,
    StoredKinds,
)
from penstock.proto.model.files import SliceFiles
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.queries import Changes, PlanRequest
from penstock.proto.model.splits import Plan, Split
from penstock.table.config.record_keys import keys_may_be_named, virtual_key_fields
from penstock.table.files.names import LogName, parse_file_name
from penstock.table.files.slices import (
    DataFile,
    FileSlice,
    GroupId,
    OrderedBefore,
    OrderedThrough,
    View,
    group_files,
    slice_group,
    visible_files,
)
from penstock.table.partitions.values import partition_values
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.changes import change_schema
from penstock.table.timeline.commits import CommitMetadata, WriteStat

_MODE_KEY: Final = "hoodie.table.cdc.supplemental.logging.mode"
_DATA_BEFORE: Final = "data_before"
_DATA_BEFORE_AFTER: Final = "data_before_after"
_SETTLED: Final = (pa.string(), pa.int32(), pa.int64(), pa.bool_())
"""Types of key columns whose text in a record key is theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A file group: its slices, and what the timeline tells of it alone. `ended` is where in commit order (order key,
    requested time) an instant replaced it, if one did."""

    id: GroupId
    slices: Sequence[FileSlice]
    facts: TimelineFacts
    ended: tuple[str, str] | None


def group_changes(
    state: TableState, selection: Selection, schema: pa.Schema, *, skip_corrupt: bool
) -> dict[GroupId, GroupChanges]:
    """The changes of every group that the range touched; groups without any are left out.

    `schema` is the table's. PositionExpired or CorruptFile if files that a step needs are gone.
    """
    if not isinstance(selection.rows, ChangesOf):
        raise InvariantViolation(f"a selection of {type(selection.rows).__name__}: expected one of changes")
    planner = _ChangePlanner(
        state=state,
        schema=schema,
        format=selection.rows.format,
        contents=_log_contents(state),
        listed={file.ref.path: file for file in state.files if file.listed},
        groups=_groups(state, selection),
        skip_corrupt=skip_corrupt,
    )
    for instant in selection.rows.instants:
        if instant in selection.instants:
            planner.add(selection, state.facts.commits[instant], InstantTime(state.committed.order_key(instant)))
    return {group: GroupChanges(tuple(steps)) for group, steps in planner.steps.items()}


@dataclass(slots=True, kw_only=True)
class _ChangePlanner:
    """Walks the range's commits in order and notes the steps of each group."""

    state: TableState
    schema: pa.Schema
    format: ChangeFormat
    contents: LogContents
    listed: Mapping[str, DataFile]
    groups: Mapping[GroupId, _Group]
    skip_corrupt: bool
    steps: dict[GroupId, list[ChangeStep]] = field(default_factory=dict)

    def add(self, selection: Selection, commit: CommitMetadata, order_key: InstantTime) -> None:
        """The selected steps of one commit: groups it replaced lose their rows, others change."""
        stats: dict[GroupId, list[WriteStat]] = {}
        for stat in commit.stats:
            if stat.path or stat.change_logs:
                stats.setdefault((stat.partition, stat.file_id), []).append(stat)
        for place, group_id in enumerate(groups_of(commit)):
            if not selection.holds(commit.requested_time, group_id):
                continue
            group = self.groups[group_id]
            here = (order_key, commit.requested_time)
            if group.ended is not None and group.ended < here:
                continue
            if group_id in commit.replaced:
                source = self._removed(group, here)
            elif group_id in stats:
                source = self._written(group, stats[group_id], here)
            else:
                continue
            if source is not None:
                step = ChangeStep(instant=commit.requested_time, order_key=order_key, place=place, source=source)
                self.steps.setdefault(group_id, []).append(step)

    def _removed(self, group: _Group, here: tuple[str, str]) -> ChangeSource | None:
        before = self._files(group, OrderedBefore(*here))
        return None if before is None else ComparedStates(before, None)

    def _written(self, group: _Group, stats: Sequence[WriteStat], here: tuple[str, str]) -> ChangeSource | None:
        if here[1] in self.state.storing_operations and not any(_rewrote(stat) for stat in stats):
            return self._stored(stats, here)
        logged = [path for stat in stats for path in sorted(stat.change_logs)]
        mode = self.state.properties.raw.get(_MODE_KEY, _DATA_BEFORE_AFTER).strip().lower()
        key_fields = self._key_fields() if mode == _DATA_BEFORE_AFTER and self.format is ChangeFormat.ROWS else ()
        if logged and key_fields is not None and all(path in self.listed for path in logged):
            return LoggedImages(
                tuple(self.listed[path].ref for path in logged),
                before=self._files(group, OrderedBefore(*here)) if not mode.startswith(_DATA_BEFORE) else None,
                after=self._files(group, OrderedThrough(*here)) if mode != _DATA_BEFORE_AFTER else None,
                key_fields=key_fields,
            )
        before, after = self._files(group, OrderedBefore(*here)), self._files(group, OrderedThrough(*here))
        return None if before is None and after is None else ComparedStates(before, after)

    def _key_fields(self) -> tuple[str, ...] | None:
        """The columns that keys are made of; None if they do not settle the key's text."""
        made = replace(self.state.properties, populate_meta_fields=False)
        try:
            fields = virtual_key_fields(made)
        except TableError:
            return None
        if keys_may_be_named(made):
            return None
        settled = all(name in self.schema.names and self.schema.field(name).type in _SETTLED for name in fields)
        return fields if settled else None

    def _stored(self, stats: Sequence[WriteStat], here: tuple[str, str]) -> ChangeSource | None:
        """The very files that the commit wrote into, one base file at most."""
        base: DataFile | None = None
        logs: list[DataFile] = []
        for path in sorted({stat.path for stat in stats if stat.path}):
            file = self.listed.get(path)
            if file is None:
                cleaned_by = self.state.cleaned.get(path, "")
                gone = Missing(
                    file=f"file {path}", path=path, named_by=here[1], cleaned_by=cleaned_by, superseded_by=here[1]
                )
                raise gone.error(self.state.facts.table)
            if isinstance(file.name, LogName):
                logs.append(file)
            else:
                base = file
        logs.sort(key=lambda file: file.name.order if isinstance(file.name, LogName) else ("", 0, "", False))
        if base is None and not logs:
            return None
        return StoredKinds(_slice_files(base, logs, self.contents))

    def _files(self, group: _Group, view: View) -> SliceFiles | None:
        """What shows the group's state in the view; None if it has none. Raises for files that are gone."""
        state = self.state
        found = visible_files(group.slices, view, state.committed)
        evidence = later_evidence(group.facts, view, state.committed)
        missing = missing_of_group(group.id, group.slices, found, evidence, state.cleaned)
        if self.skip_corrupt and missing is not None and missing.is_unexplained:
            found = without_gone_logs(found, state)
            missing = missing_of_group(group.id, group.slices, found, evidence, state.cleaned)
        if missing is not None:
            raise missing.error(state.facts.table)
        if found is not None and found.base is not None:
            refuse_unread_format(state, found.base)
        return None if found is None else _slice_files(found.base, found.logs, self.contents)


def _rewrote(stat: WriteStat) -> bool:
    """Whether the write made a new version of a base file: Hudi leaves the kinds of such rows null, and those of
    deletes are not in it (`HoodieMergeHandle`)."""
    return bool(stat.path and stat.prev_commit) and not isinstance(parse_file_name(stat.file_name), LogName)


def _slice_files(base: DataFile | None, logs: Sequence[DataFile], contents: LogContents) -> SliceFiles:
    return SliceFiles(
        base=base.ref if base else None,
        base_instant=base.name.instant if base else "",
        logs=tuple(contents.ref(log) for log in logs),
    )


def _log_contents(state: TableState) -> LogContents:
    logs = [file for file in state.files if isinstance(file.name, LogName) and not file.name.is_cdc]
    return log_contents(state.facts, logs)


def _groups(state: TableState, selection: Selection) -> dict[GroupId, _Group]:
    """The selected groups, each with the part of the timeline's metadata that is about it."""
    wanted = selection.groups or {}
    files = group_files(file for file in state.files if file.group in wanted)
    about = _commits_by_group(state.facts, wanted)
    ended: dict[GroupId, tuple[str, str]] = {}
    for requested_time, commit in state.facts.commits.items():
        here = (state.committed.order_key(requested_time), requested_time)
        for group in commit.replaced:
            ended[group] = min(ended.get(group, here), here)
    return {
        group: _Group(
            id=group,
            slices=slice_group(
                files.get(group, []), state.pending_compactions.get(group, frozenset()), state.committed
            ),
            facts=replace(state.facts, commits=about.get(group, {})),
            ended=ended.get(group),
        )
        for group in wanted
    }


def _commits_by_group(facts: TimelineFacts, wanted: Collection[GroupId]) -> dict[GroupId, dict[str, CommitMetadata]]:
    """What each commit says of each group, and nothing of others."""
    found: dict[GroupId, dict[str, CommitMetadata]] = {}
    for requested_time, commit in facts.commits.items():
        stats: dict[GroupId, list[WriteStat]] = {}
        for stat in commit.stats:
            stats.setdefault((stat.partition, stat.file_id), []).append(stat)
        for group in {*stats, *commit.replaced}:
            if group in wanted:
                own = replace(
                    commit,
                    stats=tuple(stats.get(group, ())),
                    replaced=(group,) if group in commit.replaced else (),
                )
                found.setdefault(group, {})[requested_time] = own
    return found


def has_logs(changes: Collection[GroupChanges]) -> bool:
    """Whether any state has logs to be merged."""
    return any(_merges(step.source) for group in changes for step in group.steps)


def _merges(source: ChangeSource) -> bool:
    match source:
        case LoggedImages(before=before, after=after) | ComparedStates(before, after):
            return any(files is not None and bool(files.logs) for files in (before, after))
        case StoredKinds(files=files):
            return bool(files.logs)


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
