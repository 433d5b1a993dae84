"""Files that an answer needs and that are gone: found out from names and metadata, and told as an error. Pure.

A gone file is never left out in silence. Three kinds of evidence: a file that metadata names and no folder lists; a
later base file that was built on one that is not there; a group that was replaced later and of which nothing is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.errors import CorruptFile, PositionExpired
from penstock.table.files.names import BaseName, parse_file_name
from penstock.table.files.slices import (
    CommittedInstants,
    Everything,
    FileSlice,
    GroupId,
    View,
    VisibleFiles,
    instant_is_visible,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A file that is needed and not there. `named_by` is the instant whose metadata tells of it, `cleaned_by` the
    clean that removed it, `superseded_by` an instant that wrote what took its place; '' each if there is none. `path`
    is the file's in the table, '' where only its group is known."""

    file: str
    path: str = ""
    named_by: str
    cleaned_by: str
    superseded_by: str

    @property
    def is_unexplained(self) -> bool:
        """Whether no cleaner can have taken it: it is lost."""
        return not self.cleaned_by and not self.superseded_by

    def error(self, table: str) -> PositionExpired | CorruptFile:
        """PositionExpired if a clean took the file or may have, CorruptFile otherwise. `missing_file` is its path."""
        error = self._error(table)
        error.missing_file = self.path
        return error

    def _error(self, table: str) -> PositionExpired | CorruptFile:
        told = f"instant {self.named_by} tells of it" if self.named_by else "the clean's metadata tells of it"
        if self.cleaned_by or self.superseded_by:
            how = (
                f"clean {self.cleaned_by} removed it"
                if self.cleaned_by
                else f"instant {self.superseded_by} superseded it, and then the cleaner may remove it"
            )
            return PositionExpired(
                f"{self.file} of table {table} is needed for this answer and gone: {told}, {how}; ask for a newer "
                "range or instant, or read a snapshot (a cleaner that keeps more commits prevents this)"
            )
        return CorruptFile(
            f"{self.file} of table {table} is missing: got no such file, expected it because {told} and nothing "
            "superseded it; restore the file or roll that instant back"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterEvidence:
    """What instants behind a view tell of the files in it.

    `built_on` maps a group to (instant of the base file that a later one was built on, instant of the later one);
    `replaced` to the first later instant that replaced the group; `from_logs` to the first later compaction of a slice
    of logs alone. `incomplete`: instants were archived, so that a cleaned file may be named by nothing that is left.
    """

    incomplete: bool

    built_on: Mapping[GroupId, tuple[str, str]]
    replaced: Mapping[GroupId, str]
    from_logs: Mapping[GroupId, str]


def later_evidence(facts: TimelineFacts, view: View, committed: CommittedInstants) -> LaterEvidence:
    """Gathers what active instants that the view does not show tell of the files it shows."""
    built_on: dict[GroupId, tuple[str, str]] = {}
    replaced: dict[GroupId, str] = {}
    from_logs: dict[GroupId, str] = {}
    evidence = LaterEvidence(
        incomplete=bool(facts.complete_from), built_on=built_on, replaced=replaced, from_logs=from_logs
    )
    if isinstance(view, Everything):
        return evidence
    for requested_time, commit in facts.commits.items():
        if instant_is_visible(requested_time, view, committed):
            continue
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


def missing_of_group(
    group: GroupId,
    slices: Sequence[FileSlice],
    visible: VisibleFiles | None,
    evidence: LaterEvidence,
    cleaned: Mapping[str, str],
) -> Missing | None:
    """The first file that reading `visible` needs and that is gone, or None if all are there."""
    later = evidence.replaced.get(group, "")
    if evidence.incomplete and later and not _any_listed(slices) and not (slices and slices[0].base):
        return Missing(file=_whole(group), named_by=later, cleaned_by="", superseded_by=later)
    for file in visible.files if visible else ():
        if not file.listed:
            bases = (item.base.name.instant for item in slices if item.base and visible and item.key > visible.key)
            return Missing(
                file=f"file {file.ref.path}",
                path=file.ref.path,
                named_by=file.named_by,
                cleaned_by=cleaned.get(file.ref.path, ""),
                superseded_by=next(bases, later),
            )
    if evidence.incomplete and group in evidence.from_logs:
        by = evidence.from_logs[group]
        if not _any_listed([item for item in slices if item.key < by]):
            return Missing(file=f"the first slice of {_whole(group)}", named_by=by, cleaned_by="", superseded_by=by)
    if group in evidence.built_on:
        before, by = evidence.built_on[group]
        base = visible.base if visible else None
        if base is None or base.name.instant < before:
            lost = f"the base file of instant {before} in {_whole(group)}"
            return Missing(file=lost, named_by=by, cleaned_by="", superseded_by=by)
    return None


def _any_listed(slices: Sequence[FileSlice]) -> bool:
    return any(file.listed for item in slices for file in (*([item.base] if item.base else []), *item.logs))


def _whole(group: GroupId) -> str:
    return f"file group {group[1]} of partition {group[0]!r}"
