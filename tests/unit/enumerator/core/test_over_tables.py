"""Groups over tables in the core: turns, bounds, expiry, limits. Schedules are in `tests/simulation`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core import over_tables
from penstock.enumerator.core.decide import decide
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.results import CoordinatorSettings, SplitsGranted
from penstock.enumerator.core.split_facts import facts_of
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.core.stored.codec import decode_record, encode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.proto.errors import ConfigurationError, Fenced, TooManyGroups
from penstock.proto.model.groups import EndOfGroup, GroupScope, Member, NothingYet
from penstock.proto.model.positions import EARLIEST, CommitRange
from penstock.proto.model.queries import NO_LIMITS, Incremental, PlanRequest
from tests.unit.enumerator.core.groups import at

KEY = GroupKey("s.*", "g")
SCOPE = GroupScope(request=PlanRequest(table="s.*", query=Incremental()), over_tables=True)


class Core:
    """The state of a group over the tables s.000, s.001, …; a manual clock."""

    def __init__(self, tables: int, **limits: Any) -> None:
        self.settings = CoordinatorSettings(**limits)
        self.state, self.now_ms, self.sequence = State(), 1_000, 0
        self.tables = tuple(f"s.{number:03d}" for number in range(tables))
        self.create()
        self.member = self.join("r")

    def handle(self, event: ev.Event[Any]) -> Any:
        decision = decide(self.state, event, self.now_ms, self.settings)
        for record in decision.records:
            apply(self.state, record)
        return decision.answer

    def create(self, pattern: str = "s.*") -> None:
        scope = GroupScope(request=PlanRequest(table=pattern, query=Incremental()), over_tables=True)
        key = GroupKey(pattern, "g")
        self.handle(
            ev.CreateGroup(key=key, scope=scope, limits=NO_LIMITS, progress=Progress(EARLIEST), tables=self.tables)
        )

    def join(self, reader_id: str) -> Member:
        joined = self.handle(ev.Join(key=KEY, reader_id=reader_id, scope=SCOPE, request_id=f"q{self.sequence}"))
        return joined.member  # type: ignore[no-any-return]

    def plan(self, number: int, splits: int) -> None:
        """Plans a round of a table."""
        group = self.state.groups[GroupKey(self.tables[number], "g")]
        upto = at(group.rounds_planned + 1)
        event = ev.Discovered(
            key=group.key, number=group.number, start=group.progress.position,
            commit_range=CommitRange(group.progress.position, upto), progress=Progress(upto),
            facts=facts_of((1, "p", f"f{split}") for split in range(splits)), reshaped=frozenset(), commits=1,
        )  # fmt: skip
        self.handle(event)

    def request(self, most: int) -> list[str] | NothingYet | EndOfGroup:
        """The tables of the splits of the next request."""
        self.sequence += 1
        answer = self.handle(ev.RequestSplits(self.member, most, self.sequence, self.tables))
        return [one.table for one in answer.splits] if isinstance(answer, SplitsGranted) else answer


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(1, 6))
def test_every_table_is_served_once_before_another_one_is_served_twice(splits: list[int], most: int) -> None:
    core = Core(len(splits))
    for number, count in enumerate(splits):
        core.plan(number, count)
    left, waiting = dict(zip(core.tables, splits, strict=True)), list(core.tables)
    while any(left.values()):
        tables = core.request(most)
        assert isinstance(tables, list) and 1 <= len(tables) <= most
        served = list(dict.fromkeys(tables))
        assert served == [table for table in waiting if left[table]][: len(served)], "those that waited longest"
        waiting = [table for table in waiting if table not in served] + served
        for table in tables:
            left[table] -= 1
    assert isinstance(core.request(most), NothingYet)


@pytest.mark.parametrize("is_held", [True, False])
def test_held_request_without_splits_is_decided_again(is_held: bool) -> None:
    core = Core(2)
    request = ev.RequestSplits(core.member, 1, 1, core.tables, is_held=is_held)
    assert isinstance(core.handle(request), NothingYet)
    core.plan(1, 1)
    assert isinstance(core.handle(request), SplitsGranted) is is_held


def test_work_of_a_request_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables whose splits all wait for other readers are last the next time, so that those behind them are served."""
    core = Core(200)
    for number in range(200):
        core.plan(number, 1)
    considered: list[str] = []
    blocked = set(core.tables[:150])

    def choose(group: Any, reader: Any, most: int, ceiling: Any) -> Any:
        considered.append(group.key.table)
        return () if group.key.table in blocked else real(group, reader, most, ceiling)

    real = over_tables.choose
    monkeypatch.setattr(over_tables, "choose", choose)
    answers = [core.request(10) for _ in range(3)]
    assert len(considered) <= 3 * over_tables.MAX_CONSIDERED_TABLES
    assert [isinstance(answer, NothingYet) for answer in answers] == [True, True, False]


def test_lease_of_every_table_is_renewed_by_one_heartbeat() -> None:
    core = Core(3, lease_ms=1_000)
    for number in range(3):
        core.plan(number, 1)
    core.request(10)
    core.now_ms += 900
    core.handle(ev.Heartbeat(core.member))
    core.now_ms += 900
    core.handle(ev.Tick(core.now_ms - 1))
    assert all(len(group.readers) == 1 for group in core.state.groups.values())
    core.now_ms += 200
    core.handle(ev.Tick(core.now_ms - 1))
    assert not any(group.readers for group in core.state.groups.values())
    with pytest.raises(Fenced):
        core.handle(ev.Heartbeat(core.member))


def test_tables_expire_with_the_group_over_them() -> None:
    core = Core(2, group_expiry_ms=1_000)
    core.handle(ev.Tick(core.now_ms))
    core.now_ms += 10_000
    core.handle(ev.Tick(core.now_ms - 1))
    assert len(core.state.groups) == 3, "the group has a reader, its tables have none"
    core.handle(ev.Leave(core.member))
    core.handle(ev.Tick(core.now_ms - 1))
    core.now_ms += 1_000
    core.handle(ev.Tick(core.now_ms - 1))
    assert core.state.groups == {} and core.state.names.tables == {} and core.state.names.over_tables == {}


def test_table_that_takes_no_further_group_is_reported_and_left_out() -> None:
    core = Core(2, max_groups_of_table=1)
    core.handle(ev.Leave(core.member))
    core.handle(ev.Delete(KEY))
    other = GroupScope(request=PlanRequest(table="s.000", query=Incremental()))
    key = GroupKey("s.000", "other")
    core.handle(ev.CreateGroup(key=key, scope=other, limits=NO_LIMITS, progress=Progress(EARLIEST)))
    core.create()
    core.member = core.join("r")
    assert core.handle(ev.AddTables(KEY, core.tables)) == {"s.000": "limits.groupsPerTable"}
    core.plan(1, 1)
    assert core.request(10) == ["s.001"]
    answer = core.request(10)
    assert isinstance(answer, NothingYet)
    assert [(each.table, each.code) for each in answer.troubles] == [("s.000", TooManyGroups.code)]


def test_reset_to_snapshot_is_kept_for_later_tables_after_a_restart() -> None:
    core = Core(1)
    for at_snapshot in (True, False):
        core.handle(ev.Reset(KEY, Progress(EARLIEST), at_snapshot=at_snapshot))
        restored = State()
        for record in compacted_records(core.state):
            apply(restored, decode_record(encode_record(record)))
        core.state = restored
        name = f"s.later-{at_snapshot}"
        core.handle(ev.AddTables(KEY, (*core.tables, name)))
        assert core.state.groups[GroupKey(name, "g")].at_snapshot is at_snapshot
    assert not core.state.groups[GroupKey("s.000", "g")].at_snapshot


class Principals:
    """Groups over tables of several principals, by name."""

    def __init__(self, most: int) -> None:
        self.settings = CoordinatorSettings(max_group_tables_of_principal=most)
        self.state = State()

    def handle(self, event: ev.Event[Any]) -> Any:
        decision = decide(self.state, event, 1_000, self.settings)
        for record in decision.records:
            apply(self.state, record)
        return decision.answer

    def create(self, group: str, principal: str, *tables: str) -> None:
        event = ev.CreateGroup(
            key=GroupKey("s.*", group), scope=SCOPE, limits=NO_LIMITS, progress=Progress(EARLIEST), tables=tables,
            principal=principal,
        )  # fmt: skip
        self.handle(event)

    def add(self, group: str, *tables: str) -> Any:
        return self.handle(ev.AddTables(GroupKey("s.*", group), tables))

    @property
    def groups(self) -> int:
        return len(self.state.groups)


def test_tables_of_the_groups_of_a_principal_are_bounded() -> None:
    core = Principals(most=3)
    core.create("one", "token:a", "s.1", "s.2")
    with pytest.raises(TooManyGroups, match=r"2 tables.* have 2 already.*limits.groupTablesPerPrincipal allows 3"):
        core.create("two", "token:a", "s.1", "s.2")
    assert core.groups == 3, "nothing of the second group is there"
    core.create("two", "token:a", "s.1")
    core.create("one", "token:a", "s.1", "s.2", "s.3", "s.4")
    assert core.groups == 5, "the group is there: nothing is created again"
    core.create("other", "token:b", "s.1", "s.2", "s.3")
    core.create("nobody", "", "s.1", "s.2", "s.3", "s.4")


def test_tables_that_come_later_are_bounded_too_and_join_once_there_is_room() -> None:
    core = Principals(most=3)
    core.create("one", "token:a", "s.1")
    core.create("two", "token:a", "s.1")
    limit = "limits.groupTablesPerPrincipal"
    assert core.add("one", "s.1", "s.2", "s.3", "s.4") == {"s.3": limit, "s.4": limit}
    assert core.add("two", "s.1", "s.2") == {"s.2": limit}
    again = State()
    for record in compacted_records(core.state):
        apply(again, record)
    core.state = again
    assert core.add("two", "s.1", "s.2") == {"s.2": limit}, "also after a restart"
    core.handle(ev.Delete(GroupKey("s.*", "one")))
    assert core.add("two", "s.1", "s.2") == {}


def test_table_beyond_the_limit_of_the_principal_is_an_error_of_that_table() -> None:
    core = Core(2)
    core.settings = CoordinatorSettings(max_group_tables_of_principal=2)
    core.state.groups[KEY].principal = "token:a"
    core.tables = (*core.tables, "s.002")
    core.handle(ev.AddTables(KEY, core.tables))
    core.plan(0, 1)
    assert core.request(10) == ["s.000"], "the others are read"
    answer = core.request(10)
    assert isinstance(answer, NothingYet)
    [trouble] = answer.troubles
    assert (trouble.table, trouble.code) == ("s.002", TooManyGroups.code)
    assert "limits.groupTablesPerPrincipal" in trouble.text


def test_one_name_has_one_pattern_and_one_deletion() -> None:
    core = Core(2)
    with pytest.raises(ConfigurationError, match="one pattern"):
        core.create("*")
    with pytest.raises(ConfigurationError, match="has 1 readers"):
        core.handle(ev.Delete(KEY))
    core.handle(ev.Leave(core.member))
    core.handle(ev.Delete(KEY))
    assert core.state.groups == {}
