"""`TimelineWatcher`: reports that an instant may have completed in a local timeline folder, by inotify.

A report only makes the next look at a table earlier. The interval of looks remains, so a missed event (a network file
system, an overflow, no free watch) delays rows and never loses one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.enumerator.log import log_event
from penstock.enumerator.tables.inotify import CREATED, FOLDER_GONE, MOVED_IN, OVERFLOW, WRITTEN, FolderEvent
from penstock.proto.errors import PenstockError
from penstock.table.storage.filesystem import open_folder, uri_scheme

MAX_WATCHES: Final = 10_000
"""Watched folders; further tables are looked at by the interval."""
_PENDING: Final = (".requested", ".inflight", ".tmp", ".crc", ".bak", ".swp", "~", "._COPYING_")


class FolderEvents(Protocol):
    """The source of events: `inotify.Inotify`."""

    def add(self, folder: str, /) -> int:
        """See `Inotify.add`."""
        ...

    def remove(self, watch: int, /) -> None:
        """See `Inotify.remove`."""
        ...

    def read(self) -> list[FolderEvent]:
        """See `Inotify.read`."""
        ...

    def close(self) -> None:
        """See `Inotify.close`."""
        ...


@dataclass(frozen=True, slots=True)
class _Watch:
    """One watched folder."""

    path: str
    """The table."""
    folder: str
    """Its timeline folder on the local disk."""


class TimelineWatcher:
    """Calls `changed` with the path of a table whose timeline may have a new completed instant. Any thread.

    `open_events` opens the source of events, at the first folder; None or an OSError: nothing is watched. A thread
    reads the events and calls `changed`.
    """

    def __init__(
        self, open_events: Callable[[], FolderEvents | None], changed: Callable[[str], object], most: int = MAX_WATCHES
    ) -> None:
        self._open_events, self._changed, self._most = open_events, changed, most
        self._lock = threading.Lock()
        self._events: FolderEvents | None = None
        self._opened = self._has_logged = False
        self._watches: dict[int, _Watch] = {}
        self._numbers: dict[str, int] = {}

    def follow(self, path: str, timeline_folder: str) -> None:
        """Watches the timeline folder of the table from now on. Call it at each look: the folder may be new. A new
        watch is reported as a change, because an instant may have completed just before it."""
        if uri_scheme(path) not in ("", "file"):
            return
        try:
            folder = os.path.join(open_folder(path)[1], timeline_folder)  # noqa: PTH118
            with self._lock:
                if not self._is_open() or self._events is None:
                    return
                before = self._numbers.get(path)
                if before is None and len(self._watches) >= self._most:
                    self._log(f"{self._most} folders are watched")
                    return
                number = self._events.add(folder)
                if number == before:
                    return
                self._drop(path)
                self._numbers[path], self._watches[number] = number, _Watch(path, folder)
        except FileNotFoundError:
            return
        except (OSError, PenstockError) as error:
            self._log(str(error))
            return
        self._changed(path)

    def forget(self, path: str) -> None:
        """Ends the watch of a table."""
        with self._lock:
            self._drop(path)

    def close(self) -> None:
        """Ends all watches and the thread."""
        with self._lock:
            self._opened, source, self._events = True, self._events, None
            self._watches.clear()
            self._numbers.clear()
        if source is not None:
            with suppress(OSError):
                source.close()

    def handle(self, events: list[FolderEvent]) -> None:
        """Reports the tables of these events, each once. After an overflow: all watched tables."""
        changed: dict[str, None] = {}
        with self._lock:
            for event in events:
                watch = self._watches.get(event.watch)
                if event.mask & OVERFLOW:
                    changed.update(dict.fromkeys(self._numbers))
                elif watch is not None and event.mask & FOLDER_GONE:
                    self._drop(watch.path)
                    changed[watch.path] = None
                elif watch is not None and may_complete(event, watch.folder):
                    changed[watch.path] = None
        for path in changed:
            self._changed(path)

    def _is_open(self) -> bool:
        if not self._opened:
            self._opened = True
            self._events = self._open_events()
            if self._events is not None:
                threading.Thread(target=self._run, args=(self._events,), name="penstock-watch", daemon=True).start()
        return self._events is not None

    def _run(self, source: FolderEvents) -> None:
        try:
            while events := source.read():
                self.handle(events)
        except Exception as error:  # noqa: BLE001 - the interval remains
            self._log(f"{type(error).__name__}: {error}")

    def _drop(self, path: str) -> None:
        number = self._numbers.pop(path, None)
        if number is not None:
            self._watches.pop(number, None)
            if self._events is not None:
                self._events.remove(number)

    def _log(self, reason: str) -> None:
        if not self._has_logged:
            self._has_logged = True
            log_event("timelines are not watched: the interval remains", level=logging.WARNING, reason=reason[:500])


def may_complete(event: FolderEvent, folder: str) -> bool:
    """Whether a completed instant may have appeared, by the event's name. A created file counts only if it has bytes
    already, as a link has: the end of its writing is an event of its own."""
    if not event.name[:1].isdigit() or event.name.endswith(_PENDING):
        return False
    if event.mask & (WRITTEN | MOVED_IN):
        return True
    try:
        return bool(event.mask & CREATED) and os.stat(os.path.join(folder, event.name)).st_size > 0  # noqa: PTH116, PTH118
    except OSError:
        return False
