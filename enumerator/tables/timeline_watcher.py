"""`TimelineWatcher`: reports that an instant may have completed in a local timeline folder, by inotify.

A report only makes the next look at a table earlier. The interval of looks remains, so a missed event (a network file
system, an overflow, no free watch) delays rows and never loses one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from penstock.enumerator.catalog_events import TimelinesWatched
from penstock.enumerator.clocks import monotonic_ms
from penstock.enumerator.log import log_event
from penstock.enumerator.tables.inotify import CREATED, FOLDER_GONE, MOVED_IN, OVERFLOW, WRITTEN, FolderEvent
from penstock.proto.errors import PenstockError
from penstock.proto.value_classes import dataclass
from penstock.table.storage.filesystem import open_folder
from penstock.table.storage.uris import uri_scheme

MAX_WATCHES: Final = 10_000
"""Watched folders; further tables are looked at by the interval."""
IDLE_MS: Final = 600_000
"""A table that was not looked at for so long gives up its watch if another one needs it."""
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


@dataclass(slots=True)
class _Watch:
    """The watch of one table."""

    number: int
    """The number of the watch; tables in one folder share it."""
    looked_ms: int
    """When the table was last looked at."""


class TimelineWatcher:
    """Calls `changed` with the path of a table whose timeline may have a new completed instant. Any thread.

    `open_events` opens the source of events, at the first folder, and again after an OSError; None: the system has
    none. A thread reads the events and calls `changed`. `measured` receives how many folders are watched. If `most`
    folders are watched, a table that was not looked at for IDLE_MS gives its place to another one.
    """

    def __init__(
        self,
        open_events: Callable[[], FolderEvents | None],
        changed: Callable[[str], object],
        most: int = MAX_WATCHES,
        *,
        measured: Callable[[TimelinesWatched], object] = lambda event: None,
        clock_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        self._open_events, self._changed, self._most = open_events, changed, most
        self._measured, self._clock_ms = measured, clock_ms
        self._lock, self._measuring = threading.Lock(), threading.Lock()
        self._events: FolderEvents | None = None
        self._is_opened = self._is_closed = False
        self._lost = ""
        self._watches: OrderedDict[str, _Watch] = OrderedDict()
        self._folders: dict[int, dict[str, str]] = {}
        self._refused: set[str] = set()

    def follow(self, path: str, timeline_folder: str) -> None:
        """Watches the timeline folder of the table from now on. Call it at each look: the folder may be new. A new
        watch is reported as a change, because an instant may have completed just before it."""
        if uri_scheme(path) not in ("", "file"):
            return
        is_new, reason = False, None
        with self._lock:
            if self._is_closed:
                return
            before = self._counts()
            try:
                is_new = self._add(path, os.path.join(open_folder(path)[1], timeline_folder))  # noqa: PTH118
                self._refused.discard(path)
            except FileNotFoundError:
                self._drop(path)
            except (OSError, PenstockError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                self._drop(path)
                self._refused.add(path)
            after = self._counts()
        self._report(before, after, reason)
        if is_new:
            self._changed(path)

    def forget(self, path: str) -> None:
        """Ends the watch of a table that is no longer served."""
        with self._lock:
            before = self._counts()
            self._drop(path)
            after = self._counts()
        self._report(before, after)

    def close(self) -> None:
        """Ends all watches and the thread."""
        with self._lock:
            self._is_closed, source, self._events = True, self._events, None
            self._clear()
        if source is not None:
            with suppress(OSError):
                source.close()

    def handle(self, events: list[FolderEvent]) -> None:
        """Reports the tables of these events, each once. After an overflow: all watched tables."""
        changed: dict[str, None] = {}
        with self._lock:
            for event in events:
                folders = self._folders.get(event.watch, {})
                if event.mask & OVERFLOW:
                    changed.update(dict.fromkeys(self._watches))
                elif event.mask & FOLDER_GONE:
                    changed.update(dict.fromkeys(folders))
                    for path in tuple(folders):
                        self._drop(path)
                elif folders and may_complete(event, next(iter(folders.values()))):
                    changed.update(dict.fromkeys(folders))
        if changed:
            self._measure(len(changed))
        for path in changed:
            self._changed(path)

    def _add(self, path: str, folder: str) -> bool:
        """Watches the folder. Returns whether the watch is new. OSError: it is refused."""
        source, watch = self._source(), self._watches.get(path)
        if watch is None and len(self._watches) >= self._most:
            self._drop_idle()
        number = source.add(folder)
        is_new = watch is None or watch.number != number
        if is_new:
            self._drop(path)
            self._folders.setdefault(number, {})[path] = folder
        self._watches[path] = _Watch(number, self._clock_ms())
        self._watches.move_to_end(path)
        return is_new

    def _source(self) -> FolderEvents:
        if not self._is_opened:
            self._is_opened = True
            try:
                self._events = self._open_events()
                self._lost = "" if self._events is not None else "the system has no inotify"
            except OSError as error:
                self._is_opened, self._lost = False, error.strerror or str(error)
            if self._events is not None:
                threading.Thread(target=self._run, args=(self._events,), name="penstock-watch", daemon=True).start()
        if self._events is None:
            raise OSError(0, self._lost)
        return self._events

    def _run(self, source: FolderEvents) -> None:
        try:
            while events := source.read():
                self.handle(events)
            return
        except Exception as error:  # noqa: BLE001 - the interval remains
            reason = f"{type(error).__name__}: {error}"
        with self._lock:
            is_open, self._events, self._lost = self._events is not None, None, reason
            before = self._counts()
            self._refused.update(self._watches)
            self._watches.clear()
            self._folders.clear()
            after = self._counts()
        if is_open:
            source.close()
            self._report(before, after, reason)
        with suppress(Exception):
            while source.read():  # until it is closed
                pass

    def _drop_idle(self) -> None:
        path, watch = next(iter(self._watches.items()), ("", None))
        if watch is None or self._clock_ms() - watch.looked_ms < IDLE_MS:
            raise OSError(0, f"{self._most} folders are watched")
        self._drop(path)

    def _drop(self, path: str) -> None:
        self._refused.discard(path)
        watch = self._watches.pop(path, None)
        if watch is None:
            return
        folders = self._folders[watch.number]
        del folders[path]
        if not folders:
            del self._folders[watch.number]
            if self._events is not None:
                self._events.remove(watch.number)

    def _clear(self) -> None:
        self._watches.clear()
        self._folders.clear()
        self._refused.clear()

    def _counts(self) -> tuple[int, int]:
        return len(self._watches), len(self._refused)

    def _measure(self, changes: int = 0) -> None:
        with self._measuring:  # so that the newest counts are reported last
            with self._lock:
                counts = self._counts()
            self._measured(TimelinesWatched(*counts, changes=changes))

    def _report(self, before: tuple[int, int], after: tuple[int, int], reason: str | None = None) -> None:
        """Reports new counts, and logs when the first table is refused, and when no table is any more."""
        if before == after:
            return
        watched, refused = after
        if refused and not before[1]:
            log_event(
                "timelines are not watched: the interval remains",
                level=logging.WARNING,
                reason=(reason or "")[:500],
                watched=watched,
            )
        elif before[1] and not refused:
            log_event("all timelines are watched again", watched=watched)
        self._measure()


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
