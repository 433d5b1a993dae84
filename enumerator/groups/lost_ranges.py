"""Moves groups past ranges whose data a cleaner removed, or stops them, as the scope of each group says."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.groups.discovery_failures import DiscoveryFailures, is_repeated
from penstock.enumerator.groups.group_tables import FollowedGroup, GroupTables
from penstock.enumerator.groups.open_rounds import LostRound
from penstock.enumerator.log import log_event
from penstock.proto.errors import PenstockError, PositionExpired
from penstock.proto.model.groups import GroupScope, OnLostRange
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.streams import SnapshotProgress


@dataclass(slots=True)
class LostRanges:
    """Lost ranges of all groups. Any thread; one call per table at a time."""

    coordinator: Coordinator
    """Holds the state of the groups."""
    follows: GroupTables
    """Reads the tables."""
    path_of: Callable[[str], str]
    """The path of a table by name."""
    failures: DiscoveryFailures
    """Retries and stops discovery."""
    _moved: dict[GroupKey, tuple[str, Position, SnapshotProgress | None]] = field(default_factory=dict)
    """The missing file because of which a group last moved, and where it moved to."""

    def forget(self, groups: set[GroupKey]) -> None:
        """Drops what is known of all other groups."""
        for removed in set(self._moved) - groups:
            self._moved.pop(removed, None)

    def skip_round(self, group: FollowedGroup, lost: LostRound) -> None:
        """Moves the group past a planned round that no reader can finish. Errors of storage.

        Stops the group if the same file is missing from what it planned after the same move: no cleaner removed the
        file, as the table still names it, and the group would read the same rows again and again.
        """
        if group.on_lost_range is OnLostRange.EARLIEST:
            after = max(self._earliest(group), lost.committed)
            progress = self.follows.start(self.path_of(group.key.table), after)
        else:
            progress = self._read_again(group, in_snapshot=lost.in_snapshot)
        reason = f"file {lost.file} of the planned round {lost.plan_id} is gone"
        moved = (lost.file, progress.position, progress.snapshot)
        if self._moved.get(group.key) == moved:
            error = PositionExpired(
                f"{reason}, also after the group moved to {progress.position} and was planned again: the table still "
                "names a file that does not exist: restore the file, or reset the group to a position after it"
            )
            self.failures.stop(group, error)
            return
        self._moved[group.key] = moved
        self._move(group, progress, reason, lost.plan_id)

    def skip_range(self, group: FollowedGroup, error: PositionExpired) -> None:
        """Moves the group past the lost range after its position, or stops it."""
        on_lost = group.on_lost_range
        if on_lost is OnLostRange.FAIL or group.following.request.hybrid is not None:
            self.failures.stop(group, error)
            return
        if on_lost is OnLostRange.EARLIEST and not group.following.drained:
            self.failures.retry(group.key, error)  # the group moves after its planned rounds are read
            return
        try:
            if on_lost is OnLostRange.EARLIEST:
                progress = self.follows.start(self.path_of(group.key.table), self._earliest(group))
            else:
                progress = self._read_again(group, in_snapshot=group.following.progress.snapshot is not None)
        except PenstockError as start_error:
            if is_repeated(start_error):
                raise
            self.failures.stop(group, start_error)
            return
        if on_lost is OnLostRange.EARLIEST and progress.position <= group.start:
            self.failures.retry_or_stop(group, error)
        elif progress.position == group.start and progress.snapshot == group.following.progress.snapshot:
            self.failures.stop(group, error)
        else:
            self._move(group, progress, str(error))

    def _read_again(self, group: FollowedGroup, *, in_snapshot: bool) -> Progress:
        """The progress from which a group with onLostRange=snapshot reads all rows of the table again. `in_snapshot`:
        it lost a part of the snapshot with which it started."""
        path, following = self.path_of(group.key.table), group.following
        if not in_snapshot:
            return self.follows.start(path, EARLIEST)
        scope = GroupScope(
            request=following.request, upto=following.upto, on_lost_range=group.on_lost_range, rule=following.rule
        )
        return self.follows.start_snapshot(path, group.key.table, scope)

    def _earliest(self, group: FollowedGroup) -> Position:
        table = group.key.table
        return self.follows.earliest(self.path_of(table), table, group.following.request)

    def _move(self, group: FollowedGroup, progress: Progress, reason: str, plan_id: str = "") -> None:
        key, start = group.key, group.start
        log_event("range lost", level=logging.WARNING, table=key.table, group=key.group, after=start,
                  continues_after=progress.position, reason=reason[:500])  # fmt: skip
        moved = ev.RangeLost(key=key, number=group.number, start=start, progress=progress, plan_id=plan_id)
        self.coordinator.handle(moved)
