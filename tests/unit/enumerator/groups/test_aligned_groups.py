"""How far aligned groups may read: every group that a request may receive splits of has a ceiling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.decide import decide
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.results import CoordinatorSettings, SplitsGranted
from penstock.enumerator.core.rounds import NO_ROWS
from penstock.enumerator.core.split_facts import facts_of
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.groups.aligned_groups import AlignedGroups
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.streams.alignment import set_number
from penstock.enumerator.streams.alignment_sets import AlignmentSets
from penstock.proto.model.groups import GroupScope
from penstock.proto.model.positions import EARLIEST, CommitRange
from penstock.proto.model.queries import NO_LIMITS, Incremental, PlanRequest
from penstock.proto.model.streams import Alignment, EventTimeRule
from tests.unit.enumerator.core.groups import at

T = TypeVar("T")
KEY = GroupKey("s.*", "g")
DRIFT = 100
SCOPE = GroupScope(
    request=PlanRequest(table="s.*", query=Incremental(), event_time="at"),
    over_tables=True,
    rule=EventTimeRule(max_out_of_orderness_us=0),
    alignment=Alignment(set="s", max_drift_us=DRIFT),
)


@dataclass
class Peek:
    """The coordinator, as far as `AlignedGroups` uses it."""

    state: State

    def peek(self, read: Callable[[State], T]) -> T:
        return read(self.state)


class Lake:
    """An aligned group over the tables s.a and s.b, with one member."""

    def __init__(self) -> None:
        self.state, self.sequence = State(), 0
        self.tables = ("s.a", "s.b")
        self.handle(
            ev.CreateGroup(key=KEY, scope=SCOPE, limits=NO_LIMITS, progress=Progress(EARLIEST), tables=self.tables)
        )
        self.member = self.handle(ev.Join(key=KEY, reader_id="r", scope=SCOPE, request_id="q")).member
        self.aligned = AlignedGroups(Peek(self.state), AlignmentSets(lambda: 0))  # type: ignore[arg-type]

    def handle(self, event: ev.Event[Any]) -> Any:
        decision = decide(self.state, event, 1_000, CoordinatorSettings())
        for record in decision.records:
            apply(self.state, record)
        return decision.answer

    def plan(self, table: str, *spans: EventTimeSpan) -> None:
        """Plans a round with these event times; nothing is known to come."""
        group = self.state.groups[GroupKey(table, "g")]
        upto = at(group.rounds_planned + 1)
        splits = facts_of([(1, "p", f"f{number}") for number in range(len(spans))], spans)
        event = ev.Discovered(
            key=group.key, number=group.number, start=group.progress.position,
            commit_range=CommitRange(group.progress.position, upto), progress=Progress(upto),
            facts=splits, reshaped=frozenset(), commits=1, coming=NO_ROWS,
        )  # fmt: skip
        self.handle(event)

    def nothing_new(self, table: str) -> None:
        """A discovery found no commit."""
        group = self.state.groups[GroupKey(table, "g")]
        self.handle(ev.NothingFound(key=group.key, number=group.number, start=group.progress.position))

    def request(self, between: Callable[[], None] = lambda: None) -> list[tuple[str, int]]:
        """The table and index of the splits of a request; `between` runs after the ceilings were read."""
        self.sequence += 1
        ceilings = self.aligned.requested(KEY, self.tables)
        between()
        answer = self.handle(ev.RequestSplits(self.member, 10, self.sequence, self.tables, ceilings=ceilings))
        granted = answer.splits if isinstance(answer, SplitsGranted) else ()
        self.aligned.answered(KEY, ceilings, {one.table for one in granted})
        return sorted((one.table, one.index) for one in granted)


def test_table_without_rows_so_far_has_a_ceiling_too() -> None:
    lake = Lake()
    lake.plan("s.a", EventTimeSpan(10, 20))
    lake.nothing_new("s.b")
    ceilings = lake.aligned.requested(KEY, lake.tables)
    assert set(ceilings) == {"s.a", "s.b"}


def test_round_that_is_planned_during_a_request_is_aligned() -> None:
    """Between the ceilings and the assignment of splits a table without rows gets rows far ahead of the others."""
    lake = Lake()
    lake.plan("s.a", EventTimeSpan(10, 20))
    lake.nothing_new("s.b")
    far = (EventTimeSpan(5_000, 5_001), EventTimeSpan(9_000, 9_001))
    assert lake.request(lambda: lake.plan("s.b", *far)) == [("s.a", 0), ("s.b", 0)], "its first rows, as in its turn"
    assert lake.request() == [], "the rest is ahead of s.a by more than the drift"


def test_rows_without_event_time_are_never_withheld() -> None:
    lake = Lake()
    lake.plan("s.a", EventTimeSpan(10, 20))
    lake.plan("s.b", EventTimeSpan(), EventTimeSpan())
    assert lake.request() == [("s.b", 0), ("s.b", 1)], "s.a waits until they are read: their table has no watermark"


def test_table_without_rows_holds_back_no_other_one() -> None:
    lake = Lake()
    lake.nothing_new("s.b")
    lake.plan("s.a", EventTimeSpan(10, 20), EventTimeSpan(60, 70))
    assert lake.request() == [("s.a", 0), ("s.a", 1)]


def test_table_that_joins_the_group_during_a_request_waits_for_the_next_one() -> None:
    lake = Lake()
    lake.nothing_new("s.a")
    ceilings = lake.aligned.requested(KEY, ("s.a",))
    lake.plan("s.b", EventTimeSpan(5_000, 5_001))
    answer = lake.handle(ev.RequestSplits(lake.member, 10, 1, lake.tables, ceilings=ceilings))
    assert not isinstance(answer, SplitsGranted)
    lake.sequence = 1
    assert lake.request() == [("s.b", 0)]


def test_groups_of_a_set_show_the_number_of_the_set() -> None:
    lake = Lake()
    shown = lake.aligned.shown(lake.state, lake.state.groups.values())
    assert {each.set_number for each in shown.values()} == {set_number("", "s")} and len(shown) == 3
