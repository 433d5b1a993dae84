"""How many groups there may be, and when one without readers is deleted."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.decide import decide
from penstock.enumerator.core.log_compaction import compacted_records
from penstock.enumerator.core.records import GroupDeleted, GroupKey, Record
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.state import State, apply
from penstock.proto.errors import TooManyGroups
from penstock.proto.model.groups import Joined, Member
from penstock.proto.model.queries import NO_LIMITS
from tests.unit.enumerator.core.groups import SCOPE, at


@dataclass
class Groups:
    """Groups of some tables, over the core alone."""

    settings: CoordinatorSettings
    state: State = field(default_factory=State)
    now_ms: int = 1_000
    ticked_ms: int = 1_000

    def tell(self, event: ev.AnyEvent) -> tuple[Record, ...]:
        decision = decide(self.state, event, self.now_ms, self.settings)
        for record in decision.records:
            apply(self.state, record)
        return decision.records

    def create(self, table: str, group: str, principal: str = "") -> None:
        self.tell(
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
        """The groups that were deleted meanwhile; a tick every `by` milliseconds."""
        gone = []
        for _ in range(ms // by):
            self.now_ms += by
            made = self.tell(ev.Tick(self.ticked_ms))
            self.ticked_ms = self.now_ms
            gone += [record.key.group for record in made if isinstance(record, GroupDeleted) and record.expired]
        return gone


def test_a_table_has_so_many_groups_and_no_more() -> None:
    groups = Groups(CoordinatorSettings(max_groups_of_table=2))
    for table, group in (("t", "a"), ("t", "b"), ("t", "a"), ("u", "c")):
        groups.create(table, group)
    with pytest.raises(TooManyGroups, match=r"'c' of table 't': the table has 2 .* limits.groupsPerTable allows 2"):
        groups.create("t", "c")
    groups.tell(ev.Delete(GroupKey("t", "a")))
    groups.create("t", "c")
    assert len(groups.state.groups) == 3


def test_a_principal_creates_so_many_groups_and_joins_any() -> None:
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


def test_by_default_no_group_expires() -> None:
    groups = Groups(CoordinatorSettings())
    groups.create("t", "a")
    assert groups.pass_by(10 * 86_400_000, by=3_600_000) == []


def test_a_group_without_readers_expires_after_its_time_and_one_with_a_reader_never() -> None:
    groups = Groups(CoordinatorSettings(group_expiry_ms=60_000, lease_ms=10_000))
    for group in ("read", "left", "never"):
        groups.create("t", group)
    reader, leaves = groups.join("t", "read"), groups.join("t", "left")
    gone: list[str] = []
    for _ in range(20):
        gone += groups.pass_by(4_000)
        groups.tell(ev.Heartbeat(reader))
        if groups.now_ms < 30_000:
            groups.tell(ev.Heartbeat(leaves))
    assert gone == ["never"]
    assert groups.state.groups[GroupKey("t", "left")].readers == {}
    for _ in range(20):
        gone += groups.pass_by(4_000)
        groups.tell(ev.Heartbeat(reader))
    assert gone == ["never", "left"]
    assert list(groups.state.groups) == [GroupKey("t", "read")]


def test_a_reader_that_comes_back_and_a_standstill_begin_the_time_anew() -> None:
    groups = Groups(CoordinatorSettings(group_expiry_ms=60_000, lease_ms=10_000))
    groups.create("t", "a")
    assert groups.pass_by(50_000) == []
    groups.tell(ev.Leave(groups.join("t", "a")))
    assert groups.pass_by(50_000) == []
    assert groups.pass_by(100_000, by=100_000) == [], "nobody could join while the process stood still"
    assert groups.pass_by(59_000) == []
    assert groups.pass_by(1_000) == ["a"]
