"""Bounds of the number of groups, and expiration of groups without readers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.decide import decide
from penstock.enumerator.core.records import GroupDeleted, GroupKey, Record
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.proto.errors import TooManyGroups
from penstock.proto.model.groups import Joined, Member
from penstock.proto.model.queries import NO_LIMITS
from tests.unit.enumerator.core.groups import SCOPE, at


@dataclass
class Groups:
    """Groups of several tables, over the core alone."""

    settings: CoordinatorSettings
    state: State = field(default_factory=State)
    now_ms: int = 1_000
    ticked_ms: int = 1_000

    def handle(self, event: ev.AnyEvent) -> tuple[Record, ...]:
        decision = decide(self.state, event, self.now_ms, self.settings)
        for record in decision.records:
            apply(self.state, record)
        return decision.records

    def create(self, table: str, group: str, principal: str = "") -> None:
        self.handle(
            ev.CreateGroup(
                key=GroupKey(table, group), scope=SCOPE, limits=NO_LIMITS, progress=Progress(at(0)), principal=principal
            )
        )

    def join(self, table: str, group: str, reader_id: str = "r") -> Member:
        event = ev.Join(key=GroupKey(table, group), reader_id=reader_id, scope=SCOPE, request_id="x")
        decision = decide(self.state, event, self.now_ms, self.settings)
        for record in decision.records:
            apply(self.state, record)
        assert isinstance(decision.answer, Joined)
        return decision.answer.member

    def pass_by(self, ms: int, by: int = 1_000) -> list[str]:
        """Moves the clock with a tick every `by` milliseconds; returns the groups that expired."""
        removed = []
        for _ in range(ms // by):
            self.now_ms += by
            created = self.handle(ev.Tick(self.ticked_ms))
            self.ticked_ms = self.now_ms
            removed += [record.key.group for record in created if isinstance(record, GroupDeleted) and record.expired]
        return removed


def test_groups_of_a_table_are_bounded() -> None:
    groups = Groups(CoordinatorSettings(max_groups_of_table=2))
    for table, group in (("t", "a"), ("t", "b"), ("t", "a"), ("u", "c")):
        groups.create(table, group)
    with pytest.raises(TooManyGroups, match=r"'c' of table 't': the table has 2 .* limits.groupsPerTable allows 2"):
        groups.create("t", "c")
    groups.handle(ev.Delete(GroupKey("t", "a")))
    groups.create("t", "c")
    assert len(groups.state.groups) == 3


def test_groups_created_by_a_principal_are_bounded_and_joins_are_not() -> None:
    groups = Groups(CoordinatorSettings(max_groups_of_principal=2))
    for number in range(2):
        groups.create(f"t{number}", "a", "token:one")
    with pytest.raises(TooManyGroups, match=r"created 2 .* limits.groupsPerPrincipal allows 2"):
        groups.create("u", "a", "token:one")
    groups.create("u", "a", "token:two")
    groups.create("u", "a", "token:one")
    for number in range(3):
        groups.create("u", f"nobody-{number}")
    again = State()
    for record in compacted_records(groups.state):
        apply(again, record)
    assert {key: group.principal for key, group in again.groups.items()} == {
        key: group.principal for key, group in groups.state.groups.items()
    }


def test_groups_never_expire_by_default() -> None:
    groups = Groups(CoordinatorSettings())
    groups.create("t", "a")
    assert groups.pass_by(10 * 86_400_000, by=3_600_000) == []


def test_group_expires_only_without_readers() -> None:
    groups = Groups(CoordinatorSettings(group_expiry_ms=60_000, lease_ms=10_000))
    for group in ("read", "left", "never"):
        groups.create("t", group)
    reader, leaves = groups.join("t", "read"), groups.join("t", "left")
    removed: list[str] = []
    for _ in range(20):
        removed += groups.pass_by(4_000)
        groups.handle(ev.Heartbeat(reader))
        if groups.now_ms < 30_000:
            groups.handle(ev.Heartbeat(leaves))
    assert removed == ["never"]
    assert groups.state.groups[GroupKey("t", "left")].readers == {}
    for _ in range(20):
        removed += groups.pass_by(4_000)
        groups.handle(ev.Heartbeat(reader))
    assert removed == ["never", "left"]
    assert list(groups.state.groups) == [GroupKey("t", "read")]


def test_group_expiration_restarts_after_a_join_or_a_standstill() -> None:
    groups = Groups(CoordinatorSettings(group_expiry_ms=60_000, lease_ms=10_000))
    groups.create("t", "a")
    assert groups.pass_by(50_000) == []
    groups.handle(ev.Leave(groups.join("t", "a")))
    assert groups.pass_by(50_000) == []
    assert groups.pass_by(100_000, by=100_000) == [], "nobody could join while the process stood still"
    assert groups.pass_by(59_000) == []
    assert groups.pass_by(1_000) == ["a"]
