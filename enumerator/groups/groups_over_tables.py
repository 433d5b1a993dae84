"""Groups over tables of a service: which tables they have now, and what operators see of them and do with them.

The tables are the served ones whose name matches the pattern, and on which the calling member has the right `consume`.
They join the group with the first request of such a member. A table that is no longer served keeps its position.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.members import group_of
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.state import Group, State
from penstock.enumerator.groups.merged_groups import merged_lag
from penstock.enumerator.log import log_event
from penstock.enumerator.tables.registry import TableRegistry
from penstock.enumerator.visibility import EVERYTHING, MayUse, may_use
from penstock.proto.errors import ConfigurationError, PenstockError, PermissionDenied
from penstock.proto.model.groups import (
    MAX_TABLES_SHOWN,
    GroupDescription,
    GroupScope,
    GroupSpec,
    GroupStart,
    GroupStatus,
    ResetOutcome,
    StartAt,
    StartLatest,
    StartSnapshot,
)
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import is_pattern

_MOST_CACHED: Final = 1_024
_Right = str


@dataclass(frozen=True, slots=True)
class _Added:
    """Tables that were added to a group."""

    number: int
    """The generation of the group."""
    removed: int
    """How many groups had been removed until then: after another one there may be room for those refused."""
    refused: Mapping[str, str]
    """The tables for which there was no room, with the limit."""


@dataclass(slots=True)
class GroupsOverTables:
    """The groups over tables of a service. Any thread."""

    coordinator: Coordinator
    """Holds the state of the groups."""
    tables: TableRegistry
    """The served tables."""
    _matching: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    _added: dict[tuple[GroupKey, tuple[str, ...]], _Added] = field(default_factory=dict)
    """By group and tables: members with different rights have different tables."""

    def create(self, key: GroupKey, scope: GroupScope, spec: GroupSpec) -> None:
        """Creates the group with the tables that are there now. ConfigurationError: no pattern, or a hybrid read."""
        if not is_pattern(key.table):
            raise ConfigurationError(f"tables {key.table!r}: expected a pattern of names such as sales.*")
        if scope.request.hybrid is not None:
            raise ConfigurationError(
                f"{key}: hybrid reads of many tables are not supported, because each table has a topic of its own: "
                "consume each table by its name"
            )
        match spec.start:
            case StartAt(position):
                progress = Progress(position)
            case StartLatest() | StartSnapshot():
                progress = Progress(EARLIEST)
        created = ev.CreateGroup(
            key=key,
            scope=scope,
            limits=spec.limits,
            progress=progress,
            principal=spec.principal,
            at_newest=isinstance(spec.start, StartLatest),
            at_snapshot=isinstance(spec.start, StartSnapshot),
            tables=self.visible(key, "consume"),
        )
        self.coordinator.handle(created)

    def visible(self, key: GroupKey, right: _Right) -> tuple[str, ...]:
        """The served tables of the group on which the caller has the right, sorted."""
        version = self.tables.version
        cached = self._matching.get(key.table)
        if cached is None or cached[0] != version:
            if len(self._matching) >= _MOST_CACHED:
                self._matching.clear()
            cached = self._matching[key.table] = (version, self.tables.matching(key.table))
        may = may_use()
        names = cached[1]
        return names if may is EVERYTHING else tuple(name for name in names if may(right, name, key.group))

    def readable(self, state: State, whole: Group) -> Iterator[Group]:
        """The groups of the served tables that the caller may read."""
        present = state.names.by_table(whole)
        for table in self.visible(whole.key, "read"):
            if table in present and present[table].fits:
                yield present[table]

    def present(self, key: GroupKey) -> tuple[str, ...]:
        """The tables of the group from which the caller may receive splits. New ones are added to the group."""
        names = self.visible(key, "consume")
        at = self.coordinator.read(lambda state: (group_of(state, key).number, state.names.removed))
        known = self._added.get((key, names))
        if known is not None and known.number == at[0] and (not known.refused or known.removed == at[1]):
            return names
        refused = self.coordinator.handle(ev.AddTables(key, names))
        if known is None or known.refused != refused:
            _log_refused(key, refused)
        if len(self._added) >= _MOST_CACHED:
            self._added.clear()
        self._added[key, names] = _Added(*at, refused)
        return names

    def require_some(self, key: GroupKey, right: _Right) -> None:
        """PermissionDenied unless the caller has the right on a table that the group has or may get, or, if there is
        none yet, a rule for the pattern itself."""
        may = may_use()
        if may is EVERYTHING:
            return
        names = self._all_names(key) or {key.table}
        if not any(may(right, name, key.group) for name in names):
            raise PermissionDenied(
                f"{key}: no right `{right}` on any of its tables: an [[acl]] rule of the server must grant it"
            )

    def require_all(self, key: GroupKey, right: _Right) -> None:
        """PermissionDenied unless the caller has the right on every table that the group has or may get; if there is
        none yet, unless a rule for the pattern itself grants it."""
        may = may_use()
        names = self._all_names(key) or {key.table}
        denied = sorted(name for name in names if not may(right, name, key.group))
        if denied:
            raise PermissionDenied(
                f"{key}: no right `{right}` on {len(denied)} of its tables ({', '.join(denied[:5])}): an [[acl]] rule "
                "of the server must grant it on every table that matches"
            )

    def _all_names(self, key: GroupKey) -> set[str]:
        """The tables that the group has or may get, whoever calls."""

        def names(state: State) -> tuple[str, ...]:
            return self._tables(state, key) if key in state.groups else ()

        return {*self.tables.matching(key.table), *self.coordinator.read(names)}

    def require_not_of_whole(self, key: GroupKey) -> None:
        """ConfigurationError if the group is that of a served table of a group over tables: it would be created again
        from its start."""

        def whole_of(state: State) -> str:
            whole = state.names.whole_of(group_of(state, key))
            return "" if whole is None else str(whole.key)

        whole = self.coordinator.read(whole_of)
        if whole and key.table in self.tables.names():
            raise ConfigurationError(
                f"{key} belongs to {whole}, which would create it again: delete that one, or reset this one"
            )

    def reset(
        self, key: GroupKey, start: GroupStart, reset: Callable[[str], ResetOutcome], *, dry_run: bool
    ) -> ResetOutcome:
        """Moves every table (`reset`), and fences the members. Tables that join later start there too: with a snapshot,
        or after that position. A table that cannot be moved does not stop the rest; its error is raised at the end."""
        self.require_all(key, "admin")
        tables = [name for name in self.coordinator.read(lambda state: self._tables(state, key)) if self._served(name)]
        outcomes: list[ResetOutcome] = []
        errors: list[tuple[str, PenstockError]] = []
        for table in tables:
            try:
                outcomes.append(reset(table))
            except PenstockError as error:
                errors.append((table, error))
        if not dry_run:
            position = start.position if isinstance(start, StartAt) else EARLIEST
            self.coordinator.handle(ev.Reset(key, Progress(position), isinstance(start, StartSnapshot)))
        if errors:
            first, reason = errors[0]
            raise type(reason)(
                f"{key}: {len(errors)} of {len(tables)} tables were not moved, the others were; the first is "
                f"{first}: {reason}"
            )
        return ResetOutcome(
            before=min((each.before for each in outcomes), default=EARLIEST),
            after=min((each.after for each in outcomes), default=EARLIEST),
            dropped_splits=sum(each.dropped_splits for each in outcomes),
            dry_run=dry_run,
        )

    def _served(self, table: str) -> bool:
        return table in self.tables.names()

    @staticmethod
    def _tables(state: State, key: GroupKey) -> tuple[str, ...]:
        return tuple(sorted(group.key.table for group in state.names.of(group_of(state, key))))


def _log_refused(key: GroupKey, refused: Mapping[str, str]) -> None:
    """One line for each limit, however many tables there are."""
    for limit in sorted(set(refused.values())):
        tables = [table for table, of_table in refused.items() if of_table == limit]
        log_event(
            "tables take no further group",
            level=logging.WARNING,
            table=key.table,
            group=key.group,
            limit=limit,
            count=len(tables),
            tables=",".join(tables[:5]),
        )


def merged_statuses(
    statuses: Sequence[GroupStatus], over_tables: Collection[GroupKey], may: MayUse
) -> tuple[GroupStatus, ...]:
    """The statuses, those of the groups over tables merged from their tables that the caller may read."""
    tables: dict[GroupKey, list[GroupStatus]] = {key: [] for key in over_tables}
    for each in statuses:
        of_whole = tables.get(GroupKey(each.summary.over, each.summary.group))
        if of_whole is not None and may("read", each.summary.table, each.summary.group):
            of_whole.append(each)
    merged = []
    for each in statuses:
        of_whole = tables.get(GroupKey(each.summary.table, each.summary.group))
        merged.append(each if of_whole is None else merged_status(each, of_whole))
    return tuple(merged)


def merged_status(whole: GroupStatus, tables: Sequence[GroupStatus]) -> GroupStatus:
    """The status of a group over tables: sums and extremes of its `tables`; the readers are its own."""
    lags = [each.lag for each in tables if each.lag is not None]
    stopped = next((each.error_code for each in tables if each.error_code), "")
    summary = replace(
        whole.summary,
        state=_merged_state([each.summary.state for each in tables]) or whole.summary.state,
        committed=min((each.summary.committed for each in tables), default=whole.summary.committed),
        planned=min((each.summary.planned for each in tables), default=whole.summary.planned),
        tables=len(tables),
    )
    return replace(
        whole,
        summary=summary,
        pending_splits=sum(each.pending_splits for each in tables),
        held_splits=sum(each.held_splits for each in tables),
        lag=merged_lag(lags),
        rows=sum(each.rows for each in tables),
        size_bytes=sum(each.size_bytes for each in tables),
        finished_splits=sum(each.finished_splits for each in tables),
        expired_splits=sum(each.expired_splits for each in tables),
        fenced=sum(each.fenced for each in tables),
        rows_per_second=sum(each.rows_per_second for each in tables),
        bytes_per_second=sum(each.bytes_per_second for each in tables),
        error_code=stopped,
        lag_age_ms=max((each.lag_age_ms for each in tables if each.lag_age_ms is not None), default=None),
    )


def _merged_state(states: Sequence[str]) -> str:
    """A table that stopped does not stop the group: then it runs, and shows the error."""
    return next((state for state in ("running", "paused", "waiting", "stopped", "ended") if state in states), "")


def merged_description(whole: GroupDescription, tables: Sequence[GroupStatus]) -> GroupDescription:
    """The description of a group over tables; its `tables` are ordered by error, then by lag, and limited."""
    own = GroupStatus(summary=whole.summary, pending_splits=0, held_splits=0)
    merged = merged_status(own, tables)
    ordered = sorted(tables, key=_worst_first)
    return replace(
        whole,
        summary=merged.summary,
        pending_splits=merged.pending_splits,
        held_splits=merged.held_splits,
        lag=merged.lag,
        error_code=merged.error_code,
        error=f"{sum(bool(each.error_code) for each in tables)} of {len(tables)} tables have an error"
        if merged.error_code
        else "",
        tables=tuple(ordered[:MAX_TABLES_SHOWN]),
    )


def _worst_first(status: GroupStatus) -> tuple[bool, float, str]:
    return (not status.error_code, -(0.0 if status.lag is None else status.lag.seconds), status.summary.table)
