"""The files of file groups, put together from what folders list and what metadata names. Pure.

Files that a commit names are trusted over a listing: one that is named and not listed stays known, so that an answer
that needs it fails loudly and never gives fewer rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.errors import CorruptFile
from penstock.proto.model.splits import FileRef
from penstock.table.files.external_names import stored_path
from penstock.table.files.names import BaseName, LogName, parse_file_name
from penstock.table.files.slices import DataFile, GroupId
from penstock.table.storage.filesystem import FileInfo


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
    """What a commit tells of a file."""

    partition: str
    size_bytes: int
    named_by: str


def files_of_groups(
    facts: TimelineFacts,
    listing: Mapping[str, Iterable[FileInfo]],
    cleaned: Iterable[CleanedFile],
    groups: Collection[GroupId] | None,
    *,
    sizes_may_lag: bool = False,
) -> tuple[DataFile, ...]:
    """Every file known of the groups (None: of all groups), sorted by path.

    `listing` holds the data files of each partition. Sizes are the listing's; those of files that are not listed are
    what metadata says, or 0. `sizes_may_lag`: of logs the greater of both counts (a metadata table may know of a log
    from before it was appended to). CorruptFile for a commit that names a file of unknown kind.
    Files of other writers are told apart by the names that metadata gives them, not by where they lie.
    """
    named = _named_files(facts, groups)
    found: dict[str, DataFile] = {}
    for partition, infos in listing.items():
        for info in infos:
            name = parse_file_name(info.name)
            if name is not None and (groups is None or (partition, name.file_id) in groups):
                key = _path(info.path.rpartition("/")[0], info.name)
                by = named.pop(key, None)
                size_bytes = info.size_bytes
                if sizes_may_lag and by is not None and isinstance(name, LogName):
                    size_bytes = max(size_bytes, by.size_bytes)
                found[key] = DataFile(
                    partition=partition,
                    ref=FileRef(info.path, size_bytes),
                    name=name,
                    listed=True,
                    named_by=by.named_by if by else "",
                )
    for path, item in named.items():
        found[path] = DataFile(
            partition=item.partition,
            ref=FileRef(stored_path(path), item.size_bytes),
            name=_known_name(path, item, facts),
            listed=False,
            named_by=item.named_by,
        )
    for file in cleaned:
        name = parse_file_name(file.name)
        if name is not None and file.path not in found and (groups is None or (file.partition, name.file_id) in groups):
            found[file.path] = DataFile(partition=file.partition, ref=FileRef(file.path, 0), name=name, listed=False)
    return tuple(found[path] for path in sorted(found))


def _named_files(facts: TimelineFacts, groups: Collection[GroupId] | None) -> dict[str, _Named]:
    """Files by path that active completed commits name: what they wrote, and the base file a log was written for
    (where metadata tells: version 6, and with change logging). The newest commit that wrote a file counts."""
    named: dict[str, _Named] = {}
    for commit in facts.commits.values():
        for stat in commit.stats:
            if groups is not None and (stat.partition, stat.file_id) not in groups:
                continue
            if stat.path:
                named[stat.path] = _Named(stat.partition, max(stat.file_size_bytes, 0), commit.requested_time)
            if stat.base_file:
                path = _path(stat.partition, stat.base_file)
                named.setdefault(path, _Named(stat.partition, 0, commit.requested_time))
    return named


def _known_name(path: str, item: _Named, facts: TimelineFacts) -> BaseName | LogName:
    name = parse_file_name(path.rpartition("/")[2])
    if name is None:
        raise CorruptFile(
            f"data file of unknown kind: instant {item.named_by} of table {facts.table} names {path[:300]!r}, expected "
            "the name of a base or log file; restore the commit's metadata"
        )
    return name


def _path(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name
