"""The consumer groups of a service: a `GroupService` over the coordinator and the tables of the groups."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from penstock.enumerator.call_waits import call_wait
from penstock.enumerator.continuous.types import Progress, ReaderPlace
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.coordinator.observations import kind_of, over_of
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.members import group_of
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.state import State
from penstock.enumerator.groups.activity import Activity
from penstock.enumerator.groups.aligned_groups import AlignedGroups
from penstock.enumerator.groups.descriptions import (
    description_of,
    place_of,
    reset_outcome,
    status_of,
    with_held_splits,
    with_watermark,
)
from penstock.enumerator.groups.groups_over_tables import GroupsOverTables, merged_description, merged_statuses
from penstock.enumerator.groups.split_discovery import SplitDiscovery
from penstock.enumerator.log import log, log_event
from penstock.enumerator.observer import ReaderSplits, SplitEvent, SplitKind, SplitReported, SplitsCounted
from penstock.enumerator.tables.registry import TableRegistry
from penstock.enumerator.tables.table_checks import TableChecks
from penstock.enumerator.visibility import may_use
from penstock.proto.codec.serialized import decode_request, encode_request
from penstock.proto.errors import ConfigurationError, Fenced, TableNotFound, code_and_text
from penstock.proto.model.catalogs import CatalogStatus
from penstock.proto.model.groups import (
    AssignedSplit,
    Assignments,
    EndOfGroup,
    GroupAnswer,
    GroupDescription,
    GroupScope,
    GroupSpec,
    GroupStart,
    GroupSummary,
    Joined,
    Member,
    NothingYet,
    OnLostRange,
    ResetOutcome,
    ServerStatus,
    SplitProgress,
    SplitRef,
    StartAt,
    StartSnapshot,
    checked_name,
)
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import Changes, Incremental, is_pattern
from penstock.proto.model.reports import SplitReport
from penstock.proto.model.server_status import StreamStatus

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ConsumerGroups:
    """A `GroupService`. Any thread."""

    coordinator: Coordinator
    """Holds the state of the groups."""
    tables: TableRegistry
    """The tables, by name."""
    split_discovery: SplitDiscovery
    """Reads the tables of the groups."""
    checks: TableChecks
    """Whether each table can be opened."""
    activity: Activity
    """Recent activity, for `describe_server`."""
    clock_ms: Callable[[], int]
    """The monotonic clock of leases."""
    aligned: AlignedGroups
    """The aligned groups."""
    wake: Callable[[], object] = lambda: None
    """Starts a discovery now: called after a reader joined or a group was reset."""
    streams_of: Callable[[str], tuple[StreamStatus, ...]] = lambda table: ()
    """The streams of a table, or of all tables for ''."""
    catalogs_of: Callable[[], tuple[CatalogStatus, ...]] = lambda: ()
    """The catalogs of the server."""
    over_tables: GroupsOverTables = field(init=False)
    """The groups over tables."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "over_tables", GroupsOverTables(self.coordinator, self.tables))

    def join_group(self, group: str, reader_id: str, spec: GroupSpec, request_id: str) -> Joined:
        """See `GroupService.join_group`."""
        scope = _checked_scope(spec.scope)
        key = GroupKey(scope.request.table, checked_name("group", group))
        checked_name("reader id", reader_id)
        if is_pattern(key.table):
            self.over_tables.require_some(key, "consume")
        if spec.scope.request.hybrid is not None and not scope.over_tables:
            self.split_discovery.follows.allow_topic(key.table, spec.scope.request.hybrid)
        if not self.coordinator.read(lambda state: key in state.groups):
            if scope.over_tables:
                self.over_tables.create(key, scope, spec)
            else:
                self._create(key, scope, spec)
        event = ev.Join(key=key, reader_id=reader_id, scope=scope, request_id=request_id, principal=spec.principal)
        joined = self.coordinator.handle(event)
        log_event("reader joined", table=key.table, group=group, reader=reader_id, epoch=joined.member.epoch)
        self.wake()
        return joined

    def _create(self, key: GroupKey, scope: GroupScope, spec: GroupSpec) -> None:
        progress = self._start(key.table, scope, spec.start)
        created = ev.CreateGroup(key=key, scope=scope, limits=spec.limits, progress=progress, principal=spec.principal)
        self.coordinator.handle(created)

    def heartbeat(self, member: Member) -> int:
        """See `GroupService.heartbeat`."""
        self._count_fenced(member, lambda: self.coordinator.handle(ev.Heartbeat(member)))
        return self.coordinator.settings.lease_ms

    def request_splits(
        self,
        member: Member,
        max_splits: int,
        sequence: int,
        without: tuple[str, ...] = (),
        received: int | None = None,
        wait_ms: int = 0,
    ) -> GroupAnswer:
        """See `GroupService.request_splits`. How long the call waits is up to `call_waits`; it asks again after each
        change of the group, and each `retry_ms` for what no record of the group shows (tables, alignment)."""
        ask = partial(self._request_splits, member, max_splits, sequence, without, received)
        wait, is_held = call_wait(), wait_ms > 0
        if not is_held:
            return ask(is_held=False)
        with self.coordinator.signals.of(member.group) as changed:
            while True:
                changed.clear()  # before the decision: a later change ends the wait
                answer = ask(is_held=is_held)
                if not is_held or not isinstance(answer, NothingYet):
                    return answer
                is_held = wait(self.coordinator.settings.retry_ms / 1000, changed)

    def _request_splits(
        self,
        member: Member,
        max_splits: int,
        sequence: int,
        without: tuple[str, ...],
        received: int | None,
        *,
        is_held: bool,
    ) -> GroupAnswer:
        key, tables = GroupKey(member.table, member.group), tuple[str, ...]()
        if is_pattern(member.table) and self._is_over_tables(member):
            tables = self.over_tables.present(key)
        ceilings = self.aligned.requested(key, tables)
        event = ev.RequestSplits(member, max_splits, sequence, tables, frozenset(without), ceilings, received, is_held)
        answer = self._count_fenced(member, lambda: self.coordinator.handle(event))
        if isinstance(answer, NothingYet | EndOfGroup):
            self.aligned.answered(key, ceilings, ())
            return answer
        self.aligned.answered(key, ceilings, {granted.table or member.table for granted in answer.splits})
        assigned: list[AssignedSplit] = []
        for granted in answer.splits:
            try:
                split = self.coordinator.plan_store.splits(granted.plan_id, [granted.index])[0]
            except KeyError:
                if tables:
                    continue  # the group of that table was moved meanwhile: it gives its splits again
                raise Fenced(f"reader {member.reader_id!r}: its group was reset meanwhile; join again") from None
            ref = SplitRef(granted.plan_id, granted.index)
            table, epoch, watermark_us = granted.table, granted.epoch, granted.watermark_us
            assigned.append(AssignedSplit(ref, split, granted.start, granted.position, table, epoch, watermark_us))
            if log.isEnabledFor(logging.DEBUG):
                _log_split("split assigned", member, ref, split=split.split_id, start=granted.start)
        return Assignments(tuple(assigned), answer.watermark_us)

    def _is_over_tables(self, member: Member) -> bool:
        key = GroupKey(member.table, member.group)
        return self.coordinator.read(lambda state: key in state.groups and state.groups[key].scope.over_tables)

    def commit_splits(self, member: Member, done: tuple[SplitProgress, ...]) -> None:
        """See `GroupService.commit_splits`."""
        committed = self._count_fenced(member, lambda: self.coordinator.handle(ev.CommitSplits(member, done)))
        self.aligned.committed(GroupKey(member.table, member.group))
        new = frozenset(committed.finished)
        for done_split in done:
            is_new = done_split.finished and (done_split.ref.plan_id, done_split.ref.index) in new
            if log.isEnabledFor(logging.DEBUG) and (is_new or not done_split.finished):
                _log_progress(member, done_split)
            if is_new and done_split.report is not None:
                reported = SplitReported(member.table, member.group, member.reader_id, done_split.report)
                self.coordinator.observer.observe(reported)

    def leave_group(self, member: Member) -> None:
        """See `GroupService.leave_group`."""
        self.coordinator.handle(ev.Leave(member))
        log_event("reader left", table=member.table, group=member.group, reader=member.reader_id)

    def list_groups(self, table: str = "") -> tuple[GroupSummary, ...]:
        """See `GroupService.list_groups`."""
        return tuple(status.summary for status in self._status(table).groups)

    def describe_group(self, table: str, group: str) -> GroupDescription:
        """See `GroupService.describe_group`."""
        key = GroupKey(table, group)
        if is_pattern(table):
            self.over_tables.require_some(key, "read")
        now_ms, waiting = self.clock_ms(), key in self.split_discovery.failures.waiting()

        def read(state: State) -> tuple[GroupDescription, ReaderPlace]:
            state_of_group = group_of(state, key)
            described = description_of(state_of_group, self.coordinator.settings, now_ms, waiting=waiting)
            if described.scope.over_tables:
                described = with_held_splits(described, list(state.names.of(state_of_group)))
                described = with_watermark(described, self.over_tables.readable(state, state_of_group))
            aligned = self.aligned.shown(state, [state_of_group]).get(key)
            described = replace(described, alignment=aligned)
            return described, place_of(state_of_group)

        description, place = self.coordinator.read(read)
        if description.scope.over_tables:
            may = may_use()
            statuses = [each for each in self._status(table, group).groups if each.summary.over == table]
            return merged_description(
                description, [each for each in statuses if may("read", each.summary.table, group)]
            )
        troubled = self._with_trouble(description, key)
        if troubled is not description:
            return troubled  # storage that fails or does not answer is not read here
        try:
            (lag,) = self.split_discovery.follows.lags(self.tables.path(table), [place])
        except Exception as error:  # noqa: BLE001 - the group is described all the same
            code, text = code_and_text(error)
            log_event(
                "lag cannot be measured", level=logging.WARNING, table=table, group=group, code=code, reason=text[:500]
            )
            if description.error:
                return description
            return replace(description, error=f"the lag cannot be measured: {text}", error_code=code)
        return replace(description, lag=lag)

    def _with_trouble(self, description: GroupDescription, key: GroupKey) -> GroupDescription:
        """The description; a group that is not stopped has the error of its failed discoveries."""
        trouble = None if description.error else self.split_discovery.trouble_of(key)
        return description if trouble is None else replace(description, error=trouble.text, error_code=trouble.code)

    def reset_group(self, table: str, group: str, start: GroupStart, *, dry_run: bool) -> ResetOutcome:
        """See `GroupService.reset_group`."""
        key = GroupKey(table, group)
        if self.coordinator.read(lambda state: group_of(state, key).scope.over_tables):
            reset_table = partial(self.reset_group, group=group, start=start, dry_run=dry_run)
            return self.over_tables.reset(key, start, reset_table, dry_run=dry_run)
        scope = self.coordinator.read(lambda state: group_of(state, key).scope)
        progress = self._start(table, scope, start)

        def outcome(state: State) -> ResetOutcome:
            return reset_outcome(group_of(state, key), progress.position, dry_run=dry_run)

        reset = self.coordinator.read(outcome)
        if not dry_run:
            self.coordinator.handle(ev.Reset(key, progress))
            log_event("group reset", table=table, group=group, before=reset.before, after=reset.after)
            self.wake()
        return reset

    def delete_group(self, table: str, group: str) -> None:
        """See `GroupService.delete_group`."""
        key = GroupKey(table, group)
        if self.coordinator.read(lambda state: group_of(state, key).scope.over_tables):
            self.over_tables.require_all(key, "admin")
        self.over_tables.require_not_of_whole(key)
        self.coordinator.handle(ev.Delete(key))
        log_event("group deleted", table=table, group=group)

    def describe_server(self, table: str = "") -> ServerStatus:
        """See `GroupService.describe_server`."""
        status = self._status(table)
        return status if table else replace(status, catalogs=self.catalogs_of())

    def _status(self, table: str, group: str = "") -> ServerStatus:
        """The status of the server, of one table, or of a group over tables (by its pattern) and its tables."""
        waiting, settings = self.split_discovery.failures.waiting(), self.coordinator.settings

        def describe(state: State) -> list[tuple[GroupDescription, GroupKey]]:
            now_ms = self.clock_ms()
            shown = []
            for key in sorted(state.groups):
                whole = state.names.whole_of(state.groups[key])
                over = "" if whole is None else whole.key.table
                if table in ("", key.table, over) and group in ("", key.group):
                    shown.append((state.groups[key], over))
            aligned = self.aligned.shown(state, (each for each, _ in shown))
            described = []
            for each, over in shown:
                description = description_of(each, settings, now_ms, waiting=each.key in waiting, over=over)
                if each.scope.over_tables:
                    description = with_watermark(description, self.over_tables.readable(state, each))
                described.append((replace(description, alignment=aligned.get(each.key)), each.key))
            return described

        described = [
            (self._with_trouble(description, key), key) for description, key in self.coordinator.read(describe)
        ]
        tables = {name: self.checks.trouble_of(name) for name in self.tables.names() if table in ("", name)}
        status = status_of(described, self.activity, tables)
        over = frozenset(key for description, key in described if description.scope.over_tables)
        groups = merged_statuses(status.groups, over, may_use())
        return replace(status, groups=groups, streams=self.streams_of(table))

    def _count_fenced(self, member: Member, call: Callable[[], _T]) -> _T:
        """Returns the result of the call; counts and logs a Fenced."""
        try:
            return call()
        except Fenced:
            key = GroupKey(member.table, member.group)

            def counted(state: State) -> tuple[SplitKind, str]:
                group = state.groups.get(key)
                return (SplitKind.MOR, "") if group is None else (kind_of(group), over_of(state, group))

            kind, over = self.coordinator.read(counted)
            observer = self.coordinator.observer
            observer.observe(SplitsCounted(SplitEvent.FENCED, member.table, member.group, kind, over=over))
            observer.observe(ReaderSplits(SplitEvent.FENCED, member.table, member.group, member.reader_id, ()))
            log_event("reader fenced", level=logging.WARNING, table=member.table, group=member.group,
                 reader=member.reader_id, epoch=member.epoch)  # fmt: skip
            raise

    def _start(self, table: str, scope: GroupScope, start: GroupStart) -> Progress:
        """The progress with which a group begins. If the table does not exist yet, the group reads all of it."""
        path, follows = self.tables.path(table), self.split_discovery.follows
        try:
            if scope.rule is not None:
                follows.check_rule(path, table, scope)
            if isinstance(start, StartSnapshot):
                return follows.start_snapshot(path, table, scope)
            return follows.start(path, start.position if isinstance(start, StartAt) else None)
        except TableNotFound:
            if isinstance(start, StartAt) and start.position != EARLIEST:
                raise
            return Progress(EARLIEST)


def _checked_scope(scope: GroupScope) -> GroupScope:
    """The scope without fields that do not matter, so that equal scopes compare as equal."""
    query = scope.request.query
    match query:
        case Incremental():
            query = Incremental()
        case Changes(change_format):
            if scope.on_lost_range is OnLostRange.SNAPSHOT:
                raise ConfigurationError(
                    "onLostRange=snapshot is for rows: a snapshot holds no changes; give fail or earliest with cdc"
                )
            query = Changes(change_format)
        case other:
            raise ConfigurationError(
                f"a consumer group of {type(other).__name__}: expected query=incremental or query=cdc"
            )
    request = replace(scope.request, query=query, slots=0)
    return replace(
        scope, request=decode_request(encode_request(request))
    )  # a scope that cannot be decoded is never stored


def _log_progress(member: Member, done_split: SplitProgress) -> None:
    if not done_split.finished:
        _log_split("split committed", member, done_split.ref, next=done_split.ordinal)
        return
    report = done_split.report or SplitReport(rows=0, size_bytes=0)
    spent_ms = sum(phase_ms for _, phase_ms in report.phase_ms)
    _log_split(
        "split finished", member, done_split.ref, rows=report.rows, bytes=report.size_bytes, ms=round(spent_ms, 3)
    )


def _log_split(what: str, member: Member, ref: SplitRef, **more: Any) -> None:
    """Logs an event of a held split, at DEBUG: a group hands out splits without end, and two lines a split cost more
    than its assignment. Rounds are logged at INFO, and metrics count splits."""
    ids: dict[str, Any] = {"table": member.table, "group": member.group, "reader": member.reader_id}
    log_event(what, level=logging.DEBUG, **ids, plan=ref.plan_id, index=ref.index, **more)
