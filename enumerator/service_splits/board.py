"""`ServiceBoard`: the splits of table services that are due, and who has them. No I/O; the time is an argument.

Nothing of it is stored. The timelines say what is planned, and the heartbeat of an instant decides which process
completes it: a split that two members have after a restart of the server is completed by one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.enumerator.service_splits.due_services import DueService, ServicePolicy
from penstock.proto.errors import Fenced, PermissionDenied
from penstock.proto.model.service_splits import (
    Service,
    ServiceOutcome,
    ServiceRequest,
    ServiceSplitId,
    ServiceSplitState,
    ServiceSplitSummary,
)

FIRST_PAUSE_MS: Final = 10_000
"""How long a split waits after its first failure; twice as long after each further one."""
LONGEST_PAUSE_MS: Final = 600_000
MAX_ERROR_CHARS: Final = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A split that a member has."""

    member: str
    """The member."""
    principal: str
    """Its principal; '' without authentication."""
    attempt: int
    """The number of the hand-out."""
    until_ms: int
    """The end of the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSplit:
    """A split that is due."""

    id: ServiceSplitId
    """The split."""
    seen: str
    """The newest completed write when it was found to be due."""
    since_ms: int
    """When it was found to be due."""
    hold: Hold | None = None
    """Who has it."""
    failures: int = 0
    """Its failed attempts since it last succeeded."""
    error: str = ""
    """Code and text of the last error."""
    not_before_ms: int = 0
    """When it is handed out again after a failure."""


@dataclass(slots=True)
class ServiceBoard:
    """The splits of all tables. For one thread at a time."""

    lease_ms: int
    """How long a member keeps a split without a call."""
    max_running: int
    """How many splits members have at a time, of all tables."""
    _splits: dict[ServiceSplitId, DueSplit]
    _nothing_since: dict[ServiceSplitId, str]
    """The newest completed write when a split last succeeded."""
    _handed_out_ms: dict[str, int]
    _attempts: int

    def __init__(self, lease_ms: int, max_running: int) -> None:
        self.lease_ms = lease_ms
        self.max_running = max_running
        self._splits = {}
        self._nothing_since = {}
        self._handed_out_ms = {}
        self._attempts = 0

    def found(self, table: str, due: Iterable[DueService], now_ms: int) -> None:
        """Sets what is due of a table. Splits that members have stay."""
        by_id = {ServiceSplitId(table, each.service, each.instant): each.seen for each in due}
        for split in [each for each in self._of(table) if each.id not in by_id and each.hold is None]:
            del self._splits[split.id]
        for key in [key for key in self._nothing_since if key.table == table and key.instant and key not in by_id]:
            del self._nothing_since[key]
        for key, seen in by_id.items():
            known = self._splits.get(key)
            if known is not None:
                self._splits[key] = known if known.hold is not None else replace(known, seen=seen)
            elif self._nothing_since.get(key) != seen or key.instant:
                self._splits[key] = DueSplit(id=key, seen=seen, since_ms=now_ms)

    def forget(self, table: str) -> None:
        """Removes what is known of a table that is no longer served."""
        for key in [key for key in self._splits if key.table == table]:
            del self._splits[key]
        for key in [key for key in self._nothing_since if key.table == table]:
            del self._nothing_since[key]
        self._handed_out_ms.pop(table, None)

    def request(
        self, request: ServiceRequest, principal: str, policies: Mapping[str, ServicePolicy], now_ms: int
    ) -> DueSplit | None:
        """Hands out the split that is due for longest, of the table with the fewest running ones. A member that has one
        gets it again. None: none is waiting, or the limits are reached."""
        mine = next(
            (
                each
                for each in self._asked_for(request)
                if each.id.table in policies
                and each.hold is not None
                and (each.hold.member, each.hold.principal) == (request.member, principal)
            ),
            None,
        )
        if mine is not None and mine.hold is not None:
            return self._put(replace(mine, hold=replace(mine.hold, until_ms=now_ms + self.lease_ms)))
        running = self.running()
        if running.total() >= self.max_running:
            return None
        waiting = [
            each
            for each in self._asked_for(request)
            if each.hold is None
            and each.not_before_ms <= now_ms
            and (policy := policies.get(each.id.table)) is not None
            and running[each.id.table] < policy.max_running
            and self._handed_out_ms.get(each.id.table, -policy.pause_ms) + policy.pause_ms <= now_ms
        ]
        if not waiting:
            return None
        order = [*Service]
        split = min(
            waiting, key=lambda each: (running[each.id.table], each.since_ms, order.index(each.id.service), each.id)
        )
        self._attempts += 1
        self._handed_out_ms[split.id.table] = now_ms
        hold = Hold(member=request.member, principal=principal, attempt=self._attempts, until_ms=now_ms + self.lease_ms)
        return self._put(replace(split, hold=hold))

    def is_idle(self, request: ServiceRequest, now_ms: int) -> bool:
        """Whether of what is asked for no split is waiting or running. Those that failed count after their pause."""
        return all(each.hold is None and each.not_before_ms > now_ms for each in self._asked_for(request))

    def renew(self, key: ServiceSplitId, member: str, attempt: int, principal: str, now_ms: int) -> None:
        """Renews a lease. Fenced if the member no longer has the split; PermissionDenied for another principal."""
        split, hold = self._held(key, member, attempt, principal)
        self._put(replace(split, hold=replace(hold, until_ms=now_ms + self.lease_ms)))

    def finish(
        self, key: ServiceSplitId, member: str, attempt: int, principal: str, outcome: ServiceOutcome, now_ms: int
    ) -> None:
        """Ends a split. Errors as `renew`."""
        split, _ = self._held(key, member, attempt, principal)
        if outcome.code:
            self._failed(split, f"{outcome.code}: {outcome.text}", now_ms)
            return
        self._nothing_since[key] = split.seen
        del self._splits[key]

    def expire(self, now_ms: int) -> list[DueSplit]:
        """Ends the leases that are over; the splits wait again. Returns these splits, as they were."""
        over = [each for each in self._splits.values() if each.hold is not None and each.hold.until_ms <= now_ms]
        for split in over:
            member = "" if split.hold is None else split.hold.member
            # At once the first time: a member that was killed is no sign of a split that cannot be carried out.
            self._failed(
                split, f"EXPIRED: the server heard nothing of member {member}", now_ms, free=not split.failures
            )
        return over

    def running(self) -> Counter[str]:
        """How many splits members have, by table."""
        return Counter(each.id.table for each in self._splits.values() if each.hold is not None)

    def summaries(self, table: str, now_ms: int) -> tuple[ServiceSplitSummary, ...]:
        """The splits of a table, or of all tables for '', by table, service and instant."""
        return tuple(
            ServiceSplitSummary(
                id=each.id,
                state=_state(each),
                member="" if each.hold is None else each.hold.member,
                age_ms=max(0, now_ms - each.since_ms),
                failures=each.failures,
                error=each.error,
            )
            for each in sorted(self._splits.values(), key=lambda each: each.id)
            if table in ("", each.id.table)
        )

    def _failed(self, split: DueSplit, error: str, now_ms: int, *, free: bool = False) -> None:
        failures = split.failures + 1
        pause_ms = 0 if free else min(FIRST_PAUSE_MS << min(failures - 1, 10), LONGEST_PAUSE_MS)
        self._put(
            replace(split, hold=None, failures=failures, error=error[:MAX_ERROR_CHARS], not_before_ms=now_ms + pause_ms)
        )

    def _put(self, split: DueSplit) -> DueSplit:
        self._splits[split.id] = split
        return split

    def _of(self, table: str) -> list[DueSplit]:
        return [each for each in self._splits.values() if each.id.table == table]

    def _asked_for(self, request: ServiceRequest) -> Iterator[DueSplit]:
        for each in self._splits.values():
            if request.table in ("", each.id.table) and (not request.services or each.id.service in request.services):
                yield each

    def _held(self, key: ServiceSplitId, member: str, attempt: int, principal: str) -> tuple[DueSplit, Hold]:
        split = self._splits.get(key)
        hold = None if split is None else split.hold
        if split is None or hold is None or (hold.member, hold.attempt) != (member, attempt):
            raise Fenced(f"{key}: member {member!r} does not have it: its lease ended, or the server restarted")
        if hold.principal and principal and hold.principal != principal:
            raise PermissionDenied(f"{key}: another principal has it")
        return split, hold


def _state(split: DueSplit) -> ServiceSplitState:
    if split.hold is not None:
        return ServiceSplitState.RUNNING
    return ServiceSplitState.FAILING if split.failures else ServiceSplitState.WAITING
