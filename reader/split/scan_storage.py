"""Storages that are opened once for the splits of a scan."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from penstock.proto.model.splits import Scan
from penstock.table.bootstrap.sources import open_sources
from penstock.table.storage.filesystem import Storage, open_storage


class ScanStorage:
    """The storage of the last scan. It is released with the scan, whose URI may have credentials."""

    def __init__(self, opened: Callable[[Scan], Storage]) -> None:
        """`opened` opens the storage of a scan."""
        self._opened = opened
        self._last: tuple[weakref.ref[Scan], Storage] | None = None

    def of(self, scan: Scan) -> Storage:
        """The storage of the scan. Errors of `opened`."""
        last = self._last
        if last is not None and last[0]() is scan:
            return last[1]
        storage = self._opened(scan)
        self._last = weakref.ref(scan, self._forget), storage
        return storage

    def _forget(self, scan: weakref.ref[Scan]) -> None:
        last = self._last
        if last is not None and last[0] is scan:
            self._last = None


TABLES = ScanStorage(lambda scan: open_storage(scan.base_path))
"""The storages of tables."""
SOURCES = ScanStorage(lambda scan: open_sources(scan.base_path, scan.bootstrap_base_path))
"""The storages of the source files of bootstrapped tables."""
