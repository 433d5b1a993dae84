"""Opens the target of a URL, and the targets of a job. Each system is imported when it is needed."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable

from penstock.engine.sync.job import TargetUrl
from penstock.engine.sync.targets.target import Target
from penstock.proto.errors import ConfigurationError


def open_target(url: TargetUrl) -> Target:
    """The target. ConfigurationError: it cannot be opened, or its library is not installed; TargetUnavailable."""
    try:
        match url.kind:
            case "duckdb":
                from penstock.engine.sync.targets.duckdb import DuckDBTarget

                return DuckDBTarget(url.place)
            case "delta":
                from penstock.engine.sync.targets.delta import DeltaTarget

                return DeltaTarget(url.place)
            case "parquet":
                from penstock.engine.sync.targets.parquet import ParquetTarget

                return ParquetTarget(url.place)
            case "hudi":
                from penstock.engine.sync.targets.hudi.hudi_target import HudiTarget

                return HudiTarget(url.place)
            case "postgresql":
                from penstock.engine.sync.targets.postgresql import PostgreSQLTarget

                return PostgreSQLTarget(url.place)
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"target {url} needs {error.name}: pip install 'penstock[{url.kind}]'") from error
    raise ConfigurationError(f"target {url}: there is no such kind of target")


class SharedTargets:
    """Opens each target once, for all tables that it has. Any thread. A target that cannot be opened now delays only
    its own tables."""

    def __init__(self, open_one: Callable[[TargetUrl], Target]) -> None:
        self._open_one = open_one
        self._opened: dict[str, Target] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()

    def of(self, url: TargetUrl) -> Target:
        """The target of a URL. Errors: see `open_target`; the next call tries again."""
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
