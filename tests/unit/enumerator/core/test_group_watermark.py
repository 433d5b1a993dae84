"""The watermark of a group: the lowest event time that is not committed, and the idle timeout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core import records as rec
from penstock.enumerator.core.results import SplitsGranted
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.model.groups import EndOfGroup, Member, NothingYet
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.streams import END_OF_TIME_US, EventTimeRule, Watermark
from tests.unit.enumerator.core.groups import KEY, SCOPE, Core, at

LATE_US = 10
TIMED = replace(
    SCOPE,
    request=PlanRequest(table="t", query=SCOPE.request.query, event_time="at"),
    rule=EventTimeRule(max_out_of_orderness_us=LATE_US),
)
NOTHING = EventTimeSpan()
UNBOUNDED = EventTimeSpan(is_unbounded=True)


def timed_core(idle_us: int | None = None) -> Core:
    """A group with a watermark."""
    return Core(scope=replace(TIMED, idle_timeout_us=idle_us))


def plan(core: Core, *spans: EventTimeSpan, coming: EventTimeSpan = NOTHING) -> str:
    """Plans a round with a split of each span, in file groups of their own."""
    groups = ((f"p{core.rounds}", str(number)) for number in range(len(spans)))
    return core.plan(*groups, event_times=spans, coming=coming)


def look(core: Core) -> None:
    """A discovery that finds nothing new."""
    group = core.group
    core.handle(ev.NothingFound(key=KEY, number=group.number, start=group.progress.position))


def received(core: Core, member: Member, sequence: int) -> int | None:
    """The watermark of the answer to a request."""
    answer = core.handle(ev.RequestSplits(member, 1, sequence))
    assert isinstance(answer, SplitsGranted | NothingYet | EndOfGroup)
    return answer.watermark_us


def test_pending_and_held_splits_limit_the_watermark_until_they_are_finished() -> None:
    core = timed_core()
    plan_id = plan(core, EventTimeSpan(50, 100), EventTimeSpan(70, 300))
    assert core.group.watermark == Watermark(49, 300)
    member = core.join("r")
    assert received(core, member, 1) == 49
    core.commit(member, (plan_id, 0, 1))
    assert core.group.watermark.at_us == 49, "a split that is read in part is not finished"
    core.commit(member, (plan_id, 0, 2), finished=True)
    assert received(core, member, 2) == 69
    core.commit(member, (plan_id, 1, 2), finished=True)
    assert received(core, member, 3) == 290, "the lateness below the highest event time"


def test_split_of_a_reader_whose_lease_ended_still_limits_the_watermark() -> None:
    core = timed_core()
    plan(core, EventTimeSpan(50, 100))
    member = core.join("r")
    received(core, member, 1)
    core.handle(ev.Leave(member))
    assert core.group.watermark.at_us == 49
    other = core.join("s")
    assert received(core, other, 1) == 49


def test_known_commits_that_are_not_planned_limit_the_watermark() -> None:
    core = timed_core()
    plan(core, coming=EventTimeSpan(20, 900))
    assert core.group.watermark == Watermark(19)
    plan(core, coming=EventTimeSpan(200, 900))
    assert core.group.watermark.at_us == 199


def test_known_commits_that_a_pending_one_hides_do_not_raise_the_watermark() -> None:
    """On timeline layout 1 a pending instant can hide commits that a discovery has seen: their rows come later."""
    core = timed_core()
    plan_id = plan(core, EventTimeSpan(300, 310), coming=EventTimeSpan(350, 900))
    member = core.join("r")
    received(core, member, 1)
    core.commit(member, (plan_id, 0, 1), finished=True)
    assert core.group.watermark == Watermark(349, 310)
    look(core)
    assert core.group.watermark == Watermark(349, 310)


def test_rows_of_unknown_event_times_hold_the_watermark_until_they_are_finished() -> None:
    core = timed_core()
    plan(core, EventTimeSpan(50, 100))
    plan_id = plan(core, UNBOUNDED, EventTimeSpan(400, 500))
    assert core.group.watermark == Watermark(49, 500)
    member = core.join("r")
    core.request_splits(member, 1)
    core.commit(member, *((one, 0, 1) for one in core.group.rounds), finished=True)
    assert core.group.watermark.at_us == 399
    assert core.group.rounds[plan_id].remaining_span() == EventTimeSpan(low_us=400)


def test_rows_without_event_times_do_not_limit_the_watermark() -> None:
    core = timed_core()
    plan(core, NOTHING)
    assert core.group.watermark == Watermark()
    plan(core, EventTimeSpan(5, 30), NOTHING)
    assert core.group.watermark.at_us == 4


def test_late_rows_do_not_move_the_watermark_back() -> None:
    core = timed_core()
    member = core.join("r")
    plan_id = plan(core, EventTimeSpan(500, 600))
    core.request_splits(member, 1)
    core.commit(member, (plan_id, 0, 1), finished=True)
    assert core.group.watermark.at_us == 590
    plan(core, EventTimeSpan(1, 2))
    assert core.group.watermark == Watermark(590, 600)


def test_group_without_a_rule_has_no_watermark() -> None:
    core = Core()
    member = core.join("r")
    plan_id = core.plan(("p", "a"))
    core.request_splits(member, 1)
    core.commit(member, (plan_id, 0, 1), finished=True)
    look(core)
    assert core.group.watermark == Watermark() and received(core, member, 2) is None
    assert not [one for one in compacted_records(core.state) if isinstance(one, rec.WatermarkMoved)]


def test_reset_starts_the_watermark_again_and_a_lost_range_keeps_it() -> None:
    core = timed_core()
    plan(core, EventTimeSpan(50, 100))
    lost = ev.RangeLost(key=KEY, number=core.group.number, start=at(1), progress=Progress(at(5)))
    core.state.groups[KEY].scope = replace(TIMED, on_lost_range=rec.GroupScope(request=TIMED.request).on_lost_range)
    core.handle(lost)
    assert core.group.watermark == Watermark(49, 100)
    assert core.group.coming == rec.UNKNOWN_SPAN
    member = core.join("r")
    core.handle(ev.CommitSplits(member, ()))
    assert core.group.watermark.at_us == 49, "what comes after a lost range is not known"
    core.handle(ev.Reset(KEY, Progress(at(0))))
    assert core.group.watermark == Watermark()


# --- idle


def test_idle_timeout_advances_the_watermark_by_each_whole_timeout() -> None:
    core = timed_core(idle_us=60_000_000)
    member = core.join("r")
    plan_id = plan(core, EventTimeSpan(500, 600))
    look(core)
    core.now_ms += 600_000
    look(core)
    assert core.group.watermark.at_us == 499, "a pending split: the group is not idle"
    core.request_splits(member, 1)
    core.commit(member, (plan_id, 0, 1), finished=True)
    look(core)
    core.now_ms += 59_999
    look(core)
    assert core.group.watermark.at_us == 590
    core.now_ms += 120_001
    look(core)
    assert core.group.watermark.at_us == 590 + 3 * 60_000_000
    core.now_ms += 59_999
    look(core)
    assert core.group.watermark.at_us == 590 + 3 * 60_000_000
    plan(core, EventTimeSpan(700, 800))
    core.now_ms += 600_000
    assert core.group.quiet_since_us is None and core.group.watermark.at_us == 590 + 3 * 60_000_000


def test_table_that_is_not_looked_at_is_not_idle() -> None:
    core = timed_core(idle_us=1)
    plan(core, EventTimeSpan(500, 600), coming=EventTimeSpan(900, 900))
    core.now_ms += 600_000
    core.handle(ev.Tick(0))
    assert core.group.watermark.at_us == 499


def test_watermark_of_an_idle_group_ends_with_the_calendar() -> None:
    core = timed_core(idle_us=END_OF_TIME_US)
    plan(core, coming=EventTimeSpan(5, 5))
    look(core)
    core.now_ms += END_OF_TIME_US // 1000 * 3
    look(core)
    assert core.group.watermark.at_us == END_OF_TIME_US


def test_group_without_event_times_so_far_stays_unknown_when_idle() -> None:
    core = timed_core(idle_us=1)
    look(core)
    core.now_ms += 60_000
    look(core)
    assert core.group.watermark == Watermark()


# --- histories

spans = st.one_of(
    st.just(NOTHING),
    st.just(UNBOUNDED),
    st.tuples(st.integers(-50, 1000), st.integers(0, 50)).map(lambda of: EventTimeSpan(of[0], sum(of))),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("plan"), st.lists(spans, max_size=4), spans),
        st.tuples(st.just("request"), st.integers(1, 3)),
        st.tuples(st.just("finish"), st.integers(0, 5)),
        st.tuples(st.just("leave")),
        st.tuples(st.just("nothing new")),
    ),
    max_size=20,
)


def lowest(spans_left: list[EventTimeSpan]) -> int | None:
    """The bound of a model: no row is at or below it. None: any row may come."""
    if any(span.is_unbounded for span in spans_left):
        return None
    return min((span.low_us for span in spans_left if span.low_us is not None), default=2**62) - 1


@settings(max_examples=120, deadline=None)
@given(steps)
def test_watermark_of_any_history_is_below_all_that_is_not_finished(actions: list[tuple[Any, ...]]) -> None:
    core, member, sequence = timed_core(), None, 0
    coming, splits, held = UNBOUNDED, dict[tuple[str, int], EventTimeSpan](), list[tuple[str, int]]()
    before: Watermark = core.group.watermark
    for step in actions:
        match step:
            case ("plan", of_splits, later):
                plan_id, coming = plan(core, *of_splits, coming=later), later
                splits |= {(plan_id, index): span for index, span in enumerate(of_splits)}
            case ("request", most):
                member = member or core.join("r", f"j{sequence}")
                sequence += 1
                granted = core.request_splits(member, sequence, most)
                held += granted if isinstance(granted, list) else []
            case ("finish", which) if held and member is not None:
                place = held.pop(which % len(held))
                core.commit(member, (*place, 1), finished=True)
                del splits[place]
            case ("leave",) if member is not None:
                core.handle(ev.Leave(member))
                member, held = None, []
            case ("nothing new",):
                look(core)
                coming = NOTHING
        after, bound = core.group.watermark, lowest([*splits.values(), coming])
        if after.at_us != before.at_us:
            assert after.at_us is not None and (before.at_us is None or after.at_us > before.at_us)
            assert bound is not None and after.at_us <= bound
            highs = [high for high in (after.high_us, coming.high_us) if high is not None]
            assert after.at_us <= max(highs) - LATE_US
        elif bound is not None and after.high_us is not None:
            assert after.at_us is not None and after.at_us >= min(bound, after.high_us - LATE_US), (
                "as high as it may be"
            )
        before = after
    fewer = State()
    for record in compacted_records(core.state):
        apply(fewer, record)
    assert (fewer.groups[KEY].watermark, fewer.groups[KEY].coming) == (core.group.watermark, core.group.coming)


@pytest.mark.parametrize("count", [1, 5])
def test_remaining_span_of_a_finished_round_is_empty(count: int) -> None:
    core = timed_core()
    member = core.join("r")
    plan_id = plan(core, *(EventTimeSpan(number, number) for number in range(count)))
    open_round = core.group.rounds[plan_id]
    core.request_splits(member, 1)
    for index in reversed(range(count)):
        assert open_round.remaining_span() == EventTimeSpan(low_us=0)
        core.commit(member, (plan_id, index, 1), finished=True)
    assert open_round.remaining_span() == NOTHING
