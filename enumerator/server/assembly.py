"""Assembles the service of a server on its store, and opens and closes the parts in order.

The state is read while the server already listens but answers no calls yet.
"""

from __future__ import annotations

import logging
import pathlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from penstock.enumerator.catalog.adapter import CatalogAdapter
from penstock.enumerator.catalog.catalogs import Catalog, Catalogs, log_changes
from penstock.enumerator.catalog.folders import FolderCatalog
from penstock.enumerator.catalog.listing import CatalogRules
from penstock.enumerator.catalog.static_file import FileCatalog
from penstock.enumerator.catalog_events import TableRemoved
from penstock.enumerator.clocks import monotonic_ms, wall_ms
from penstock.enumerator.coordinator.coordinator import Coordinator, durable_coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.groups.activity import Activity
from penstock.enumerator.observer import NO_OBSERVER, CompositeObserver, EpochAcquired, Observer
from penstock.enumerator.planning.annotate import EventTimeScan
from penstock.enumerator.server.config.catalogs import CatalogSettings
from penstock.enumerator.server.config.settings import Settings, TableSettings
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.service_splits.due_services import DueServices
from penstock.enumerator.service_splits.hand_out import ServiceLimits, TableServices
from penstock.enumerator.store.journal import Journal
from penstock.enumerator.tables.followed_tables import FollowedTables
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.enumerator.tables.registry import CONFIG, RegistryChange, TableEntry, TableRegistry
from penstock.enumerator.writes.table_timeline import Timelines
from penstock.proto.errors import ConfigurationError, InvariantViolation, PenstockError, StorageDenied, StorageError

FIRST_CHECKS_S: Final = 5.0
"""How long a start waits for tables whose storage does not respond."""
WAIT_MS: Final = 365 * 86_400_000
"""How long a second server waits for the state directory of the first: in effect, until it is stopped."""

log = logging.getLogger("penstock.enumerator.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFunctions:
    """What a server asks of tables beyond their splits. The process that runs the server gives it."""

    scan_event_time: EventTimeScan | None = None
    """See `OpenTables`."""
    timelines: Timelines | None = None
    """See `WriteTransactions`."""
    due_services: DueServices | None = None
    """See `TableServices`."""


NO_FUNCTIONS: Final = TableFunctions()


class EndedWhileWaiting(Exception):
    """The process was stopped while another one still held the state."""


class DeferredService:
    """A proxy of a service whose state is still being read. No call reaches it before `set`."""

    def __init__(self) -> None:
        self._service: EnumeratorService | None = None
        self.writes = _DeferredPart(self, "writes")
        self.service_splits = _DeferredPart(self, "service_splits")

    def set(self, service: EnumeratorService) -> None:
        """Sets the service."""
        self._service = service

    @property
    def service(self) -> EnumeratorService:
        """The service."""
        if self._service is None:
            raise InvariantViolation("a call came before the state was read")
        return self._service

    def __getattr__(self, name: str) -> Any:
        return getattr(self.service, name)


class _DeferredPart:
    """A part of a deferred service."""

    def __init__(self, deferred: DeferredService, part: str) -> None:
        self._deferred = deferred
        self._part = part

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(self._deferred.service, self._part), name)


@contextmanager
def running_service(
    settings: Settings,
    observer: Observer = NO_OBSERVER,
    ended: threading.Event | None = None,
    functions: TableFunctions = NO_FUNCTIONS,
    activity: Activity | None = None,
) -> Iterator[EnumeratorService]:
    """The service of these settings. It follows the tables of its groups while the block runs.

    Without `state` the service keeps its state in memory. With `state` it waits while another live process holds the
    directory, unless `takeover`; EndedWhileWaiting if `ended` is set meanwhile. `activity` records events for the
    page. Errors: those of `open_sqlite`, `recovered` and `_check_tables`.
    """
    if not settings.tables and not settings.catalog:
        raise ConfigurationError("no table to serve: name at least one, as NAME=PATH, or a catalog")
    core = CoordinatorSettings(
        lease_ms=settings.lease_ms,
        max_groups_of_table=settings.limits.groups_per_table,
        max_groups_of_principal=settings.limits.groups_per_principal,
        max_group_tables_of_principal=settings.limits.group_tables_per_principal,
        group_expiry_ms=settings.group_expiry_ms,
    )
    activity = activity or Activity(wall_ms, threading.Lock(), settings.limits.shown)
    observer = CompositeObserver(observer, activity)
    if not settings.state:
        coordinator = Coordinator(clock_ms=monotonic_ms, settings=core, observer=observer)
        with _following(settings, coordinator, functions, activity) as service:
            yield service
        return
    from penstock.enumerator.store.sqlite.lock import Clocks, read_lock
    from penstock.enumerator.store.sqlite.open import open_sqlite

    def sleep(seconds: float) -> None:
        if (ended or threading.Event()).wait(seconds):
            raise EndedWhileWaiting

    try:
        store = open_sqlite(settings.state, takeover=settings.takeover)
    except StorageError as error:
        if read_lock(pathlib.Path(settings.state))[1]:
            log.warning("waiting: %s", error)
        store = open_sqlite(settings.state, wait_ms=WAIT_MS, clocks=Clocks(sleep=sleep))
    try:
        observer.observe(EpochAcquired(store.epoch))
        journal = Journal(store)
        try:
            coordinator = durable_coordinator(store, journal, clock_ms=monotonic_ms, settings=core, observer=observer)
            log.info(
                "state %s, epoch %d: %s", settings.state, store.epoch, coordinator.read(lambda state: state.summary())
            )
            with _following(settings, coordinator, functions, activity) as service:
                yield service
        finally:
            journal.close()
    finally:
        store.close()


def _check_tables(service: EnumeratorService, *, has_catalogs: bool = False) -> None:
    """Waits for the first check of each table, at most FIRST_CHECKS_S.

    Raises the error of the first table if no table can be opened, a retry cannot help, and there is no group and no
    catalog: then the paths are wrong. Any other table that cannot be opened is served when it can be.
    """
    health_by_table = service.checks.wait_for_all(FIRST_CHECKS_S)
    errors = [health.error for _, health in sorted(health_by_table.items())]
    final = [error for error in errors if isinstance(error, PenstockError) and not _may_open_later(error)]
    all_failed = final and len(final) == len(service.checks.names())
    if all_failed and not has_catalogs and not service.coordinator.read(lambda state: state.groups):
        raise final[0]
    service.checks.begin_logging()


def _may_open_later(error: PenstockError) -> bool:
    """Whether the table may open later without a change of the configuration."""
    return error.retryable or isinstance(error, StorageDenied)


def _entry(named: tuple[str, TableSettings]) -> TableEntry:
    name, table = named
    return TableEntry(name, table.path, poll_interval_ms=table.poll_interval_ms)


def adapter_of(catalog: CatalogSettings) -> CatalogAdapter:
    """The adapter of a catalog. Reads nothing. ConfigurationError for a path that cannot be, or a missing extra."""
    if catalog.path:
        return FolderCatalog(catalog.path)
    if catalog.file:
        return FileCatalog(catalog.file)
    from penstock.enumerator.catalog.hive import HiveCatalog

    return HiveCatalog(catalog.hive)


def _catalog(name: str, catalog: CatalogSettings, max_tables: int) -> Catalog:
    adapter_of(catalog)  # a wrong setting fails the start
    rules = CatalogRules(
        catalog=name,
        include=catalog.include,
        exclude=catalog.exclude,
        poll_interval_ms=catalog.poll_interval_ms,
        max_tables=max_tables,
    )
    kind = "folders" if catalog.path else "file" if catalog.file else "hive"
    return Catalog(rules, kind, partial(adapter_of, catalog), catalog.refresh_interval_ms / 1000)


def _forget(reads: OpenTables, observer: Observer, change: RegistryChange) -> None:
    """A listener of the registry: closes tables that are gone, and ends their measurements."""
    for entry in (*change.removed, *(before for before, after in change.changed if before.path != after.path)):
        reads.forget(entry.path)
        observer.observe(TableRemoved(entry.name))


@contextmanager
def _following(
    settings: Settings,
    coordinator: Coordinator,
    functions: TableFunctions,
    activity: Activity,
) -> Iterator[EnumeratorService]:
    reads = OpenTables(settings.limits.open_tables, scan_event_time=functions.scan_event_time, topics=settings.topics)
    tables = TableRegistry({}, default_interval_ms=settings.poll_interval_ms, max_tables=settings.limits.tables)
    tables.put_source(CONFIG, map(_entry, settings.tables.items()))
    tables.subscribe(log_changes)
    tables.subscribe(partial(_forget, reads, coordinator.observer))
    catalogs = Catalogs(
        [_catalog(name, catalog, settings.limits.tables) for name, catalog in settings.catalog.items()],
        tables,
        observer=coordinator.observer,
    )
    every_ms = [
        *map(tables.interval_ms, tables.names()),
        *(each.poll_interval_ms for each in settings.catalog.values()),
    ]
    service = EnumeratorService(
        tables,
        reads=reads,
        follows=FollowedTables(reads, hollow_after_ms=settings.hollow_after_ms),
        coordinator=coordinator,
        poll_ms=min((each for each in every_ms if each is not None), default=settings.poll_interval_ms),
        activity=activity,
        catalogs=catalogs,
        add_from=settings.add_from,
        timelines=functions.timelines,
        services=TableServices(
            policy_of=settings.service_policy,
            due=functions.due_services,
            limits=ServiceLimits(
                max_running=settings.limits.service_splits,
                look_ms=settings.services_interval_ms,
                return_ms=settings.services_return_ms,
            ),
        ),
    )
    service.checks.is_logging = False
    catalogs.start()
    try:
        catalogs.wait_for_first(FIRST_CHECKS_S)
        service.start()
        _check_tables(service, has_catalogs=bool(settings.catalog))
        yield service
    finally:
        catalogs.stop()
        service.stop()
