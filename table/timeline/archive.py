"""Reads the instants that left the active timeline, with their metadata: the archive of layout 1, the LSM history of
layout 2.

Lists and reads files, and caches by file. Only completed writes, cleans, and the instants that rollbacks removed are
kept. The file formats are in `archive_v1` and `archive_v2`.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.proto.errors import ConfigurationError, CorruptFile, StorageError, UnsupportedFeature
from penstock.proto.model.positions import InstantTime
from penstock.proto.value_classes import dataclass
from penstock.table.config.properties import META_FOLDER, TableProperties
from penstock.table.storage.filesystem import FileInfo, Storage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.archive_v2 import ARCHIVE_FILE, history_files, history_metadata
from penstock.table.timeline.avro_container import single_record
from penstock.table.timeline.commit_cache import FileIdentity
from penstock.table.timeline.commits import CommitMetadata, commit_of, parse_commit
from penstock.table.timeline.instants import WRITE_ACTIONS, Action, Instant, State, comparable_action
from penstock.table.timeline.services.plans import (
    CleanMetadata,
    RolledBack,
    clean_of,
    parse_clean,
    parse_rollback,
    rollback_of,
)

if TYPE_CHECKING:
    from penstock.table.timeline.archive_v1 import ArchiveEntry

MAX_ARCHIVE_BYTES: Final = 1 << 30
"""Largest archive file of layout 1 that is read, in bytes."""
MAX_ARCHIVED: Final = 5_000_000
"""Limit of archived instants in memory, counting their write stats, replaced groups and cleaned files."""

MERGE_PLAN: Final = "mergeArchivePlan"
"""Name of the plan of a merge of archive files, beside them (Hudi 0.x)."""
_MERGE_PLAN_BYTES: Final = 16 << 20
_OLD_FOLDER: Final = f"{META_FOLDER}/archived"
_DIGITS = re.compile(r"[0-9]{1,24}")
_COMPACTIONS: Final = (Action.COMPACTION, Action.LOG_COMPACTION)
_NO_COMMITS: Final = (Action.CLEAN, Action.ROLLBACK, Action.RESTORE)
_ACTIONS: Final = {str(action): action for action in (*WRITE_ACTIONS, Action.CLEAN, Action.ROLLBACK, Action.RESTORE)}


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """A completed write, clean or rollback that left the active timeline."""

    instant: Instant
    """The instant; its file name is that of the archive or history file."""
    metadata: CommitMetadata | CleanMetadata | RolledBack
    """The metadata of its completed file."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The archived writes and cleans of a table."""

    instants: tuple[Instant, ...]
    """Archived writes and cleans, by requested time."""
    commits: Mapping[str, CommitMetadata]
    """Requested time -> metadata of the write."""
    cleans: tuple[tuple[str, CleanMetadata], ...]
    """(requested time, metadata), by requested time."""
    rolled_back: frozenset[str] = frozenset()
    """Requested times of the instants that archived rollbacks removed."""


class ArchiveCache:
    """A cache of archived instants by file identity. Evicts the least recently used files. Thread-safe."""

    def __init__(self, max_weight: int = MAX_ARCHIVED) -> None:
        self._max_weight = max_weight
        self._entries: OrderedDict[FileIdentity, tuple[ArchivedInstant, ...]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, identity: FileIdentity) -> tuple[ArchivedInstant, ...] | None:
        """The instants of this version of the file, if cached."""
        with self._lock:
            instants = self._entries.get(identity)
            if instants is not None:
                self._entries.move_to_end(identity)
            return instants

    def put(self, identity: FileIdentity, instants: tuple[ArchivedInstant, ...]) -> None:
        """Caches the instants of a file, unless they exceed the size of the whole cache."""
        weight = _weight(instants)
        with self._lock:
            if identity in self._entries or weight > self._max_weight:
                return
            self._entries[identity] = instants
            self._weight += weight
            while self._weight > self._max_weight:
                _, evicted = self._entries.popitem(last=False)
                self._weight -= _weight(evicted)


def read_archive(storage: Storage, properties: TableProperties, cache: ArchiveCache) -> Archive:
    """Every archived write and clean of the table, each once.

    On layout 2 these are the instants of the history's newest manifest, and those that only the archive folder from
    before an upgrade contains; the completion time of the latter is when its completed file was created, or its
    requested time. CorruptFile for a file that is damaged or missing; ConfigurationError beyond MAX_ARCHIVED;
    StorageError.
    """
    by_instant: dict[tuple[str, Action], ArchivedInstant] = {}
    weight = 0
    for instants in _files(storage, properties, cache):
        weight += _weight(instants)
        _check_weight(weight, properties)
        for item in instants:
            by_instant.setdefault((item.instant.requested_time, comparable_action(item.instant.action)), item)
    items = [by_instant[key] for key in sorted(by_instant)]
    return Archive(
        instants=tuple(item.instant for item in items if not isinstance(item.metadata, RolledBack)),
        commits={
            item.instant.requested_time: item.metadata for item in items if isinstance(item.metadata, CommitMetadata)
        },
        cleans=tuple(
            (item.instant.requested_time, item.metadata) for item in items if isinstance(item.metadata, CleanMetadata)
        ),
        rolled_back=frozenset(
            time for item in items if isinstance(item.metadata, RolledBack) for time in item.metadata.instants
        ),
    )


def _check_weight(weight: int, properties: TableProperties) -> None:
    if weight > MAX_ARCHIVED:
        raise ConfigurationError(
            f"archived timeline of more than {MAX_ARCHIVED} instants and files: table "
            f"{redacted_uri(properties.base_path)}; set `after` to an instant of the active timeline, or read from "
            "`earliest`"
        )


def _bounded(items: Iterable[ArchivedInstant], properties: TableProperties) -> Iterator[ArchivedInstant]:
    """The items of one file; ConfigurationError beyond MAX_ARCHIVED."""
    weight = 0
    for item in items:
        weight += _weight((item,))
        _check_weight(weight, properties)
        yield item


def has_old_archive(storage: Storage) -> bool:
    """Whether a table of layout 2 still has archive files of layout 1."""
    return any(ARCHIVE_FILE.fullmatch(info.name) for info in storage.list_dir(_OLD_FOLDER))


def archive_number(name: str) -> int | None:
    """The number of an archive file of layout 1; None for any other file."""
    return int(name.split(".")[3].partition("_")[0]) if ARCHIVE_FILE.fullmatch(name) else None


def archived_in(storage: Storage, properties: TableProperties, name: str) -> frozenset[tuple[str, Action]]:
    """(requested time, action) of the completed instants of an archive file of layout 1. Errors as `read_archive`."""
    items = _read_archive_file(storage, properties, properties.history_folder, name)
    return frozenset((item.instant.requested_time, item.instant.action) for item in items)


def _files(storage: Storage, properties: TableProperties, cache: ArchiveCache) -> Iterator[tuple[ArchivedInstant, ...]]:
    """The instants of each file. Files that take precedence for an instant come first."""
    if properties.layout == 2:
        sizes = {info.name: info for info in storage.list_dir(properties.history_folder)}
        for file in history_files(storage, properties):
            read = partial(_read_history_file, storage, properties, file.name)
            yield _cached(cache, sizes.get(file.name), read, properties)
    folder = properties.history_folder if properties.layout == 1 else _OLD_FOLDER
    listed = [info for info in storage.list_dir(folder) if ARCHIVE_FILE.fullmatch(info.name) and not info.is_dir]
    for info in listed:
        yield _cached(cache, info, partial(_read_archive_file, storage, properties, folder, info.name), properties)


def _cached(
    cache: ArchiveCache,
    info: FileInfo | None,
    read: Callable[[], Iterable[ArchivedInstant]],
    properties: TableProperties,
) -> tuple[ArchivedInstant, ...]:
    identity = FileIdentity(info.path, info.size_bytes, info.modified_ns) if info else None
    instants = cache.get(identity) if identity else None
    if instants is None:
        instants = tuple(_bounded(read(), properties))
        if identity:
            cache.put(identity, instants)
    return instants


def _weight(items: Iterable[ArchivedInstant]) -> int:
    total = 0
    for item in items:
        match item.metadata:
            case CommitMetadata(stats=stats, replaced=replaced):
                total += 1 + len(stats) + len(replaced)
            case CleanMetadata(partitions=partitions):
                total += 1 + sum(1 + len(partition.file_names) for partition in partitions)
            case RolledBack(instants=instants):
                total += 1 + len(instants)
    return total


def _read_history_file(storage: Storage, properties: TableProperties, name: str) -> Iterator[ArchivedInstant]:
    table = redacted_uri(properties.base_path)
    last: tuple[bytes, CommitMetadata] | None = None
    for requested, completion, action_name, body in history_metadata(storage, properties, name, _ACTIONS):
        action = _ACTIONS[action_name]
        instant = _instant(requested, completion, action, name, f"history file {name} of table {table}")
        if (
            last is not None and body is last[0] and action not in _NO_COMMITS
        ):  # the same value of the file's dictionary
            yield ArchivedInstant(instant, replace(last[1], requested_time=instant.requested_time))
            continue
        metadata = _parse(body, instant, table)
        if isinstance(metadata, CommitMetadata):
            last = body, metadata
        yield ArchivedInstant(instant, metadata)


def _parse(body: bytes, instant: Instant, table: str) -> CommitMetadata | CleanMetadata | RolledBack:
    match instant.action:
        case Action.CLEAN:
            return parse_clean(body, instant, table)
        case Action.ROLLBACK | Action.RESTORE:
            return parse_rollback(body, instant, table)
        case _:
            return parse_commit(body, instant, table)


def _read_archive_file(
    storage: Storage, properties: TableProperties, folder: str, name: str
) -> tuple[ArchivedInstant, ...]:
    """The completed instants of an archive file; () for the incomplete result of a merge of archive files."""
    where = f"archive file {folder}/{name} of table {redacted_uri(properties.base_path)}"
    try:
        data = storage.read_bytes(f"{folder}/{name}", MAX_ARCHIVE_BYTES)
    except FileNotFoundError as error:
        raise StorageError(f"{where} was deleted: archive files were merged; a retry may succeed") from error
    from penstock.table.timeline.archive_v1 import archive_entries  # late: only tables of layout 1 have such files

    try:
        compactions: set[str] = set()
        entries = archive_entries(data, where)
        items = list(_bounded(_completed(entries, compactions, name, where, properties.layout), properties))
        return tuple(_with_compaction(item, compactions) for item in items)
    except CorruptFile:
        if _merging_into(storage, folder) == name:
            return ()
        raise


def _merging_into(storage: Storage, folder: str) -> str:
    """The file that a merge of small archive files writes (Hudi `HoodieMergeArchiveFilePlan`).

    '' if no merge is in progress, or its plan cannot be read. The merged files are deleted when the merge is complete.
    """
    try:
        plan = single_record(storage.read_bytes(f"{folder}/{MERGE_PLAN}", _MERGE_PLAN_BYTES), MERGE_PLAN)
    except (FileNotFoundError, CorruptFile, UnsupportedFeature):
        return ""
    return str(plan.get("mergedArchiveFileName") or "").rpartition("/")[2]


def _completed(
    entries: Iterable[ArchiveEntry], compactions: set[str], name: str, where: str, layout: int
) -> Iterator[ArchivedInstant]:
    """The completed instants. Adds the requested times of compactions, of entries in any state, to `compactions`."""
    for entry in entries:
        action = _ACTIONS.get(entry.action)
        if action in _COMPACTIONS:
            compactions.add(entry.requested_time)
        if action is None or not entry.is_completed:
            continue
        instant = _instant(entry.requested_time, _completion(entry, layout), action, name, where)
        source = f"{where}, {action} {entry.requested_time}"
        if action is Action.CLEAN:
            yield ArchivedInstant(instant, clean_of(entry.fields.within("hoodieCleanMetadata", source)))
            continue
        if action is Action.ROLLBACK:
            yield ArchivedInstant(instant, rollback_of(entry.fields.within("hoodieRollbackMetadata", source), action))
        if action in (
            Action.ROLLBACK,
            Action.RESTORE,
        ):  # the archive does not record the instants that a restore removed
            continue
        replaces = instant.action is Action.REPLACE_COMMIT
        kind = "hoodieReplaceCommitMetadata" if replaces else "hoodieCommitMetadata"
        yield ArchivedInstant(instant, commit_of(entry.fields.within(kind, source), instant))


def _with_compaction(item: ArchivedInstant, compactions: AbstractSet[str]) -> ArchivedInstant:
    """Marks a commit as compacted if an entry of the archive shows that it is: its metadata may not record it."""
    if (
        isinstance(item.metadata, CommitMetadata)
        and item.instant.requested_time in compactions
        and not item.metadata.compacted
    ):
        return replace(item, metadata=replace(item.metadata, compacted=True))
    return item


def _completion(entry: ArchiveEntry, layout: int) -> str:
    if layout == 1:
        return ""
    time = entry.transition
    return time if len(time) == len(entry.requested_time) and time >= entry.requested_time else entry.requested_time


def _instant(requested: str, completion: str, action: Action, file_name: str, where: str) -> Instant:
    if not _DIGITS.fullmatch(requested) or (completion and not _DIGITS.fullmatch(completion)):
        raise CorruptFile(
            f"{where}: got requested time {requested[:40]!r} and completion time {completion[:40]!r}, expected digits"
        )
    return Instant(
        requested_time=InstantTime(requested),
        completion_time=InstantTime(completion) if completion else None,
        action=comparable_action(action),
        state=State.COMPLETED,
        file_name=file_name,
    )
