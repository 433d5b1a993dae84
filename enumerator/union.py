"""The files of file groups, put together from what folders list and what metadata names. Pure.

Files that a commit names are trusted over a listing: one that is named and not listed stays known, so that an answer
that needs it fails loudly and never gives fewer rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from penstock.enumerator.selection import TimelineFacts
from penstock.proto.errors import UnsupportedFeature
from penstock.proto.splits import FileRef
from penstock.table.commits import CommitMetadata, WriteStat
from penstock.table.names import BaseName, LogName, parse_file_name
from penstock.table.slices import DataFile, GroupId
from penstock.table.storage import FileInfo


@dataclass(frozen=True, slots=True)
class CleanedFile:
    """A file that a completed clean removed, by its bare name."""

    partition: str
    name: str
    cleaned_by: str

    @property
    def path(self) -> str:
        """Relative to the table's base path."""
        return _path(self.partition, self.name)


@dataclass(frozen=True, slots=True)
class _Named:
    partition: str
    name: BaseName | LogName
    size_bytes: int
    named_by: str


def files_of_groups(
    facts: TimelineFacts,
    listing: Mapping[str, Iterable[FileInfo]],
    cleaned: Iterable[CleanedFile],
    groups: Collection[GroupId] | None,
) -> tuple[DataFile, ...]:
    """Every file known of the groups (None: of all groups), sorted by path.

    `listing` holds the data files of each partition. Sizes are the listing's; those of files that are not listed are
    what metadata says, or 0. UnsupportedFeature for a commit that names a file of unknown kind.
    """
    named = _named_files(facts, groups)
    found: dict[str, DataFile] = {}
    for partition, infos in listing.items():
        for info in infos:
            name = parse_file_name(info.name)
            if name is not None and (groups is None or (partition, name.file_id) in groups):
                by = named.get(info.path)
                ref = FileRef(info.path, info.size_bytes)
                found[info.path] = DataFile(
                    partition=partition, ref=ref, name=name, listed=True, named_by=by.named_by if by else ""
                )
    for path, item in named.items():
        if path not in found:
            ref = FileRef(path, item.size_bytes)
            found[path] = DataFile(
                partition=item.partition, ref=ref, name=item.name, listed=False, named_by=item.named_by
            )
    for file in cleaned:
        name = parse_file_name(file.name)
        if name is not None and file.path not in found and (groups is None or (file.partition, name.file_id) in groups):
            found[file.path] = DataFile(partition=file.partition, ref=FileRef(file.path, 0), name=name, listed=False)
    return tuple(found[path] for path in sorted(found))


def _named_files(facts: TimelineFacts, groups: Collection[GroupId] | None) -> dict[str, _Named]:
    """Files by path that active completed commits name; the newest commit's word counts."""
    named: dict[str, _Named] = {}
    for commit in facts.commits.values():
        for stat in commit.stats:
            if groups is None or (stat.partition, stat.file_id) in groups:
                named.update(_written(stat, commit, facts))
                for path, base in _built_on(stat, commit, facts):
                    named.setdefault(path, base)
    return named


def _written(stat: WriteStat, commit: CommitMetadata, facts: TimelineFacts) -> Iterator[tuple[str, _Named]]:
    """The file that was written, if any."""
    if stat.path:
        name = _known_name(stat.path, commit, facts)
        yield stat.path, _Named(stat.partition, name, max(stat.file_size_bytes, 0), commit.requested_time)


def _built_on(stat: WriteStat, commit: CommitMetadata, facts: TimelineFacts) -> Iterator[tuple[str, _Named]]:
    """The base file that a log was written for, where metadata tells (version 6, and with change logging)."""
    if stat.base_file:
        path = _path(stat.partition, stat.base_file)
        yield path, _Named(stat.partition, _known_name(path, commit, facts), 0, commit.requested_time)


def _known_name(path: str, commit: CommitMetadata, facts: TimelineFacts) -> BaseName | LogName:
    name = parse_file_name(path.rpartition("/")[2])
    if name is None:
        raise UnsupportedFeature(
            f"data file of unknown kind: instant {commit.requested_time} of table {facts.table} names {path[:300]!r}; "
            "this build reads base and log files that Hudi named"
        )
    return name


def _path(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name
