"""Instants that left the active timeline, with what they did: the archive of layout 1, the history of layout 2.

Shell: lists, reads, caches by file. Only completed writes, cleans and what rollbacks took back are kept. Not here: the
active timeline (`timeline`), file formats (`archive_log`, `history`), whether a request needs any of it (enumerator).
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from penstock.proto.errors import ConfigurationError, CorruptFile, StorageError, UnsupportedFeature
from penstock.proto.model.positions import InstantTime
from penstock.table.config.properties import META_FOLDER, TableProperties
from penstock.table.storage.filesystem import FileInfo, Storage, redacted_uri
from penstock.table.timeline.archive_v1 import ArchiveEntry, archive_entries
from penstock.table.timeline.archive_v2 import ARCHIVE_FILE, history_files, history_metadata
from penstock.table.timeline.avro_container import single_record
from penstock.table.timeline.commit_cache import FileIdentity
from penstock.table.timeline.commits import CommitMetadata, commit_of, parse_commit
from penstock.table.timeline.instants import WRITE_ACTIONS, Action, Instant, State, comparable_action
from penstock.table.timeline.service_plans import (
    CleanMetadata,
    RolledBack,
    clean_of,
    parse_clean,
    parse_rollback,
    rollback_of,
)

MAX_ARCHIVE_BYTES: Final = 1 << 30
"""Largest archive file of layout 1 that is read."""
MAX_ARCHIVED: Final = 5_000_000
"""Most archived instants, their write stats, replaced groups and cleaned files included, that are held."""

_MERGE_PLAN: Final = "mergeArchivePlan"
_MERGE_PLAN_BYTES: Final = 16 << 20
_OLD_FOLDER: Final = f"{META_FOLDER}/archived"
_DIGITS = re.compile(r"[0-9]{1,24}")
_COMPACTIONS: Final = (Action.COMPACTION, Action.LOG_COMPACTION)
_NO_COMMITS: Final = (Action.CLEAN, Action.ROLLBACK, Action.RESTORE)
_ACTIONS: Final = {str(action): action for action in (*WRITE_ACTIONS, Action.CLEAN, Action.ROLLBACK, Action.RESTORE)}


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """A completed write, clean or rollback that left the active timeline, and what it did; named after its file."""

    instant: Instant
    did: CommitMetadata | CleanMetadata | RolledBack


@dataclass(frozen=True, slots=True)
class Archive:
    """Every archived write and clean. `commits` are by requested time, `cleans` by requested time ascending, `undone`
    the requested times that archived rollbacks took back."""

    instants: tuple[Instant, ...]
    commits: Mapping[str, CommitMetadata]
    cleans: tuple[tuple[str, CleanMetadata], ...]
    rolled_back: frozenset[str] = frozenset()


class ArchiveCache:
    """What archive and history files hold, by file identity; least recently used files go first."""

    def __init__(self, max_weight: int = MAX_ARCHIVED) -> None:
        self._max_weight = max_weight
        self._held: OrderedDict[FileIdentity, tuple[ArchivedInstant, ...]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, identity: FileIdentity) -> tuple[ArchivedInstant, ...] | None:
        """What this state of the file holds, if it was read before."""
        with self._lock:
            found = self._held.get(identity)
            if found is not None:
                self._held.move_to_end(identity)
            return found

    def put(self, identity: FileIdentity, found: tuple[ArchivedInstant, ...]) -> None:
        """Holds what was read, unless it is larger than the cache as a whole."""
        weight = _weight(found)
        with self._lock:
            if identity in self._held or weight > self._max_weight:
                return
            self._held[identity] = found
            self._weight += weight
            while self._weight > self._max_weight:
                _, dropped = self._held.popitem(last=False)
                self._weight -= _weight(dropped)


def read_archive(storage: Storage, properties: TableProperties, cache: ArchiveCache) -> Archive:
    """Every archived write and clean of the table, each once.

    Layout 2 takes its history's newest manifest, and what only the archive folder of before an upgrade holds; such an
    instant's completion time is when its completed file appeared, or its requested time. CorruptFile for a file that
    is damaged or missing; ConfigurationError for more than MAX_ARCHIVED; StorageError.
    """
    found: dict[tuple[str, Action], ArchivedInstant] = {}
    weight = 0
    for of_file in _files(storage, properties, cache):
        weight += _weight(of_file)
        _check_weight(weight, properties)
        for item in of_file:
            found.setdefault((item.instant.requested_time, comparable_action(item.instant.action)), item)
    items = [found[key] for key in sorted(found)]
    return Archive(
        instants=tuple(item.instant for item in items if not isinstance(item.did, RolledBack)),
        commits={item.instant.requested_time: item.did for item in items if isinstance(item.did, CommitMetadata)},
        cleans=tuple((item.instant.requested_time, item.did) for item in items if isinstance(item.did, CleanMetadata)),
        rolled_back=frozenset(time for item in items if isinstance(item.did, RolledBack) for time in item.did.instants),
    )


def _check_weight(weight: int, properties: TableProperties) -> None:
    if weight > MAX_ARCHIVED:
        raise ConfigurationError(
            f"archived timeline of more than {MAX_ARCHIVED} instants and files: table "
            f"{redacted_uri(properties.base_path)}; give an `after` in the active timeline, or read from `earliest`"
        )


def _bounded(items: Iterable[ArchivedInstant], properties: TableProperties) -> Iterator[ArchivedInstant]:
    """The items of one file, for as long as they can be held."""
    weight = 0
    for item in items:
        weight += _weight((item,))
        _check_weight(weight, properties)
        yield item


def has_old_archive(storage: Storage) -> bool:
    """Whether a table of layout 2 still has the archive folder of layout 1 with something in it."""
    return any(ARCHIVE_FILE.fullmatch(info.name) for info in storage.list_dir(_OLD_FOLDER))


def _files(storage: Storage, properties: TableProperties, cache: ArchiveCache) -> Iterator[tuple[ArchivedInstant, ...]]:
    """What each file holds; those whose word counts more come first."""
    if properties.layout == 2:
        sizes = {info.name: info for info in storage.list_dir(properties.history_folder)}
        for name in history_files(storage, properties):
            read = partial(_of_history, storage, properties, name)
            yield _cached(cache, sizes.get(name), read, properties)
    folder = properties.history_folder if properties.layout == 1 else _OLD_FOLDER
    listed = [info for info in storage.list_dir(folder) if ARCHIVE_FILE.fullmatch(info.name) and not info.is_dir]
    for info in listed:
        yield _cached(cache, info, partial(_of_archive, storage, properties, folder, info.name), properties)


def _cached(
    cache: ArchiveCache,
    info: FileInfo | None,
    read: Callable[[], Iterable[ArchivedInstant]],
    properties: TableProperties,
) -> tuple[ArchivedInstant, ...]:
    identity = FileIdentity(info.path, info.size_bytes, info.modified_ns) if info else None
    known = cache.get(identity) if identity else None
    if known is None:
        known = tuple(_bounded(read(), properties))
        if identity:
            cache.put(identity, known)
    return known


def _weight(found: Iterable[ArchivedInstant]) -> int:
    total = 0
    for item in found:
        match item.did:
            case CommitMetadata(stats=stats, replaced=replaced):
                total += 1 + len(stats) + len(replaced)
            case CleanMetadata(partitions=partitions):
                total += 1 + sum(1 + len(partition.file_names) for partition in partitions)
            case RolledBack(instants=instants):
                total += 1 + len(instants)
    return total


def _of_history(storage: Storage, properties: TableProperties, name: str) -> Iterator[ArchivedInstant]:
    table = redacted_uri(properties.base_path)
    last: tuple[bytes, CommitMetadata] | None = None
    for requested, completion, action_name, body in history_metadata(storage, properties, name, _ACTIONS):
        action = _ACTIONS[action_name]
        instant = _instant(requested, completion, action, name, f"history file {name} of table {table}")
        if last is not None and body is last[0] and action not in _NO_COMMITS:  # a value of the file's dictionary
            yield ArchivedInstant(instant, replace(last[1], requested_time=instant.requested_time))
            continue
        did = _did(body, instant, table)
        if isinstance(did, CommitMetadata):
            last = body, did
        yield ArchivedInstant(instant, did)


def _did(body: bytes, instant: Instant, table: str) -> CommitMetadata | CleanMetadata | RolledBack:
    match instant.action:
        case Action.CLEAN:
            return parse_clean(body, instant, table)
        case Action.ROLLBACK | Action.RESTORE:
            return parse_rollback(body, instant, table)
        case _:
            return parse_commit(body, instant, table)


def _of_archive(storage: Storage, properties: TableProperties, folder: str, name: str) -> tuple[ArchivedInstant, ...]:
    """The completed instants of an archive file; none of the half-written result of a merge of archive files."""
    where = f"archive file {folder}/{name} of table {redacted_uri(properties.base_path)}"
    try:
        data = storage.read_bytes(f"{folder}/{name}", MAX_ARCHIVE_BYTES)
    except FileNotFoundError as error:
        raise StorageError(f"{where} is gone: it was merged meanwhile; asking again may help") from error
    try:
        compactions: set[str] = set()
        entries = archive_entries(data, where)
        found = list(_bounded(_completed(entries, compactions, name, where, properties.layout), properties))
        return tuple(_with_compaction(item, compactions) for item in found)
    except CorruptFile:
        if _merging_into(storage, folder) == name:
            return ()
        raise


def _merging_into(storage: Storage, folder: str) -> str:
    """The file that a merge of small archive files writes (Hudi `HoodieMergeArchiveFilePlan`); '' if none goes on or
    its plan cannot be read. Until it is done the merged files stay."""
    try:
        plan = single_record(storage.read_bytes(f"{folder}/{_MERGE_PLAN}", _MERGE_PLAN_BYTES), _MERGE_PLAN)
    except (FileNotFoundError, CorruptFile, UnsupportedFeature):
        return ""
    return str(plan.get("mergedArchiveFileName") or "").rpartition("/")[2]


def _completed(
    entries: Iterable[ArchiveEntry], compactions: set[str], name: str, where: str, layout: int
) -> Iterator[ArchivedInstant]:
    """The completed instants; `compactions` gets the requested times of compactions, in whatever state an entry is."""
    for entry in entries:
        action = _ACTIONS.get(entry.action)
        if action in _COMPACTIONS:
            compactions.add(entry.requested_time)
        if action is None or not entry.is_completed:
            continue
        instant = _instant(entry.requested_time, _completion(entry, layout), action, name, where)
        told = f"{where}, {action} {entry.requested_time}"
        if action is Action.CLEAN:
            yield ArchivedInstant(instant, clean_of(entry.fields.within("hoodieCleanMetadata", told)))
            continue
        if action is Action.ROLLBACK:
            yield ArchivedInstant(instant, rollback_of(entry.fields.within("hoodieRollbackMetadata", told), action))
        if action in (Action.ROLLBACK, Action.RESTORE):  # what a restore took back is not archived
            continue
        replaces = instant.action is Action.REPLACE_COMMIT
        kind = "hoodieReplaceCommitMetadata" if replaces else "hoodieCommitMetadata"
        yield ArchivedInstant(instant, commit_of(entry.fields.within(kind, told), instant))


def _with_compaction(item: ArchivedInstant, compactions: AbstractSet[str]) -> ArchivedInstant:
    """A commit that an entry of the archive shows to be a compaction is one, though its metadata may not say so."""
    if isinstance(item.did, CommitMetadata) and item.instant.requested_time in compactions and not item.did.compacted:
        return replace(item, did=replace(item.did, compacted=True))
    return item


def _completion(entry: ArchiveEntry, layout: int) -> str:
    if layout == 1:
        return ""
    told = entry.transition
    return told if len(told) == len(entry.requested_time) and told >= entry.requested_time else entry.requested_time


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
