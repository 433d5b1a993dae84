"""A bounded cache of commit metadata by file identity, shared by threads and tables."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from penstock.proto.value_classes import dataclass
from penstock.table.storage.local_listing import FileVersion
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.instants import Instant

MAX_COMMITS: Final = 262_144
MAX_STATS: Final = 2_000_000


class FileIdentity(NamedTuple):
    """Identifies one version of a file: a file that was created again differs in size or time."""

    path: str
    """Below the table's base path, or for a cache of several tables with it."""
    size_bytes: int
    """Size of the file."""
    modified_ns: int
    """Time of the last change, in nanoseconds since the epoch."""


class CommitCache:
    """Holds up to `max_commits` commits with `max_stats` write stats in total; evicts the least recently used ones.

    Of each open table it also keeps the commits of one timeline together, so that a further plan looks up none of them.
    It drops these once it evicts a commit: they hold no other commits than the cache does.
    """

    def __init__(self, max_commits: int = MAX_COMMITS, max_stats: int = MAX_STATS) -> None:
        self._max_commits = max_commits
        self._max_stats = max_stats
        self._commits: OrderedDict[FileIdentity, CommitMetadata] = OrderedDict()
        self._stats = 0
        self._dropped = 0
        self._of_timelines: weakref.WeakKeyDictionary[object, _CommitsOfTimeline] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._commits)

    def get(self, identity: FileIdentity) -> CommitMetadata | None:
        """The metadata of this version of the file, if cached."""
        with self._lock:
            commit = self._commits.get(identity)
            if commit is not None:
                self._commits.move_to_end(identity)
            return commit

    def put(self, identity: FileIdentity, commit: CommitMetadata) -> CommitMetadata:
        """Caches the metadata, unless the commit exceeds the size of the whole cache. Returns the cached object, that
        of another thread if it parsed the same commit before."""
        weight = _weight(commit)
        with self._lock:
            if (known := self._commits.get(identity)) is not None:
                return known
            if weight > self._max_stats:
                self._dropped += 1
                return commit
            self._commits[identity] = commit
            self._stats += weight
            while len(self._commits) > self._max_commits or self._stats > self._max_stats:
                _, evicted = self._commits.popitem(last=False)
                self._stats -= _weight(evicted)
                self._dropped += 1
                self._of_timelines.clear()
            return commit

    def of_timeline(
        self,
        table: object,
        timeline: Timeline,
        versions: Mapping[str, FileVersion],
        read: Callable[[Instant, FileVersion | None], CommitMetadata],
    ) -> Mapping[str, CommitMetadata]:
        """Requested time -> the commits of this timeline of the table: those that are kept with this same object, else
        the result of `read` for each, which gets it from this cache or puts it there.

        Commits of the table's previous timeline whose files have the same name and version are used again without
        `read`, and without making them the most recently used ones. `versions`: those of the timeline's files, by name.
        """
        dropped = self._dropped  # first: another thread may evict commits of `before`
        before = self._of_timelines.get(table)
        if before is not None and before.timeline is timeline:
            return before.commits
        files: dict[str, tuple[FileVersion | None, CommitMetadata]] = {}
        for item in timeline.completed_writes:
            version = versions.get(item.file_name)
            known = None if before is None or version is None else before.files.get(item.file_name)
            commit = known[1] if known is not None and known[0] == version else read(item, version)
            files[item.file_name] = (version, commit)
        commits: dict[str, CommitMetadata] = {
            item.requested_time: files[item.file_name][1] for item in timeline.completed_writes
        }
        with self._lock:
            if dropped == self._dropped:
                self._of_timelines[table] = _CommitsOfTimeline(timeline, files, commits)
        return commits


@dataclass(frozen=True, slots=True)
class _CommitsOfTimeline:
    """The commits of one timeline of a table."""

    timeline: Timeline
    """The timeline."""
    files: Mapping[str, tuple[FileVersion | None, CommitMetadata]]
    """Name of a completed instant's file -> its version and its commit."""
    commits: Mapping[str, CommitMetadata]
    """Requested time -> commit."""


def _weight(commit: CommitMetadata) -> int:
    return len(commit.stats) + len(commit.replaced)
