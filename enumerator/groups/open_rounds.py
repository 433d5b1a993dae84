"""Finds open rounds of groups whose files a cleaner removed before they were read.

`lost_ranges` moves the group of a lost round. Files of unfinished splits are checked after each new clean of the table,
and at every call while a file is missing. A round is lost if a file is missing for the duration of a lease: meanwhile a
reader that has the file open can finish it, and a stale listing can show the file again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from penstock.enumerator.continuous.change_probe import TableFingerprint, is_unchanged
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.rounds import DONE
from penstock.enumerator.core.state import Group, State
from penstock.enumerator.groups.group_tables import GroupTables
from penstock.proto.model.groups import OnLostRange
from penstock.proto.model.positions import EARLIEST, Position


@dataclass(frozen=True, slots=True)
class LostRound:
    """An open round of a group that cannot be read to its end."""

    plan_id: str
    """Plan id of the round."""
    committed: Position
    """Committed position of the group."""
    file: str
    """Path of the missing file in the table."""

    @property
    def in_snapshot(self) -> bool:
        """Whether the round is of the snapshot with which the group started."""
        return self.committed.is_earliest and self.committed != EARLIEST


@dataclass(slots=True)
class _Seen:
    """Result of the previous check of a group."""

    fingerprint: TableFingerprint
    """Fingerprint of the table."""
    clean: str
    """Requested time of the newest clean; '' if there is none."""
    missing: tuple[str, int] | None = None
    """Plan id of the round with a missing file, and since when; None if there is none."""


@dataclass(slots=True)
class OpenRounds:
    """Checks of the open rounds of groups. Any thread; one call per table at a time."""

    coordinator: Coordinator
    """Holds the state of the groups."""
    follows: GroupTables
    """Reads the tables."""
    clock_ms: Callable[[], int]
    """The clock of leases."""
    _seen: dict[GroupKey, _Seen] = field(default_factory=dict)
    _checked_ms: dict[GroupKey, int] = field(default_factory=dict)

    def forget(self, groups: set[GroupKey]) -> None:
        """Drops the results for all other groups."""
        for by_group in (self._seen, self._checked_ms):
            for removed in set(by_group) - groups:
                by_group.pop(removed, None)

    def due_ms(self, key: GroupKey, interval_ms: int) -> int:
        """When the group is due: the interval after `lost` last returned None for it; 0 if it never did."""
        checked_ms = self._checked_ms.get(key)
        return 0 if checked_ms is None else checked_ms + interval_ms

    def lost(self, key: GroupKey, path: str, fingerprint: TableFingerprint) -> LostRound | None:
        """The oldest lost round of the group; None if there is none.

        `fingerprint` is that of the table, taken before. Errors of storage; the next call repeats the check.
        """
        lost_round = self._checked(key, path, fingerprint)
        if lost_round is None:
            self._checked_ms[key] = self.clock_ms()
        return lost_round

    def _checked(self, key: GroupKey, path: str, fingerprint: TableFingerprint) -> LostRound | None:
        seen = self._seen.get(key)
        if seen is not None and seen.missing is None and is_unchanged(seen.fingerprint, fingerprint):
            return None
        clean = self.follows.newest_clean(path)
        if seen is not None and seen.missing is None and seen.clean == clean:
            seen.fingerprint = fingerprint
            return None
        before = None if seen is None else seen.missing
        for plan_id, unfinished, committed in self.coordinator.read(lambda state: _unfinished(state, key)):
            try:
                file = self.follows.missing_file(path, self.coordinator.plan_store.splits(plan_id, unfinished))
            except KeyError:
                continue  # it was finished or dropped meanwhile
            if file:
                since_ms = before[1] if before is not None and before[0] == plan_id else self.clock_ms()
                self._seen[key] = _Seen(fingerprint, clean, (plan_id, since_ms))
                is_lost = self.clock_ms() - since_ms >= self.coordinator.settings.lease_ms
                return LostRound(plan_id, committed, file) if is_lost else None
        self._seen[key] = _Seen(fingerprint, clean)
        return None


def may_lose_rounds(group: Group) -> bool:
    """Whether rounds of the group must be checked: it has some, and its scope says how to continue after a loss."""
    scope = group.scope
    return (
        bool(group.rounds)
        and group.stopped is None
        and scope.on_lost_range is not OnLostRange.FAIL
        and scope.request.hybrid is None
    )


def _unfinished(state: State, key: GroupKey) -> list[tuple[str, list[int], Position]]:
    group = state.groups.get(key)
    return [] if group is None else list(_unfinished_of(group))


def _unfinished_of(group: Group) -> Iterator[tuple[str, list[int], Position]]:
    for open_round in group.rounds.values():
        yield open_round.plan_id, np.flatnonzero(open_round.status != DONE).tolist(), group.committed
