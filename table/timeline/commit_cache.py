"""A bounded cache of commit metadata by file identity, shared by threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from penstock.table.timeline.commits import CommitMetadata

MAX_COMMITS: Final = 32_768
MAX_STATS: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """One state of a file: a file that is created again differs in size or time."""

    path: str
    size_bytes: int
    modified_ns: int


class CommitCache:
    """Least recently used commits go first, beyond `max_commits` commits or `max_stats` write stats in all."""

    def __init__(self, max_commits: int = MAX_COMMITS, max_stats: int = MAX_STATS) -> None:
        self._max_commits = max_commits
        self._max_stats = max_stats
        self._held: OrderedDict[FileIdentity, CommitMetadata] = OrderedDict()
        self._stats = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, identity: FileIdentity) -> CommitMetadata | None:
        """The metadata that was read from this state of the file."""
        with self._lock:
            found = self._held.get(identity)
            if found is not None:
                self._held.move_to_end(identity)
            return found

    def put(self, identity: FileIdentity, commit: CommitMetadata) -> None:
        """Holds the metadata; a commit that is larger than the cache as a whole is not held."""
        weight = _weight(commit)
        with self._lock:
            if identity in self._held or weight > self._max_stats:
                return
            self._held[identity] = commit
            self._stats += weight
            while len(self._held) > self._max_commits or self._stats > self._max_stats:
                _, dropped = self._held.popitem(last=False)
                self._stats -= _weight(dropped)


def _weight(commit: CommitMetadata) -> int:
    return len(commit.stats) + len(commit.replaced)
