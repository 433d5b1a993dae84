"""A consumer group at the moment at which discovery reads it, and the interface to its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.enumerator.continuous.change_probe import TableFingerprint
from penstock.enumerator.continuous.types import Advance, Following, Progress, ReaderPlace
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.state import Group
from penstock.proto.model.groups import GroupLag, GroupScope, OnLostRange
from penstock.proto.model.hybrid import Hybrid
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.splits import Split
from penstock.proto.model.streams import request_with_rule


@dataclass(frozen=True, slots=True)
class FollowedGroup:
    """A group whose next round is to be planned, or whose open rounds are to be checked."""

    key: GroupKey
    """Table and name of the group."""
    number: int
    """Number of the group: a group that was deleted and created again has another one."""
    following: Following
    """The request for its next round."""
    on_lost_range: OnLostRange
    """How the group continues after a lost range."""
    at_newest: bool = False
    """Whether the newest position of the table, after which the group starts, is to be read first."""
    snapshot_scope: GroupScope | None = None
    """The scope of a group that starts with a snapshot of the table, which is to be planned first; None: not."""
    has_idle_timeout: bool = False
    """Whether the coordinator is notified of each discovery that finds nothing new, because the watermark may advance
    with time."""

    @property
    def start(self) -> Position:
        """The position after which its next round starts."""
        return self.following.progress.position


def followed(key: GroupKey, group: Group) -> FollowedGroup:
    """The group in its present state."""
    following = Following(
        request=request_with_rule(group.scope.request, group.scope.rule),
        progress=group.progress,
        limits=group.limits,
        upto=group.scope.upto,
        drained=not group.rounds,
        rule=group.scope.rule,
        max_drift_us=None if group.scope.alignment is None else group.scope.alignment.max_drift_us,
    )
    return FollowedGroup(
        key=key,
        number=group.number,
        following=following,
        on_lost_range=group.scope.on_lost_range,
        at_newest=group.at_newest,
        snapshot_scope=group.scope if group.at_snapshot else None,
        has_idle_timeout=group.scope.idle_timeout_us is not None,
    )


class GroupTables(Protocol):
    """Reads of tables for consumer groups, by path: `tables.followed_tables.FollowedTables`. Any thread."""

    def allow_topic(self, name: str, hybrid: Hybrid) -> None:
        """ConfigurationError if the topic of the table of that name cannot be reached from now on."""
        ...

    def probe(self, path: str) -> TableFingerprint:
        """A cheap fingerprint of the table, which changes with the table; take it before the table is read."""
        ...

    def advance(self, path: str, name: str, following: Following) -> Advance:
        """See `continuous.advance`."""
        ...

    def earliest(self, path: str, name: str, request: PlanRequest) -> Position:
        """The earliest position from which the range up to now can be answered."""
        ...

    def start(self, path: str, position: Position | None) -> Progress:
        """See `continuous.advance.start_progress`."""
        ...

    def start_snapshot(self, path: str, name: str, scope: GroupScope) -> Progress:
        """The progress before a snapshot of the table: that of the newest position, or of the scope's `upto` if that is
        earlier."""
        ...

    def check_rule(self, path: str, name: str, scope: GroupScope) -> None:
        """ConfigurationError if the scope's rule of watermarks does not fit the table."""
        ...

    def newest_clean(self, path: str) -> str:
        """The requested time of the newest completed clean; '' if the table has none."""
        ...

    def missing_file(self, path: str, splits: Sequence[Split]) -> str:
        """The first file of the splits, by its path in the table, that does not exist; '' if all exist."""
        ...

    def lags(self, path: str, readers: Sequence[ReaderPlace]) -> list[GroupLag]:
        """See `continuous.retention.lags`."""
        ...
