"""The open targets of a job."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable

from penstock.engine.sync.job import TargetUrl
from penstock.engine.sync.sources import SourceTable
from penstock.engine.sync.targets.target import Target


class SharedTargets:
    """Opens each target once, for all tables that it has. Any thread. A target that cannot be opened now delays only
    its own tables."""

    def __init__(self, open_one: Callable[[TargetUrl], Target]) -> None:
        self._open_one = open_one
        self._opened: dict[str, Target] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()

    def of(self, source: SourceTable) -> Target:
        """The target of a source. Errors: see `targets.open.open_target`; the next call tries again."""
        url = source.entry.target
        with self._lock:
            lock = self._locks[str(url)]
        with lock:
            if str(url) not in self._opened:
                self._opened[str(url)] = self._open_one(url)
            return self._opened[str(url)]

    def close(self) -> None:
        """Closes the targets. No other call may run or follow."""
        for target in self._opened.values():
            target.close()
        self._opened.clear()
