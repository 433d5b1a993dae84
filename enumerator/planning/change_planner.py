"""Plan a range of changes: for each file group, the changes of each commit, and the files to read them from. Pure.

The changes of a commit come from one of three sources: images that the writer logged, a stored changelog, or the
comparison of two states. The states are those of the file group right before and right after the commit. They are views
by commit order, so services in between do not matter: compaction and clustering change files, not the rows of a state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from penstock.enumerator.planning.file_inventory import LogContents, log_contents
from penstock.enumerator.planning.missing_files import MissingFile, available_files, later_evidence
from penstock.enumerator.planning.scan import PlannedSplits, plan_of, refuse_unread_format
from penstock.enumerator.planning.selection import Selection, TimelineFacts, groups_of
from penstock.enumerator.planning.split_ids import changes_id
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
from penstock.proto.model.splits import Scan, Split
from penstock.table.config.change_logging import LOGGING_MODE, ChangeLogging
from penstock.table.config.record_keys import keys_may_be_named, virtual_key_fields
from penstock.table.files.names import LogName, parse_file_name
from penstock.table.files.slices import (
    DataFile,
    FileSlice,
    GroupId,
    OrderedBefore,
    OrderedThrough,
    View,
    VisibleFiles,
    group_files,
    slice_group,
)
from penstock.table.partitions.values import partition_values
from penstock.table.timeline.commits import CommitMetadata, WriteStat

_KEY_TYPES: Final = (pa.string(), pa.int32(), pa.int64(), pa.bool_())
"""Types of key columns whose values have one text form in a record key."""


def plan_changes(state: TableState, *, tolerate_missing_logs: bool = False) -> PlannedSplits:
    """The plan of the state's request for changes: one split for each file group that the range changed.

    PositionExpired or CorruptFile if files that a change needs are missing; with `tolerate_missing_logs`, log files
    that are missing although no clean removed them are left out. UnsupportedFeature for a file format or merge rules
    that this build lacks.
    """
    (selection,) = state.selections
    if not isinstance(selection.rows, ChangesOf):
        raise InvariantViolation(f"a selection of {type(selection.rows).__name__}: expected one of changes")
    collector = _ChangeCollector(
        state=state,
        format=selection.rows.format,
        contents=_log_contents(state),
        listed={file.ref.path: file for file in state.files if file.listed},
        groups=_groups(state, selection),
        tolerate_missing_logs=tolerate_missing_logs,
    )
    for instant in selection.rows.instants:
        if instant in selection.instants:
            collector.add(selection, state.facts.commits[instant], InstantTime(state.committed.order_key(instant)))
    changes = {group: GroupChanges(tuple(steps)) for group, steps in collector.steps.items()}
    return plan_of(state, _ChangedGroups(selection, changes, tuple(collector.missing_logs)))


@dataclass(frozen=True, slots=True)
class _ChangedGroups:
    """The changes of a selection by file group. Groups without changes are left out."""

    selection: Selection
    changes: Mapping[GroupId, GroupChanges]
    missing_logs: tuple[DataFile, ...]

    @property
    def partitions(self) -> Collection[str]:
        return {partition for partition, _ in self.changes}

    @property
    def has_logs(self) -> bool:
        return any(_merges_logs(step.source) for group in self.changes.values() for step in group.steps)

    def splits(self, state: TableState, scan: Scan, scope: str) -> list[Split]:
        """One split for each group, at the order key of its last change."""
        return [
            Split(
                split_id=changes_id(scope, group, changes),
                partition=group[0],
                partition_values=partition_values(group[0], scan.partition_fields) or (),
                file_group=group[1],
                order_key=changes.steps[-1].order_key,
                base=None,
                part=changes,
            )
            for group, changes in self.changes.items()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A file group with its part of the timeline's metadata."""

    id: GroupId
    slices: Sequence[FileSlice]
    facts: TimelineFacts
    """The timeline's facts, with only this group's part of the commit metadata."""
    ended: tuple[str, str] | None
    """(Order key, requested time) of the first instant that replaced the group; None if none did."""


@dataclass(slots=True, kw_only=True)
class _ChangeCollector:
    """Collects the changes of each group. Commits are added in commit order."""

    state: TableState
    format: ChangeFormat
    contents: LogContents
    listed: Mapping[str, DataFile]
    groups: Mapping[GroupId, _Group]
    tolerate_missing_logs: bool
    steps: dict[GroupId, list[ChangeStep]] = field(default_factory=dict)
    missing_logs: dict[DataFile, None] = field(default_factory=dict)

    def add(self, selection: Selection, commit: CommitMetadata, order_key: InstantTime) -> None:
        """Add the selected changes of one commit: groups that it replaced lose their rows, others change."""
        stats: dict[GroupId, list[WriteStat]] = {}
        for stat in commit.stats:
            if stat.path or stat.change_logs:
                stats.setdefault((stat.partition, stat.file_id), []).append(stat)
        for index, group_id in enumerate(groups_of(commit)):
            if not selection.holds(commit.requested_time, group_id):
                continue
            group = self.groups[group_id]
            commit_at = (order_key, commit.requested_time)
            if group.ended is not None and group.ended < commit_at:
                continue
            if group_id in commit.replaced:
                source = self._removed(group, commit_at)
            elif group_id in stats:
                source = self._written(group, stats[group_id], commit_at)
            else:
                continue
            if source is not None:
                step = ChangeStep(instant=commit.requested_time, order_key=order_key, place=index, source=source)
                self.steps.setdefault(group_id, []).append(step)

    def _removed(self, group: _Group, commit_at: tuple[str, str]) -> ChangeSource | None:
        before = self._files(group, OrderedBefore(*commit_at))
        return None if before is None else ComparedStates(before, None)

    def _written(self, group: _Group, stats: Sequence[WriteStat], commit_at: tuple[str, str]) -> ChangeSource | None:
        if commit_at[1] in self.state.storing_operations and not any(_rewrote(stat) for stat in stats):
            return self._stored(stats, commit_at)
        logged = [path for stat in stats for path in sorted(stat.change_logs)]
        mode = self.state.properties.raw.get(LOGGING_MODE, ChangeLogging.DATA_BEFORE_AFTER).strip().lower()
        key_fields = (
            self._key_fields() if mode == ChangeLogging.DATA_BEFORE_AFTER and self.format is ChangeFormat.ROWS else ()
        )
        if logged and key_fields is not None and all(path in self.listed for path in logged):
            return LoggedImages(
                tuple(self.listed[path].ref for path in logged),
                before=self._files(group, OrderedBefore(*commit_at))
                if not mode.startswith(ChangeLogging.DATA_BEFORE)
                else None,
                after=self._files(group, OrderedThrough(*commit_at))
                if mode != ChangeLogging.DATA_BEFORE_AFTER
                else None,
                key_fields=key_fields,
            )
        before, after = self._files(group, OrderedBefore(*commit_at)), self._files(group, OrderedThrough(*commit_at))
        return None if before is None and after is None else ComparedStates(before, after)

    def _key_fields(self) -> tuple[str, ...] | None:
        """The columns that make up the record key; None if their values do not determine the key's text."""
        unpopulated = replace(self.state.properties, populate_meta_fields=False)
        try:
            fields = virtual_key_fields(unpopulated)
        except TableError:
            return None
        if keys_may_be_named(unpopulated):
            return None
        schema = self.state.schema.arrow
        determined = all(name in schema.names and schema.field(name).type in _KEY_TYPES for name in fields)
        return fields if determined else None

    def _stored(self, stats: Sequence[WriteStat], commit_at: tuple[str, str]) -> ChangeSource | None:
        """The files that the commit itself wrote, at most one base file among them."""
        base: DataFile | None = None
        logs: list[DataFile] = []
        for path in sorted({stat.path for stat in stats if stat.path}):
            file = self.listed.get(path)
            if file is None:
                cleaned_by = self.state.cleaned.get(path, "")
                missing = MissingFile(
                    file=f"file {path}",
                    path=path,
                    named_by=commit_at[1],
                    cleaned_by=cleaned_by,
                    superseded_by=commit_at[1],
                )
                raise missing.error(self.state.facts.table)
            if isinstance(file.name, LogName):
                logs.append(file)
            else:
                base = file
        logs.sort(key=lambda file: file.name.order if isinstance(file.name, LogName) else ("", 0, "", False))
        if base is None and not logs:
            return None
        return StoredKinds(_slice_files(base, logs, self.contents))

    def _files(self, group: _Group, view: View) -> SliceFiles | None:
        """The files that hold the group's state in the view; None if it has none. Raises for missing files."""
        state = self.state
        available = available_files(
            group.id,
            group.slices,
            later_evidence(group.facts, view, state.committed),
            state.cleaned,
            tolerate_missing_logs=self.tolerate_missing_logs,
        )
        if isinstance(available, MissingFile):
            raise available.error(state.facts.table)
        self.missing_logs.update(dict.fromkeys(available.missing_logs))
        files: VisibleFiles | None = available.files
        if files is not None and files.base is not None:
            refuse_unread_format(state, files.base)
        return None if files is None else _slice_files(files.base, files.logs, self.contents)


def _rewrote(stat: WriteStat) -> bool:
    """Whether the write rewrote a base file. Hudi leaves the change kinds of such rows null, and the file lacks deleted
    rows (`HoodieMergeHandle`)."""
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
    """The selected groups, each with its part of the timeline's metadata."""
    groups = selection.groups or {}
    files = group_files(file for file in state.files if file.group in groups)
    commits = _commits_by_group(state.facts, groups)
    ended: dict[GroupId, tuple[str, str]] = {}
    for requested_time, commit in state.facts.commits.items():
        commit_at = (state.committed.order_key(requested_time), requested_time)
        for group in commit.replaced:
            ended[group] = min(ended.get(group, commit_at), commit_at)
    return {
        group: _Group(
            id=group,
            slices=slice_group(
                files.get(group, []), state.pending_compactions.get(group, frozenset()), state.committed
            ),
            facts=replace(state.facts, commits=commits.get(group, {})),
            ended=ended.get(group),
        )
        for group in groups
    }


def _commits_by_group(facts: TimelineFacts, groups: Collection[GroupId]) -> dict[GroupId, dict[str, CommitMetadata]]:
    """File group -> requested time -> the commit's metadata, limited to this group."""
    by_group: dict[GroupId, dict[str, CommitMetadata]] = {}
    for requested_time, commit in facts.commits.items():
        stats: dict[GroupId, list[WriteStat]] = {}
        for stat in commit.stats:
            stats.setdefault((stat.partition, stat.file_id), []).append(stat)
        for group in {*stats, *commit.replaced}:
            if group in groups:
                own = replace(
                    commit,
                    stats=tuple(stats.get(group, ())),
                    replaced=(group,) if group in commit.replaced else (),
                )
                by_group.setdefault(group, {})[requested_time] = own
    return by_group


def _merges_logs(source: ChangeSource) -> bool:
    match source:
        case LoggedImages(before=before, after=after) | ComparedStates(before, after):
            return any(files is not None and bool(files.logs) for files in (before, after))
        case StoredKinds(files=files):
            return bool(files.logs)
