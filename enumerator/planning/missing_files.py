"""Detect files that an answer needs and that no longer exist. Pure.

A missing file is an error, never a smaller answer. The evidence is of three kinds: commit metadata names a file that no
folder lists; a later base file was built on a base file that does not exist; a group was replaced later and none of its
files is left. With `onCorrupt=skip`, missing log files that no clean removed are tolerated.

One missing file is no error: the base file of a compaction, after a later clean, if all files that it merged exist.
They hold the same rows. A savepoint of an instant that is later than a pending compaction keeps these files, and not
the base file, which did not exist yet. Hudi, which lists folders, reads them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.errors import CorruptFile, PositionExpired
from penstock.proto.value_classes import dataclass
from penstock.table.files.names import BaseName, LogName, parse_file_name
from penstock.table.files.slices import (
    CommittedInstants,
    DataFile,
    Everything,
    FileSlice,
    GroupId,
    View,
    VisibleFiles,
    hidden_instants,
    instant_is_visible,
    newest_base,
    visible_files,
)
from penstock.table.timeline.commits import WriteStat
from penstock.table.timeline.instants import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingFile:
    """A file that a plan needs and that does not exist. Unknown values are ''."""

    file: str
    """A description of the file for error messages."""
    path: str = ""
    """The file's path in the table; '' if only its file group is known."""
    named_by: str
    """The requested time of the instant whose metadata names the file."""
    cleaned_by: str
    """The requested time of the clean that removed the file."""
    superseded_by: str
    """The requested time of the instant that wrote the file's replacement."""

    @property
    def is_unexplained(self) -> bool:
        """Whether no cleaner can have removed the file: it is lost."""
        return not self.cleaned_by and not self.superseded_by

    def error(self, table: str) -> PositionExpired | CorruptFile:
        """PositionExpired if a clean removed the file or may have, else CorruptFile. `missing_file` is its path."""
        error = self._error(table)
        error.missing_file = self.path
        return error

    def _error(self, table: str) -> PositionExpired | CorruptFile:
        source = f"instant {self.named_by} names it" if self.named_by else "the clean's metadata names it"
        if self.cleaned_by or self.superseded_by:
            how = (
                f"clean {self.cleaned_by} removed it"
                if self.cleaned_by
                else f"instant {self.superseded_by} superseded it, and then the cleaner may remove it"
            )
            return PositionExpired(
                f"{self.file} of table {table} is needed for this answer and gone: {source}, {how}; ask for a newer "
                "range or instant, or read a snapshot (a cleaner that keeps more commits prevents this)"
            )
        return CorruptFile(
            f"{self.file} of table {table} is missing: got no such file, expected it because {source} and nothing "
            "superseded it; restore the file or roll that instant back"
        )


class AvailableFiles(NamedTuple):
    """The files of a group to read; all of them exist."""

    files: VisibleFiles | None
    """None if the view shows nothing of the group."""
    missing_logs: tuple[DataFile, ...] = ()
    """Log files that were left out because they are missing and the request tolerates that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterEvidence:
    """Evidence about the files of a view, from instants that the view does not show."""

    facts: TimelineFacts
    """The timeline and the commit metadata."""
    view: View
    """The view."""
    committed: CommittedInstants
    """The committed instants."""
    incomplete: bool
    """Whether instants were archived, so that no remaining metadata may name a cleaned file."""
    built_on: Mapping[GroupId, tuple[str, str]]
    """File group -> (instant of the base file that a later one was built on, instant of the later one)."""
    replaced: Mapping[GroupId, str]
    """File group -> the first later instant that replaced it."""
    from_logs: Mapping[GroupId, str]
    """File group -> the first later compaction of a slice that has logs only."""
    shown: dict[str, bool] = field(default_factory=dict)
    """Instant -> whether it is committed, and the view shows it; of the instants that were looked up."""

    def shows(self, instant: str) -> bool:
        """Whether the instant is committed, and the view shows its files."""
        known = self.shown.get(instant)
        if known is None:
            holds = self.committed.holds(instant) and instant_is_visible(instant, self.view, self.committed)
            known = self.shown[instant] = holds
        return known


def later_evidence(facts: TimelineFacts, view: View, committed: CommittedInstants) -> LaterEvidence:
    """Collect evidence from the active instants that the view does not show about the files that it shows."""
    built_on: dict[GroupId, tuple[str, str]] = {}
    replaced: dict[GroupId, str] = {}
    from_logs: dict[GroupId, str] = {}
    evidence = LaterEvidence(
        facts=facts,
        view=view,
        committed=committed,
        incomplete=bool(facts.complete_from),
        built_on=built_on,
        replaced=replaced,
        from_logs=from_logs,
    )
    if isinstance(view, Everything):
        return evidence
    for requested_time in hidden_instants(facts.commits, view, committed):
        commit = facts.commits[requested_time]
        for group in commit.replaced:
            replaced[group] = min(replaced.get(group, requested_time), requested_time)
        for stat in commit.stats:
            if not isinstance(parse_file_name(stat.file_name), BaseName):
                continue
            group, before = (stat.partition, stat.file_id), stat.prev_commit
            if not before and commit.is_service and not commit.replaced:
                from_logs[group] = min(from_logs.get(group, requested_time), requested_time)
            elif before and committed.holds(before) and instant_is_visible(before, view, committed):
                built_on[group] = max(built_on.get(group, (before, requested_time)), (before, requested_time))
    return evidence


def only_base_file(group: GroupId, files: Sequence[DataFile], evidence: LaterEvidence) -> DataFile | None:
    """The base file to read of a group that consists of it alone, if it exists; None for any other group. The group
    must have no pending compaction. `only_file` of it is the answer of `available_files`, without its steps: most
    groups of large tables are such.
    """
    if len(files) != 1 or group in evidence.built_on or group in evidence.from_logs:
        return None
    file = files[0]
    instant = file.name.instant
    if not file.listed or not isinstance(file.name, BaseName) or not evidence.shows(instant):
        return None
    return file


def only_file(base: DataFile) -> VisibleFiles:
    """The files of a group that consists of one base file."""
    return VisibleFiles(base.name.instant, base, ())


def base_and_logs(group: GroupId, files: Sequence[DataFile], evidence: LaterEvidence) -> VisibleFiles | None:
    """The files to read of a group that consists of one base file and logs on it, all of which exist and are visible;
    None for any other group, and on layout 1. The group must have no pending compaction, and its logs must be read. As
    `only_base_file`, it is the answer of `available_files`: that of most groups that a range touches.
    """
    committed, shows = evidence.committed, evidence.shows
    if group in evidence.built_on or group in evidence.from_logs or committed.layout == 1:
        return None
    base: DataFile | None = None
    logs: list[tuple[LogName, DataFile]] = []
    for file in files:
        name = file.name
        if not file.listed or not shows(name.instant):
            return None
        if isinstance(name, LogName):
            logs.append((name, file))
        elif base is None:
            base = file
        else:
            return None
    if base is None:
        return None
    for name, _ in logs:
        if committed.order_key(name.instant) < base.name.instant:
            return None
    if len(logs) > 1:
        logs.sort(key=lambda item: item[0].order)
    return VisibleFiles(base.name.instant, base, tuple([file for _, file in logs]))


def available_files(
    group: GroupId,
    slices: Sequence[FileSlice],
    evidence: LaterEvidence,
    cleaned: Mapping[str, str],
    *,
    base_files_only: bool = False,
    tolerate_missing_logs: bool,
) -> AvailableFiles | MissingFile:
    """The files to read of a group in the view of the evidence, or the first file that is needed and missing.

    With `base_files_only`, only its newest base file is read. With `tolerate_missing_logs`, log files that are missing
    although no clean removed them are left out.
    """
    show = newest_base if base_files_only else visible_files
    shown = show(slices, evidence.view, evidence.committed)
    first = _available(group, slices, shown, evidence, cleaned, tolerate_missing_logs=tolerate_missing_logs)
    if isinstance(first, AvailableFiles) or (base_files_only and not isinstance(evidence.view, Everything)):
        return first
    merged, same_rows = _before_cleaned_compactions(slices, evidence)
    if not same_rows:
        return first
    built_on = dict(evidence.built_on)
    if group in built_on:
        before, by = built_on.pop(group)
        if same := same_rows.get(before, before):
            built_on[group] = (same, by)
    evidence = replace(evidence, built_on=built_on)
    shown = show(merged, evidence.view, evidence.committed)
    second = _available(group, merged, shown, evidence, cleaned, tolerate_missing_logs=tolerate_missing_logs)
    return second if isinstance(second, AvailableFiles) else first


def _available(
    group: GroupId,
    slices: Sequence[FileSlice],
    visible: VisibleFiles | None,
    evidence: LaterEvidence,
    cleaned: Mapping[str, str],
    *,
    tolerate_missing_logs: bool,
) -> AvailableFiles | MissingFile:
    """The visible files of a group; the first one that is missing, unless it may be left out."""
    missing = _missing_of_group(group, slices, visible, evidence, cleaned)
    if missing is None:
        return AvailableFiles(visible)
    if not tolerate_missing_logs or not missing.is_unexplained:
        return missing
    lost = tuple(log for log in (visible.logs if visible else ()) if not log.listed and log.ref.path not in cleaned)
    present = _without(visible, lost)
    return _missing_of_group(group, slices, present, evidence, cleaned) or AvailableFiles(present, lost)


def _before_cleaned_compactions(
    slices: Sequence[FileSlice], evidence: LaterEvidence
) -> tuple[list[FileSlice], dict[str, str]]:
    """The slices without the missing base files of compactions that merged existing files, if a later clean completed;
    and the instant of each such base file -> that of the base file that it merged, '' if it merged only logs.

    All files that the compaction merged exist: as many logs as its commit counts. Without a restore after it, the view
    has no log of the slice that is later than the compaction: a compaction forgets the ordering values of deletes, so
    that later records could win that lose to the files that it merged.

    Missing logs of such a slice that only instants outside of the view wrote are left out too: on layout 1 the name of
    a log has the instant of its base file.
    """
    facts = evidence.facts
    cleans = facts.timeline.completed_cleans
    newest_clean = str(cleans[-1].requested_time) if cleans else ""
    standing: list[FileSlice] = []
    same_rows: dict[str, str] = {}
    for item in slices:
        stat = None if item.base is None or item.key > newest_clean else _compaction_of(item.base, facts)
        if stat is not None and _exists(item, stat, standing, evidence):
            logs = tuple(log for log in item.logs if log.listed or _is_in_view(log, evidence))
            if not _is_written_later(item, logs, evidence):
                same_rows[item.key] = same_rows.get(stat.prev_commit, stat.prev_commit if standing[-1].base else "")
                item = item._replace(base=None, logs=logs)
        standing.append(item)
    return standing, same_rows


def _exists(item: FileSlice, merged: WriteStat, standing: Sequence[FileSlice], evidence: LaterEvidence) -> bool:
    """Whether all files that a compaction merged exist: the base file, and the logs of the slice before. On layout 1
    this slice may also have logs of later writes: a writer that finds no base file of the compaction adds them."""
    if merged.compacted_logs is None or not standing:
        return False
    before = standing[-1]
    if before.base is not None and (before.base.name.instant != merged.prev_commit or not before.base.listed):
        return False
    if before.base is None and before.key != (merged.prev_commit or before.key):
        return False
    completed = evidence.committed.order_key(item.key)
    logs = [
        log
        for log in before.logs
        if not (writers := _writers_of(log, evidence.facts))
        or any(evidence.committed.order_key(writer) <= completed for writer in writers)
    ]
    return len(logs) == merged.compacted_logs.files and all(log.listed for log in logs)


def _is_written_later(item: FileSlice, logs: Sequence[DataFile], evidence: LaterEvidence) -> bool:
    """Whether the view has logs of the slice of a compaction that completed after it, and no restore did."""
    completed = evidence.committed.order_key(item.key)
    rollbacks = evidence.facts.timeline.completed_rollbacks
    if any(each.action is Action.RESTORE and each.requested_time > completed for each in rollbacks):
        return False
    return any(
        evidence.committed.order_key(writer) > completed
        for log in logs
        for writer in _writers_of(log, evidence.facts)
        if instant_is_visible(writer, evidence.view, evidence.committed)
    )


def _writers_of(log: DataFile, facts: TimelineFacts) -> list[str]:
    """The known instants that wrote to the log."""
    return [time for time, commit in facts.commits.items() if any(stat.path == log.ref.path for stat in commit.stats)]


def _is_in_view(log: DataFile, evidence: LaterEvidence) -> bool:
    """Whether a known instant of the view wrote to the log."""
    writers = _writers_of(log, evidence.facts)
    return any(instant_is_visible(writer, evidence.view, evidence.committed) for writer in writers)


def _compaction_of(base: DataFile, facts: TimelineFacts) -> WriteStat | None:
    """What the commit of a compaction says of the missing base file `base`; None for other files."""
    commit = None if base.listed else facts.commits.get(base.name.instant)
    if commit is None or not commit.compacted:
        return None
    return next((stat for stat in commit.stats if stat.path == base.ref.path), None)


def _without(visible: VisibleFiles | None, lost: Sequence[DataFile]) -> VisibleFiles | None:
    """The files without `lost`; None if nothing is left. A missing base file stays."""
    if visible is None:
        return None
    logs = tuple(log for log in visible.logs if log not in lost)
    return visible._replace(logs=logs) if logs or visible.base else None


def _missing_of_group(
    group: GroupId,
    slices: Sequence[FileSlice],
    visible: VisibleFiles | None,
    evidence: LaterEvidence,
    cleaned: Mapping[str, str],
) -> MissingFile | None:
    """The first missing file that reading `visible` needs; None if all exist."""
    later = evidence.replaced.get(group, "")
    if later and evidence.incomplete and not _any_listed(slices) and not (slices and slices[0].base):
        return MissingFile(file=_whole(group), named_by=later, cleaned_by="", superseded_by=later)
    for file in visible.files if visible else ():
        if not file.listed:
            bases = (item.base.name.instant for item in slices if item.base and visible and item.key > visible.key)
            return MissingFile(
                file=f"file {file.ref.path}",
                path=file.ref.path,
                named_by=file.named_by,
                cleaned_by=cleaned.get(file.ref.path, ""),
                superseded_by=next(bases, later),
            )
    if evidence.incomplete and group in evidence.from_logs:
        by = evidence.from_logs[group]
        if not _any_listed([item for item in slices if item.key < by]):
            first = f"the first slice of {_whole(group)}"
            return MissingFile(file=first, named_by=by, cleaned_by="", superseded_by=by)
    if group in evidence.built_on:
        before, by = evidence.built_on[group]
        base = visible.base if visible else None
        if base is None or base.name.instant < before:
            lost = f"the base file of instant {before} in {_whole(group)}"
            return MissingFile(file=lost, named_by=by, cleaned_by="", superseded_by=by)
    return None


def _any_listed(slices: Sequence[FileSlice]) -> bool:
    return any(file.listed for item in slices for file in (*([item.base] if item.base else []), *item.logs))


def _whole(group: GroupId) -> str:
    return f"file group {group[1]} of partition {group[0]!r}"
