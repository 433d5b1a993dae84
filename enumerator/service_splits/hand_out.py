"""`ServiceHandOut`: looks at what is due, and hands it out. A `ServiceSplitService`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.state import State
from penstock.enumerator.log import log_event
from penstock.enumerator.service_splits.board import DueSplit, ServiceBoard
from penstock.enumerator.service_splits.due_services import DueService, DueServices, ServicePolicy
from penstock.enumerator.tables.registry import TableRegistry
from penstock.enumerator.write_events import ServicesMeasured, ServiceSplitEnded
from penstock.proto.errors import ConfigurationError, PenstockError
from penstock.proto.model.server_status import StreamStatus
from penstock.proto.model.service_splits import (
    MAX_AVOIDED,
    Service,
    ServiceAnswer,
    ServiceOutcome,
    ServiceRequest,
    ServiceSplit,
    ServiceSplitId,
    ServiceSplitSummary,
)
from penstock.proto.model.writes import GroupId

LOOK_THREADS: Final = 4
"""Tables that are looked at side by side, so that a slow storage delays few others."""
RETRY_MS: Final = 1_000
"""When a member that gets nothing asks again."""

log = logging.getLogger("penstock.enumerator.services")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLimits:
    """Limits and durations of the hand-out."""

    lease_ms: int = 45_000
    """How long a member keeps a split without a call."""
    max_running: int = 100
    """How many splits members have at a time, of all tables."""
    look_ms: int = 10_000
    """How often a table's timeline is looked at."""
    return_ms: int = 600_000
    """How long after a start cleans and archivals wait for streams to call again: they are not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableServices:
    """The services of tables that a server hands out."""

    policy_of: Callable[[str], ServicePolicy | None]
    """The policy of a table by its name; None: its services are not handed out."""
    due: DueServices | None
    """Says what is due; None: nothing is handed out."""
    limits: ServiceLimits = ServiceLimits()
    """Limits and durations."""


NO_TABLE_SERVICES: Final = TableServices(policy_of=lambda table: None, due=None)


@dataclass(slots=True)
class _Look:
    """The looks at one table."""

    next_ms: int = 0
    is_under_way: bool = False
    error: str = ""
    is_repeated: bool = False
    """Whether another look follows the one under way at once."""
    outdated: int = 0
    """How often what a look under way finds became out of date."""


@dataclass(slots=True)
class ServiceHandOut:
    """Hands the services of tables out. Any thread. Call `tick` every second or so, and `close` at the end."""

    coordinator: Coordinator
    """The groups that hold cleans, and the open writes."""
    tables: TableRegistry
    """The served tables."""
    services: TableServices
    """What is handed out."""
    streams_of: Callable[[str], tuple[StreamStatus, ...]]
    """The streams of a table, which hold cleans."""
    clock_ms: Callable[[], int]
    """A clock that never goes back."""
    wake: Callable[[], object] = lambda: None
    """Makes `tick` be called now."""
    _board: ServiceBoard = field(init=False)
    _started_ms: int = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looks: dict[str, _Look] = field(default_factory=dict)
    _pool: ThreadPoolExecutor | None = None

    def __post_init__(self) -> None:
        self._board = ServiceBoard(self.services.limits.lease_ms, self.services.limits.max_running)
        self._started_ms = self.clock_ms()

    # --- calls

    def request_service_split(self, request: ServiceRequest, principal: str = "") -> ServiceAnswer:
        """See `ServiceSplitService.request_service_split`."""
        if self.services.due is None:
            raise ConfigurationError("this server hands out no table services: use one of `penstock serve`")
        policies = self._policies()
        if request.table and request.table not in policies:
            self.tables.path(request.table)
            raise ConfigurationError(
                f"table {request.table!r} has no policy for its services on this server: set [tables."
                f"{request.table}.services] or [services] in its configuration"
            )
        with self._lock:
            if request.looks_first:
                for table in self._asked_for(request, policies):
                    look = self._looks.setdefault(table, _Look())
                    look.next_ms, look.is_repeated = 0, look.is_under_way
            now_ms = self.clock_ms()
            split = self._board.request(request, principal, policies, now_ms)
            is_idle = self._board.is_idle(request, now_ms) and self._has_looked(request, policies)
        if request.looks_first:
            self.wake()
        if split is None or split.hold is None:
            return ServiceAnswer(None, RETRY_MS, is_idle)
        log_event(
            "service split handed out",
            table=split.id.table,
            service=split.id.service.value,
            instant=split.id.instant,
            member=request.member,
        )
        return ServiceAnswer(self._described(split, split.hold.attempt, policies[split.id.table]))

    def renew_service_split(self, split: ServiceSplitId, member: str, attempt: int, principal: str = "") -> int:
        """See `ServiceSplitService.renew_service_split`."""
        with self._lock:
            self._board.renew(split, member, attempt, principal, self.clock_ms())
        return self.services.limits.lease_ms

    def finish_service_split(
        self, split: ServiceSplitId, member: str, attempt: int, outcome: ServiceOutcome, principal: str = ""
    ) -> None:
        """See `ServiceSplitService.finish_service_split`. The table is looked at again at once."""
        with self._lock:
            self._board.finish(split, member, attempt, principal, outcome, self.clock_ms())
            self._look_again(split.table)
        if outcome.code:
            log.warning("%s failed at member %s: %s: %s", split, member, outcome.code, outcome.text)
        else:
            log_event("service split done", table=split.table, service=split.service.value, instant=split.instant)
        self._ended(split, "failed" if outcome.code else "done")
        self.wake()

    def list_service_splits(self, table: str = "") -> tuple[ServiceSplitSummary, ...]:
        """See `ServiceSplitService.list_service_splits`."""
        with self._lock:
            return self._board.summaries(table, self.clock_ms())

    def _described(self, split: DueSplit, attempt: int, policy: ServicePolicy) -> ServiceSplit:
        table = split.id.table
        readers: tuple[str, ...] = ()
        avoided: frozenset[tuple[str, str]] = frozenset()
        if split.id.service in (Service.CLEAN, Service.ARCHIVE):
            groups = self.coordinator.read(lambda state: {key.group for key in state.groups if key.table == table})
            readers = tuple(sorted(groups | {each.name for each in self.streams_of(table) if each.table == table}))
        elif split.id.service is Service.CLUSTER and not split.id.instant:
            held = self.coordinator.read(lambda state: _held_by_writes(state, table))
            avoided = frozenset(sorted(frozenset[GroupId]().union(*held))[:MAX_AVOIDED])
        return ServiceSplit(
            id=split.id,
            attempt=attempt,
            lease_ms=self.services.limits.lease_ms,
            options=policy.options,
            readers=readers,
            avoided=avoided,
        )

    # --- what goes on without calls

    def tick(self) -> None:
        """Looks at the tables whose turn it is, in threads, and ends leases that are over."""
        due = self.services.due
        if due is None:
            return
        now_ms, policies = self.clock_ms(), self._policies()
        with self._lock:
            expired = self._board.expire(now_ms)
            for table in [name for name in self._looks if name not in policies]:
                del self._looks[table]
                self._board.forget(table)
            turn = [name for name in policies if self._is_turn(name, now_ms)]
            for name in turn:
                self._looks[name].is_under_way = True
            outdated = {name: self._looks[name].outdated for name in turn}
        for split in expired:
            log.warning("%s: its lease ended at member %s", split.id, "" if split.hold is None else split.hold.member)
            self._ended(split.id, "expired")
        for name in turn:
            self._threads().submit(self._look, name, policies[name], due, outdated[name])
        self.coordinator.observer.observe(ServicesMeasured(self.list_service_splits()))

    def close(self) -> None:
        """Ends after the looks that are under way."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _is_turn(self, table: str, now_ms: int) -> bool:
        look = self._looks.setdefault(table, _Look())
        return not look.is_under_way and look.next_ms <= now_ms

    def _look_again(self, table: str) -> None:
        """Makes the next look be now. What a look under way finds does not count: it may be a split that has ended."""
        look = self._looks.setdefault(table, _Look())
        look.next_ms, look.outdated = 0, look.outdated + 1

    def _look(self, table: str, policy: ServicePolicy, due: DueServices, outdated: int) -> None:
        error = ""
        try:
            found = due(self.tables.path(table), policy)
        except PenstockError as failure:
            error = f"{failure.code}: {failure}"
        except Exception:
            log.exception("services of table %s: unexpected exception", table)
            error = "BUG"
        with self._lock:
            look = self._looks.setdefault(table, _Look())
            is_new = error not in ("", look.error)
            look.is_under_way, look.error = False, error
            if look.outdated != outdated:
                return
            look.next_ms = 0 if look.is_repeated else self.clock_ms() + self.services.limits.look_ms
            look.is_repeated = False
            if not error:
                self._board.found(table, filter(self._may_begin, found), self.clock_ms())
        if is_new:
            log.warning("services of table %s: what is due is not known: %s", table, error)

    def _may_begin(self, due: DueService) -> bool:
        deletes = due.service in (Service.CLEAN, Service.ARCHIVE)
        return not deletes or self.clock_ms() - self._started_ms >= self.services.limits.return_ms

    def _has_looked(self, request: ServiceRequest, policies: dict[str, ServicePolicy]) -> bool:
        """Whether each table that is asked for was looked at since `_look_again`."""
        names = self._asked_for(request, policies)
        return all((look := self._looks.get(name)) is not None and look.next_ms > 0 for name in names)

    @staticmethod
    def _asked_for(request: ServiceRequest, policies: dict[str, ServicePolicy]) -> tuple[str, ...]:
        return (request.table,) if request.table else tuple(policies)

    def _policies(self) -> dict[str, ServicePolicy]:
        named = ((name, self.services.policy_of(name)) for name in self.tables.names())
        return {name: policy for name, policy in named if policy is not None}

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(LOOK_THREADS, thread_name_prefix="penstock-services")
        return self._pool

    def _ended(self, split: ServiceSplitId, result: str) -> None:
        event = ServiceSplitEnded(table=split.table, service=split.service.value, result=result)
        self.coordinator.observer.observe(event)


def _held_by_writes(state: State, table: str) -> tuple[frozenset[GroupId], ...]:
    """The file groups that each open write of the table holds."""
    writes = state.writes.get(table)
    return () if writes is None else tuple(write.held.groups for write in writes.live.values())
