"""Lists the catalogs of a server, each on its own thread, and puts their tables into the registry.

A catalog that is down, slow or huge affects only itself: its tables of the last listing stay.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator.catalog.adapter import CatalogAdapter
from penstock.enumerator.catalog.listing import CatalogRules, Listing
from penstock.enumerator.catalog.pace import delay_s, pause_s
from penstock.enumerator.catalog_events import CatalogListed
from penstock.enumerator.clocks import monotonic_ms, wall_ms
from penstock.enumerator.log import log_event
from penstock.enumerator.observer import NO_OBSERVER, Observer
from penstock.enumerator.tables.registry import RegistryChange, TableRegistry
from penstock.proto.errors import InvariantViolation, StorageError, TableNotFound, code_and_text
from penstock.proto.model.catalogs import CatalogStatus

SILENT_MS: Final = 60_000
"""A listing without a step for this long is reported as an error of its catalog."""
STOP_S: Final = 2.0
"""How long `stop` waits for a thread; a listing that does not answer ends with the process."""
_SHOWN_NAMES: Final = 20


@dataclass(slots=True)
class Catalog:
    """A catalog of a server, with the state of its listings."""

    rules: CatalogRules
    """How its tables are served."""
    kind: str
    """The kind of its adapter: `folders`, `file` or `hive`."""
    adapter: Callable[[], CatalogAdapter]
    """Creates the adapter. Called again after a failed listing, so that a connection is opened again."""
    interval_s: float
    """Time between the starts of two listings."""
    completed: int = 0
    """How many listings have ended."""
    begun: int = 0
    """How many listings have begun."""
    failures: int = 0
    """Failed listings in a row."""
    steps: int = 0
    """Steps of the last listing."""
    problems: tuple[str, ...] = ()
    """Problems of the last listing."""
    problem_count: int = 0
    """How many problems it had."""
    error: tuple[str, str] = ("", "")
    """Code and text of the error of the last listing."""
    listed_ms: int | None = None
    """Wall time of the end of the last successful listing."""
    step_ms: int | None = None
    """Monotonic time of the last step of the running listing."""
    opened: CatalogAdapter | None = None
    """The adapter of the last successful listing."""
    woken: threading.Event = field(default_factory=threading.Event)
    """Set for a listing now, without pauses."""


class Catalogs:
    """The catalogs of a server. Any thread. Clocks are parameters for tests."""

    def __init__(
        self,
        catalogs: Iterable[Catalog],
        registry: TableRegistry,
        *,
        clock_ms: Callable[[], int] = monotonic_ms,
        wall_ms: Callable[[], int] = wall_ms,
        observer: Observer = NO_OBSERVER,
    ) -> None:
        self._catalogs = {catalog.rules.catalog: catalog for catalog in catalogs}
        self._registry, self._clock_ms, self._wall_ms, self._observer = registry, clock_ms, wall_ms, observer
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        for name in self._catalogs:  # their order among the sources is the order of the configuration
            registry.put_source(_source(name), ())

    def start(self) -> None:
        """Starts the threads."""
        for catalog in self._catalogs.values():
            name = f"penstock-catalog-{catalog.rules.catalog}"[:60]
            thread = threading.Thread(target=self._run, args=(catalog,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Stops the threads. A listing that pauses ends at once."""
        self._ended.set()
        for catalog in self._catalogs.values():
            catalog.woken.set()
        for thread in self._threads:
            thread.join(STOP_S)

    def wait_for_first(self, seconds: float) -> None:
        """Waits until each catalog was listed once, or failed once; for at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: all(each.completed for each in self._catalogs.values()), seconds)

    def refresh(self, catalog: str, seconds: float) -> tuple[CatalogStatus, ...]:
        """Lists the catalog now without pauses, or all catalogs if '', and waits for the end of these listings for at
        most `seconds`. Returns the status of each. TableNotFound for an unknown catalog; StorageError after the time,
        when the listings go on."""
        chosen = list(self._catalogs.values())
        if catalog:
            if catalog not in self._catalogs:
                known = ", ".join(sorted(self._catalogs)[:_SHOWN_NAMES]) or "none"
                raise TableNotFound(f"no catalog {catalog[:200]!r} is configured here; configured: {known}")
            chosen = [self._catalogs[catalog]]
        with self._changed:
            awaited = [(each, each.begun + 1) for each in chosen]
            for each in chosen:
                each.woken.set()
            if not self._changed.wait_for(lambda: all(each.completed >= number for each, number in awaited), seconds):
                slow = ", ".join(each.rules.catalog for each, number in awaited if each.completed < number)
                raise StorageError(
                    f"the listing of catalog {slow[:300]} has not ended within {seconds:.0f} s; it goes on: see "
                    "`penstock tables list`"
                )
        return tuple(self._status(each) for each in chosen)

    def statuses(self) -> tuple[CatalogStatus, ...]:
        """The status of each catalog, in the order of the configuration."""
        return tuple(map(self._status, self._catalogs.values()))

    def list_once(self, name: str, *, paced: bool = False) -> RegistryChange | None:
        """Lists one catalog in this thread; returns the change of the registry. Errors become its status."""
        catalog = self._catalogs[name]
        with self._changed:
            catalog.begun += 1
        begin_ms = catalog.step_ms = self._clock_ms()
        try:
            listing = self._listed(catalog, begin_ms, paced=paced)
            if listing is None:
                return None
            change = self._registry.put_source(_source(name), listing.result())
            self._succeeded(catalog, listing)
            return change
        except BaseException as error:  # noqa: BLE001 - an error of this catalog only; the next listing follows
            self._failed(catalog, error)
            return None
        finally:
            with self._changed:
                catalog.step_ms = None
                catalog.completed = catalog.begun
                self._changed.notify_all()
            spent_s = (self._clock_ms() - begin_ms) / 1000
            tables = len(self._registry.source(_source(name)))
            self._observer.observe(CatalogListed(name, catalog.error[0], tables, catalog.problem_count, spent_s))

    def _listed(self, catalog: Catalog, begin_ms: int, *, paced: bool) -> Listing | None:
        """The items of one listing; None if the catalogs are stopped meanwhile."""
        if catalog.opened is None:
            catalog.opened = catalog.adapter()
        listing = Listing(catalog.rules, self._registry.source(_source(catalog.rules.catalog)))
        expected = catalog.steps if paced else 0
        for item in catalog.opened.listing():
            listing.add(item)
            now_ms = catalog.step_ms = self._clock_ms()
            pause = pause_s(listing.steps, (now_ms - begin_ms) / 1000, expected, catalog.interval_s)
            if pause and not self._ended.is_set() and catalog.woken.wait(pause):
                expected = 0  # somebody waits for this listing, or for the next one
            if self._ended.is_set():
                return None
        return listing

    def _succeeded(self, catalog: Catalog, listing: Listing) -> None:
        if catalog.failures:
            log_event("catalog can be listed again", catalog=catalog.rules.catalog, failures=catalog.failures)
        new = [problem for problem in listing.problems if problem not in catalog.problems]
        for problem in new:
            log_event("problem of a catalog", level=logging.WARNING, catalog=catalog.rules.catalog, reason=problem)
        catalog.failures, catalog.error, catalog.steps = 0, ("", ""), listing.steps
        catalog.problems, catalog.problem_count = tuple(listing.problems), listing.problem_count
        catalog.listed_ms = self._wall_ms()

    def _failed(self, catalog: Catalog, error: BaseException) -> None:
        if isinstance(error, InvariantViolation):
            log_event("catalog cannot be listed", level=logging.ERROR, exc_info=error)
        code, text = code_and_text(error)
        catalog.opened = None
        catalog.failures += 1
        catalog.error = (code, f"catalog {catalog.rules.catalog}: {text}"[:1000])
        log_event(
            "catalog cannot be listed",
            level=logging.WARNING,
            catalog=catalog.rules.catalog,
            failures=catalog.failures,
            code=code,
            reason=text[:500],
        )

    def _status(self, catalog: Catalog) -> CatalogStatus:
        code, text = catalog.error
        step_ms = catalog.step_ms
        if step_ms is not None and self._clock_ms() - step_ms >= SILENT_MS:
            code, text = StorageError.code, f"catalog {catalog.rules.catalog}: its listing does not answer"
        return CatalogStatus(
            catalog=catalog.rules.catalog,
            kind=catalog.kind,
            tables=len(self._registry.source(_source(catalog.rules.catalog))),
            listed_ms=catalog.listed_ms,
            error_code=code,
            error=text,
            problem_count=catalog.problem_count,
            problems=catalog.problems,
        )

    def _run(self, catalog: Catalog) -> None:
        is_woken = True
        while not self._ended.is_set():
            catalog.woken.clear()
            begin_ms = self._clock_ms()
            self.list_once(catalog.rules.catalog, paced=not is_woken)
            spent_s = (self._clock_ms() - begin_ms) / 1000
            is_woken = catalog.woken.wait(delay_s(catalog.interval_s, spent_s, catalog.failures))


def log_changes(change: RegistryChange) -> None:
    """A listener of the registry: logs one line for each change, with the first names."""
    moved = [after for before, after in change.changed if before.path != after.path]
    names = [entry.name for entry in (*change.added, *change.removed, *moved)]
    log_event(
        "tables changed",
        version=change.version,
        added=len(change.added),
        removed=len(change.removed),
        moved=len(moved),
        tables=", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else ""),
    )


def _source(catalog: str) -> str:
    return f"catalog {catalog}"
