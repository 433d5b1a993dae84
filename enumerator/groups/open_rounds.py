"""Planned rounds of groups whose files a cleaner took before they were read.

Shell: files of splits that are not finished. Belongs here: when they are looked at, and when a round counts as lost.
`split_discovery` decides what a lost round means for its group.

Files are looked at when the table has a clean that the look before did not show, and at every look while one is
missing. A round is lost if it lacks a file for as long as a lease lasts: a reader that has the file open can finish it
meanwhile, and a stale listing shows the file again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from penstock.enumerator.continuous.change_probe import TableFingerprint, is_unchanged
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.rounds import DONE
from penstock.enumerator.core.state import Group, State
from penstock.proto.model.groups import OnLostRange
from penstock.proto.model.positions import Position
from penstock.proto.model.splits import Split


class ChecksFiles(Protocol):
    """What is asked of tables, by path. Any thread."""

    def newest_clean(self, path: str) -> str:
        """The requested time of the newest completed clean; '' if the table has none."""
        ...

    def missing_file(self, path: str, splits: Sequence[Split]) -> str:
        """The first file of the splits, by its path in the table, that is not there; '' if all are."""
        ...


@dataclass(frozen=True, slots=True)
class LostRound:
    """An open round of a group, of which `file` is gone."""

    plan_id: str
    committed: Position
    file: str


@dataclass(slots=True)
class _Seen:
    """What the look before showed of a group's table. `missing`: the round that lacked a file, and since when."""

    look: TableFingerprint
    clean: str
    missing: tuple[str, int] | None = None


@dataclass(slots=True)
class OpenRounds:
    """Any thread; a table by one at a time."""

    coordinator: Coordinator
    files: ChecksFiles
    clock_ms: Callable[[], int]
    _seen: dict[GroupKey, _Seen] = field(default_factory=dict)
    _checked_ms: dict[GroupKey, int] = field(default_factory=dict)

    def forget(self, groups: set[GroupKey]) -> None:
        """Keeps what was seen for these groups alone."""
        for noted in (self._seen, self._checked_ms):
            for gone in set(noted) - groups:
                noted.pop(gone, None)

    def is_due(self, key: GroupKey, interval_ms: int) -> bool:
        """Whether the interval has passed since `lost` found nothing for the group."""
        checked_ms = self._checked_ms.get(key)
        return checked_ms is None or self.clock_ms() - checked_ms >= interval_ms

    def lost(self, key: GroupKey, path: str, look: TableFingerprint) -> LostRound | None:
        """The oldest round of the group that is lost. `look` is the table's, taken before. Errors of storage: then the
        same check is made again by the next call."""
        found = self._checked(key, path, look)
        if found is None:
            self._checked_ms[key] = self.clock_ms()
        return found

    def _checked(self, key: GroupKey, path: str, look: TableFingerprint) -> LostRound | None:
        seen = self._seen.get(key)
        if seen is not None and seen.missing is None and is_unchanged(seen.look, look):
            return None
        clean = self.files.newest_clean(path)
        if seen is not None and seen.missing is None and seen.clean == clean:
            seen.look = look
            return None
        before = None if seen is None else seen.missing
        for plan_id, undone, committed in self.coordinator.read(lambda state: _undone(state, key)):
            try:
                file = self.files.missing_file(path, self.coordinator.plan_store.splits(plan_id, undone))
            except KeyError:
                continue  # it was finished or dropped meanwhile
            if file:
                since_ms = before[1] if before is not None and before[0] == plan_id else self.clock_ms()
                self._seen[key] = _Seen(look, clean, (plan_id, since_ms))
                is_lost = self.clock_ms() - since_ms >= self.coordinator.settings.lease_ms
                return LostRound(plan_id, committed, file) if is_lost else None
        self._seen[key] = _Seen(look, clean)
        return None


def may_lose_rounds(group: Group) -> bool:
    """Whether a lost round of the group is to be found: it has open ones, and its scope says how to go on."""
    scope = group.scope
    return (
        bool(group.rounds)
        and group.stopped is None
        and scope.on_lost_range is not OnLostRange.FAIL
        and scope.request.hybrid is None
    )


def _undone(state: State, key: GroupKey) -> list[tuple[str, list[int], Position]]:
    group = state.groups.get(key)
    return [] if group is None else list(_undone_of(group))


def _undone_of(group: Group) -> Iterator[tuple[str, list[int], Position]]:
    for one in group.rounds.values():
        yield one.plan_id, np.flatnonzero(one.status != DONE).tolist(), group.committed
