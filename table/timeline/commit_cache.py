"""A bounded cache of commit metadata by file identity, shared by threads and tables."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, NamedTuple

from penstock.table.timeline.commits import CommitMetadata

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
    """Holds up to `max_commits` commits with `max_stats` write stats in total; evicts the least recently used ones."""

    def __init__(self, max_commits: int = MAX_COMMITS, max_stats: int = MAX_STATS) -> None:
        self._max_commits = max_commits
        self._max_stats = max_stats
        self._commits: OrderedDict[FileIdentity, CommitMetadata] = OrderedDict()
        self._stats = 0
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

    def put(self, identity: FileIdentity, commit: CommitMetadata) -> None:
        """Caches the metadata, unless the commit exceeds the size of the whole cache."""
        weight = _weight(commit)
        with self._lock:
            if identity in self._commits or weight > self._max_stats:
                return
            self._commits[identity] = commit
            self._stats += weight
            while len(self._commits) > self._max_commits or self._stats > self._max_stats:
                _, evicted = self._commits.popitem(last=False)
                self._stats -= _weight(evicted)


def _weight(commit: CommitMetadata) -> int:
    return len(commit.stats) + len(commit.replaced)
