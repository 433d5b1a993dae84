"""The files of file groups, from folder listings and commit metadata, and the writes of instants into log files. Pure.

Commit metadata takes precedence over a listing: a file that metadata names and the listing lacks stays in the
inventory, so that an answer that needs it fails instead of returning fewer rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.errors import CorruptFile
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import FileRef, LogWrite
from penstock.proto.value_classes import dataclass
from penstock.table.bootstrap.index import METADATA_BOOTSTRAP
from penstock.table.files.external_names import is_external, stored_path
from penstock.table.files.names import BaseName, LogName, parse_file_name
from penstock.table.files.slices import DataFile, GroupId


@dataclass(frozen=True, slots=True)
class CleanedFile:
    """A file that a completed clean removed."""

    partition: str
    """The path of the partition."""
    name: str
    """The file name without the path."""
    cleaned_by: str
    """The requested time of the clean."""

    @property
    def path(self) -> str:
        """Relative to the table's base path."""
        return _path(self.partition, self.name)


class _NamedFile(NamedTuple):
    """A file as commit metadata describes it."""

    partition: str
    size_bytes: int
    named_by: str


def files_of_groups(
    facts: TimelineFacts,
    listing: Mapping[str, Iterable[DataFile]],
    cleaned: Iterable[CleanedFile],
    groups: Collection[GroupId] | None,
    pruned: Collection[str] = (),
    *,
    sizes_may_lag: bool = False,
) -> tuple[DataFile, ...]:
    """Every known file of the groups (None: of all groups), sorted by path, without those of the `pruned` partitions.

    `listing` holds the data files of each partition. The size of a listed file is the listing's; the size of a file
    that is not listed is the one in the metadata, or 0. With `sizes_may_lag` a log file has the greater of both sizes,
    because a metadata table may describe the log before a later append. Files of external writers are identified by the
    names in commit metadata, not by their location. CorruptFile for a commit that names a file of unknown kind.
    """
    named = _named_files(facts, groups, pruned)
    files: dict[str, DataFile] = {}
    for partition, listed in listing.items():
        for file in () if partition in pruned else listed:
            if groups is None or (partition, file.name.file_id) in groups:
                path = file.marked_path or file.ref.path
                by = named.pop(path, None) if named else None
                files[path] = file if by is None else _named(file, by, sizes_may_lag=sizes_may_lag)
    for path, item in named.items():
        files[path] = DataFile(
            partition=item.partition,
            ref=FileRef(stored_path(path), item.size_bytes),
            name=_parsed_name(path, item, facts),
            listed=False,
            named_by=item.named_by,
            marked_path=path if is_external(path) else "",
        )
    for gone in cleaned:
        name = None if gone.partition in pruned else parse_file_name(gone.name)
        if name is not None and gone.path not in files and (groups is None or (gone.partition, name.file_id) in groups):
            files[gone.path] = DataFile(partition=gone.partition, ref=FileRef(gone.path, 0), name=name, listed=False)
    return tuple(files[path] for path in sorted(files))


def is_skeleton(file: DataFile) -> bool:
    """Whether a metadata-only bootstrap wrote the file: it has the meta columns alone."""
    return isinstance(file.name, BaseName) and file.name.instant == METADATA_BOOTSTRAP


def with_sources(files: Iterable[DataFile], sources: Mapping[GroupId, FileRef]) -> tuple[DataFile, ...]:
    """The files; each skeleton with its source file, if there is one for its file group."""
    return tuple(
        file._replace(ref=replace(file.ref, source=sources[file.group]))
        if is_skeleton(file) and file.group in sources
        else file
        for file in files
    )


def _named(file: DataFile, by: _NamedFile, *, sizes_may_lag: bool) -> DataFile:
    """The listed file with the instant that names it."""
    ref = file.ref
    if by.size_bytes > ref.size_bytes and sizes_may_lag and isinstance(file.name, LogName):
        ref = FileRef(ref.path, by.size_bytes)
    return DataFile(file.partition, ref, file.name, True, by.named_by, file.marked_path)


def _named_files(
    facts: TimelineFacts, groups: Collection[GroupId] | None, pruned: Collection[str]
) -> dict[str, _NamedFile]:
    """Path -> file that an active completed commit names: the files it wrote, and the base file that a log was written
    for (recorded by table version 6 and with change logging). The newest commit that wrote a file counts."""
    named: dict[str, _NamedFile] = {}
    for commit in facts.commits.values():
        for stat in commit.stats:
            if stat.partition in pruned or (groups is not None and (stat.partition, stat.file_id) not in groups):
                continue
            if stat.path:
                named[stat.path] = _NamedFile(stat.partition, max(stat.file_size_bytes, 0), commit.requested_time)
            if stat.base_file:
                path = _path(stat.partition, stat.base_file)
                named.setdefault(path, _NamedFile(stat.partition, 0, commit.requested_time))
    return named


def _parsed_name(path: str, item: _NamedFile, facts: TimelineFacts) -> BaseName | LogName:
    name = parse_file_name(path.rpartition("/")[2])
    if name is None:
        raise CorruptFile(
            f"data file of unknown kind: instant {item.named_by} of table {facts.table} names {path[:300]!r}, expected "
            "the name of a base or log file; restore the commit's metadata"
        )
    return name


def _path(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name


@dataclass(frozen=True, slots=True)
class LogContents:
    """The writes of completed instants into some log files, from the metadata of all active instants.

    With them a reader that finds damage in a log can distinguish the remains of a failed append from lost rows.
    """

    facts: TimelineFacts
    """The timeline and the commit metadata."""
    writes: Mapping[str, tuple[LogWrite, ...]]
    """Path of a log file -> its writes, sorted by instant."""

    def ref(self, log: DataFile) -> FileRef:
        """The file with its writes; without them if an archived instant may have written into it.

        On layout 1 a log is named after its base file and holds blocks of many instants, none older than that file. On
        layout 2 a log belongs to the one instant in its name.
        """
        timeline = self.facts.timeline
        if timeline.layout == 1:
            known = log.name.instant >= timeline.first_active
        else:
            known = log.name.instant in self.facts.commits
        writes = self.writes.get(log.ref.path, ())
        if not known or any(write.data_rows < 0 or write.delete_rows < 0 for write in writes):
            return log.ref
        return FileRef(log.ref.path, log.ref.size_bytes, writes)


def log_contents(facts: TimelineFacts, logs: Collection[DataFile]) -> LogContents:
    """The writes of active completed instants into these logs: for each instant the sums over its write stats that name
    the file."""
    sums: dict[str, dict[str, tuple[int, int]]] = {log.ref.path: {} for log in logs}
    for requested_time, commit in facts.commits.items() if sums else ():
        for stat in commit.stats:
            by_instant = sums.get(stat.path)
            if by_instant is not None:
                data_rows, delete_rows = by_instant.get(requested_time, (0, 0))
                by_instant[requested_time] = (data_rows + stat.num_writes, delete_rows + stat.num_deletes)
    writes = {
        path: tuple([LogWrite(_time(instant), *rows) for instant, rows in sorted(by_instant.items())])
        for path, by_instant in sums.items()
    }
    return LogContents(facts, writes)


def _time(instant: str) -> InstantTime:
    return instant if isinstance(instant, InstantTime) else InstantTime(instant)
