"""Reads a Hudi table: properties, timeline, commit metadata, partitions and data files.

Does the I/O, and caches immutable results. Decisions about instants, slices and queries are pure functions elsewhere.
Safe to use from several threads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Final, TypeVar, cast

from penstock.proto.errors import StorageError
from penstock.proto.model.positions import InstantTime
from penstock.table.config.merge_rules import refuse_unsupported
from penstock.table.config.properties import TableProperties, load_properties
from penstock.table.files.listing import (
    creating_instants,
    list_data_files,
    list_files,
    list_partition_files,
    list_partitions,
)
from penstock.table.files.slices import DataFile
from penstock.table.storage.filesystem import Storage, open_storage
from penstock.table.storage.local_listing import FileVersion
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline, list_timeline, timeline_of
from penstock.table.timeline.archive import Archive, ArchiveCache, has_old_archive, read_archive
from penstock.table.timeline.archive_v2 import (
    History,
    has_archived,
    history_version,
    manifest_path,
    newest_completion,
    read_completions,
)
from penstock.table.timeline.commit_cache import CommitCache, FileIdentity
from penstock.table.timeline.commits import MAX_COMMIT_BYTES, CommitMetadata, parse_commit_lazily
from penstock.table.timeline.instants import Action, Instant, State, instant_file_name
from penstock.table.timeline.services.plans import (
    CleanMetadata,
    CompactionGroup,
    RequestedReplace,
    parse_clean,
    parse_compaction_plan,
    parse_requested_replace,
    parse_rollback,
)
from penstock.table.timeline.settled_reads import read_when_complete

if TYPE_CHECKING:
    from penstock.table.timeline.services.clean_encoder import CleanPlan
    from penstock.table.timeline.services.savepoints import Savepoint

T = TypeVar("T")

MAX_DERIVED: Final = 4096
"""Number of values that `derived_once` caches."""


class HudiTable:
    """An open table. Properties are those of the time of opening; everything else is read when it is requested."""

    def __init__(
        self,
        storage: Storage,
        properties: TableProperties,
        commits: CommitCache | None = None,
        *,
        names_only: bool = False,
    ) -> None:
        """With `names_only`, `timeline()` does not notice a completed file of the same name with other content: enough
        for a metadata table, of whose timeline the names count."""
        self.storage = storage
        self.properties = properties
        self._commits = commits if commits is not None else CommitCache()
        self.names_only = names_only
        self._listed: tuple[Mapping[str, FileVersion], Timeline | None] = ({}, None)
        self._archive = ArchiveCache()
        self._history = [History()]  # shared with pinned tables
        self._lock = threading.Lock()
        self._metadata_fallbacks = [0]
        self._derived: OrderedDict[Hashable, object] = OrderedDict()
        self._pinned_from: HudiTable | None = None
        self._of_listing: dict[Hashable, object] = {}

    @property
    def base_path(self) -> str:
        """The table's path or URI, as for `open_table`."""
        return self.storage.base_path

    @property
    def last_timeline(self) -> Timeline | None:
        """The result of the last `timeline()`: the same object as long as no file of the timeline changes."""
        return self._listed[1]

    @property
    def listed_files(self) -> int:
        """Number of timeline files that are kept from the last `timeline()`."""
        return len(self._listed[0])

    def refreshed(self) -> HudiTable:
        """The table with its properties read again, since an upgrade changes them; itself if they are unchanged."""
        properties = load_properties(self.storage)
        if properties == self.properties:
            return self
        table = HudiTable(self.storage, properties, self._commits, names_only=self.names_only)
        table._metadata_fallbacks = self._metadata_fallbacks
        table._derived, table._lock = self._derived, self._lock
        return table

    def pinned(self) -> HudiTable:
        """Lists the timeline; the table with this timeline, whatever changes in the folder afterwards.

        Its `timeline()` lists nothing, and `once_pinned` computes a value of this timeline once. The tables share their
        caches. Other files are read as they are at the time of each call.
        """
        if self._pinned_from is None:
            self.timeline()
        table = copy(self)
        table._pinned_from, table._of_listing = self.unpinned(), {}
        return table

    @property
    def is_pinned(self) -> bool:
        """Whether `timeline()` lists nothing."""
        return self._pinned_from is not None

    def unpinned(self) -> HudiTable:
        """The table that lists its timeline with each `timeline()`; itself if it is not pinned."""
        return self if self._pinned_from is None else self._pinned_from

    def once_pinned(self, key: Hashable, derive: Callable[[], T]) -> T:
        """The result of `derive`, which depends on the timeline; of a pinned table once for each key."""
        if self._pinned_from is None:
            return derive()
        if key not in self._of_listing:
            self._of_listing[key] = derive()
        return cast(T, self._of_listing[key])

    def refuse_unsupported(self) -> None:
        """UnsupportedFeature, with the name of the setting, if no query can read the table."""
        refuse_unsupported(self.properties)

    def timeline(self) -> Timeline:
        """Lists the active timeline. It is built again only if a file was added, removed or changed.

        Of a pinned table, the timeline of its listing. FormatError for a file that is no valid instant.
        """
        if self._pinned_from is not None and self._listed[1] is not None:
            return self._listed[1]
        before, timeline = self._listed
        listing = list_timeline(self.storage, self.properties, before, names_only=self.names_only)
        if timeline is None or listing != before:
            timeline = timeline_of(listing, self.properties)
            self._listed = (listing, timeline)
        return timeline

    def commit(self, instant: Instant) -> CommitMetadata:
        """The metadata of a completed write instant.

        Cached by the file's name, size and time as of the last `timeline()`. CorruptFile for a damaged file; one that
        its writer completes shortly is read again (`settled_reads`). StorageError if the file was deleted: the instant
        was archived or rolled back.
        """
        commit = self.commit_lazily(instant)
        commit.decode()
        return commit

    def commit_lazily(self, instant: Instant) -> CommitMetadata:
        """As `commit`, but the write stats of a partition are decoded when they are first used; CorruptFile then."""
        return self._commit_of(instant, None if self.names_only else self.listed_file(instant))

    def _commit_of(self, instant: Instant, version: FileVersion | None) -> CommitMetadata:
        """The commit in this version of the instant's file; None: in the version that the file has now."""
        path = self._path(instant.file_name)
        if version is None:
            info = self.storage.file_info(path)
            if info is None:
                raise self._gone(instant.file_name)
            version = (info.size_bytes, info.modified_ns)
        identity = FileIdentity(f"{self.base_path}/{path}", *version)
        cached = self._commits.get(identity)
        if cached is not None:
            return cached
        commit = self._parsed(instant, lambda data: parse_commit_lazily(data, instant, self._name))
        return self._commits.put(identity, commit)

    def commits_of(self, timeline: Timeline) -> Mapping[str, CommitMetadata]:
        """Requested time -> metadata of the completed writes of a result of `timeline()`, as `commit_lazily` gives it.
        The same object as long as the timeline is. Not of a table of names only, whose timeline does not tell changed
        files."""
        return self._commits.of_timeline(self.unpinned(), timeline, self._listed[0], self._commit_of)

    def listed_file(self, instant: Instant) -> FileVersion | None:
        """The version of a completed instant's file as of the last `timeline()`; None for an archived instant.

        A table that was created again, even with the same instants, has other versions.
        """
        return self._listed[0].get(instant.file_name)

    def derived_once(self, key: Hashable, derive: Callable[[], T]) -> T:
        """The cached value of this key, else the result of `derive`. Caches the newest `MAX_DERIVED` values."""
        with self._lock:
            if key in self._derived:
                return cast(T, self._derived[key])
        value = derive()
        with self._lock:
            self._derived[key] = value
            while len(self._derived) > MAX_DERIVED:
                self._derived.popitem(last=False)
        return value

    def compaction_plan(self, instant: Instant) -> tuple[CompactionGroup, ...]:
        """The file groups that a pending compaction or log compaction will rewrite. Errors as `commit`."""
        requested = self._requested(instant)
        return self._parsed(requested, lambda data: parse_compaction_plan(data, requested, self._name))

    def requested_replace(self, instant: Instant) -> RequestedReplace:
        """The request of a replacecommit or clustering in any state. Errors as `commit`."""
        requested = self._requested(instant)
        return self._parsed(requested, lambda data: parse_requested_replace(data, requested, self._name))

    def clean(self, instant: Instant) -> CleanMetadata:
        """The metadata of a completed clean. Errors as `commit`."""
        return self._parsed(instant, lambda data: parse_clean(data, instant, self._name))

    def clean_plan(self, instant: Instant) -> CleanPlan:
        """The plan of a clean in any state. Errors as `commit`; UnsupportedFeature as `parse_clean_plan`."""
        from penstock.table.timeline.services.clean_encoder import (
            parse_clean_plan,  # late, as below: reads rarely need it
        )

        requested = self._requested(instant)
        return self._parsed(requested, lambda data: parse_clean_plan(data, requested, self._name))

    def savepoint(self, instant: Instant) -> Savepoint:
        """The metadata of a completed savepoint. Errors as `commit`."""
        from penstock.table.timeline.services.savepoints import parse_savepoint

        return self._parsed(instant, lambda data: parse_savepoint(data, instant, self._name))

    def rolled_back(self, timeline: Timeline) -> frozenset[str]:
        """Requested times of the instants that completed rollbacks and restores of the timeline removed.

        Errors as `commit`.
        """
        return frozenset(time for instant in timeline.completed_rollbacks for time in self._rolled_back_by(instant))

    def _rolled_back_by(self, instant: Instant) -> Collection[str]:
        return self._parsed(instant, lambda data: parse_rollback(data, instant, self._name)).instants

    def archived_completions(self) -> Mapping[InstantTime, InstantTime]:
        """Requested -> completion time of archived write instants (layout 2; empty on layout 1).

        Cached until the history has a newer manifest, or another file in its place: a table that was created again
        counts its versions from the start.
        """
        return self._read_history().by_instant

    def newest_archived_completion(self) -> InstantTime | None:
        """The newest of `archived_completions`; None without one. Cached as these, and needs less time."""
        return newest_completion(self._read_history().files)

    def _read_history(self) -> History:
        version = None if self.properties.layout == 1 else history_version(self.storage, self.properties)
        if version is None:
            return History()
        manifest = self.storage.file_info(manifest_path(self.properties, version))
        with self._lock:
            if manifest is None or self._history[0].manifest != manifest:
                self._history[0] = History(manifest, read_completions(self.storage, self.properties))
            return self._history[0]

    def has_archived(self) -> bool:
        """Whether any instant was archived."""
        if has_archived(self.storage, self.properties):
            return True
        return self.properties.layout == 2 and not self.has_history() and has_old_archive(self.storage)

    def has_history(self) -> bool:
        """Whether a table of layout 2 has a history; an upgraded table may have only the archive of layout 1."""
        return history_version(self.storage, self.properties) is not None

    def archive(self) -> Archive:
        """The archived writes and cleans. Each file is read once.

        Call it after `timeline()`: an instant that is archived in between is then in both. Errors as `read_archive`.
        """
        return read_archive(self.storage, self.properties, self._archive)

    def list_partitions(self, skipped: Callable[[str], bool] | None = None) -> tuple[str, ...]:
        """Every partition path, sorted; ('',) for a table without partitions.

        Folders for which `skipped` is true are not listed.
        """
        partitions = list_partitions(self.storage, skipped)
        return partitions if partitions or self.properties.partition_fields else ("",)

    def creating_instants(self, partitions: Collection[str]) -> Mapping[str, str]:
        """Partition -> requested time of the instant that created it, where the partition's marker file records it."""
        return creating_instants(self.storage, partitions)

    def list_partition(self, partition: str, *, strict: bool = False) -> tuple[DataFile, ...]:
        """The data files in a partition's folder, by name; () if the folder does not exist.

        `strict`: TableError for a Parquet file of another writer.
        """
        return list_data_files(self.storage, partition, strict=strict)

    def list_partition_files(
        self, partitions: Collection[str], *, strict: bool = False
    ) -> dict[str, tuple[DataFile, ...]]:
        """`list_partition` of several partitions."""
        return list_partition_files(self.storage, partitions, strict=strict)

    def list_files(
        self,
        skipped: Callable[[str], bool] | None = None,
        excluded: Callable[[str], bool] | None = None,
        *,
        strict: bool = False,
    ) -> dict[str, tuple[DataFile, ...]]:
        """`list_partition` of every partition, with one listing of each folder; () for those that are `excluded`."""
        files = list_files(self.storage, skipped, excluded, strict=strict)
        return files if files or self.properties.partition_fields else self.list_partition_files([""], strict=strict)

    @property
    def metadata_fallbacks(self) -> int:
        """Number of times that folders were listed because the metadata table could not be used."""
        return self._metadata_fallbacks[0]

    def count_metadata_fallback(self) -> None:
        """Adds one to `metadata_fallbacks`."""
        with self._lock:
            self._metadata_fallbacks[0] += 1

    @property
    def _name(self) -> str:
        return redacted_uri(self.storage.base_path)

    def _path(self, file_name: str) -> str:
        return f"{self.properties.timeline_folder}/{file_name}"

    def _requested(self, instant: Instant) -> Instant:
        """The instant with its requested file, which has the plan, whatever its state.

        The file of a completed clustering, compaction or log compaction has the action as which it completed. The
        requested file of a compaction is then unknown: only its pending instant leads to the plan.
        """
        if instant.state is State.REQUESTED:
            return instant
        layout = self.properties.layout
        name = instant_file_name(instant.requested_time, instant.action, State.REQUESTED, None, layout)
        if instant.is_completed and instant.action is Action.REPLACE_COMMIT and layout == 2:
            clustering = instant_file_name(instant.requested_time, Action.CLUSTERING, State.REQUESTED, None, layout)
            if self.storage.file_info(self._path(clustering)) is not None:
                name = clustering
        return Instant(
            requested_time=instant.requested_time,
            completion_time=None,
            action=instant.action,
            state=State.REQUESTED,
            file_name=name,
        )

    def _parsed(self, instant: Instant, parse: Callable[[bytes], T]) -> T:
        """Parses a timeline file, after its writer completed it."""

        def modified_ns() -> int | None:
            info = self.storage.file_info(self._path(instant.file_name))
            return None if info is None else info.modified_ns

        return read_when_complete(lambda: self._read(instant.file_name), parse, modified_ns)

    def _read(self, file_name: str) -> bytes:
        try:
            return self.storage.read_bytes(self._path(file_name), MAX_COMMIT_BYTES)
        except FileNotFoundError as error:
            raise self._gone(file_name) from error

    def _gone(self, file_name: str) -> StorageError:
        error = StorageError(
            f"timeline file {self._path(file_name)} of table {self._name} was deleted: its instant was archived or "
            "rolled back while the table was read; a retry may succeed"
        )
        error.left_timeline = True
        return error


def open_table(base_path: str, commits: CommitCache | None = None) -> HudiTable:
    """Opens the table at a local path or URI. Tables can share a cache of commits. Errors as `load_properties`."""
    storage = open_storage(base_path)
    return HudiTable(storage, load_properties(storage), commits)
