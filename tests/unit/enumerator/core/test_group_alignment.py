"""Splits of an aligned group: none beyond the ceiling, at least one for the slowest group."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.results import SplitsGranted
from penstock.enumerator.core.split_assignment import withheld
from penstock.enumerator.core.split_facts import facts_of
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.groups import GroupScope, Member, NothingYet
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.streams import Alignment, EventTimeCeiling, EventTimeRule
from tests.unit.enumerator.core.groups import KEY, SCOPE, Core

DRIFT = 100
ALIGNED = replace(
    SCOPE,
    request=replace(SCOPE.request, event_time="at"),
    rule=EventTimeRule(max_out_of_orderness_us=0),
    alignment=Alignment(set="s", max_drift_us=DRIFT),
)
NOTHING, UNBOUNDED = EventTimeSpan(), EventTimeSpan(is_unbounded=True)


def core_of(*rounds: tuple[EventTimeSpan, ...]) -> tuple[Core, Member, list[str]]:
    """A group with these rounds, each split in a file group of its own, and a member."""
    core = Core(scope=ALIGNED)
    plans = [
        core.plan(*((f"p{place}", f"{number}") for number in range(len(spans))), event_times=spans, coming=NOTHING)
        for place, spans in enumerate(rounds)
    ]
    return core, core.join("r"), plans


def granted(core: Core, member: Member, ceiling: EventTimeCeiling, sequence: int = 1, most: int = 100) -> list[int]:
    """The places of the splits that the member receives, over all rounds."""
    answer = core.handle(ev.RequestSplits(member, most, sequence, ceilings={KEY.table: ceiling}))
    if isinstance(answer, NothingYet):
        return []
    assert isinstance(answer, SplitsGranted)
    plans = list(core.group.rounds)
    return [plans.index(one.plan_id) * 10 + one.index for one in answer.splits]


def until(until_us: int | None, *, is_lowest: bool = False) -> EventTimeCeiling:
    return EventTimeCeiling(until_us, DRIFT, is_lowest)


SPANS = (EventTimeSpan(10, 20), EventTimeSpan(50, 400), EventTimeSpan(30, 110), NOTHING)


@pytest.mark.parametrize(
    ("ceiling", "expected"),
    [
        (until(110), [0, 2, 3]),
        (until(109), [0, 3]),
        (until(400), [0, 1, 2, 3]),
        (until(8), []),
        (until(9), [3]),
        (until(9, is_lowest=True), [0, 2, 3]),
        (until(None, is_lowest=True), [0, 2, 3]),
    ],
)
def test_splits_beyond_the_ceiling_wait(ceiling: EventTimeCeiling, expected: list[int]) -> None:
    """The watermark of the group is 9: below it everything is held."""
    core, member, _ = core_of(SPANS)
    assert core.group.watermark.at_us == 9
    assert withheld(core.group, ceiling) == (not expected)
    assert granted(core, member, ceiling) == expected


def test_slowest_group_gets_one_split_however_wide() -> None:
    core, member, _ = core_of((EventTimeSpan(10, 900), EventTimeSpan(11, 901)))
    assert granted(core, member, until(50, is_lowest=True), 1) == [0]
    assert granted(core, member, until(50, is_lowest=True), 2) == [1], "also before the first one is committed"


def test_split_without_bounds_is_read_alone() -> None:
    core, member, _ = core_of((UNBOUNDED, UNBOUNDED, EventTimeSpan(1, 40)))
    assert granted(core, member, until(50), 1) == [2]
    assert granted(core, member, until(50), 2) == [0]
    assert not withheld(core.group, until(50))


def test_later_split_of_a_file_group_waits_for_one_that_waits() -> None:
    core = Core(scope=ALIGNED)
    core.plan(("p", "f"), ("p", "g"), event_times=(EventTimeSpan(10, 500), EventTimeSpan(10, 20)), coming=NOTHING)
    core.plan(("p", "f"), ("p", "h"), event_times=(EventTimeSpan(30, 40), EventTimeSpan(30, 40)), coming=NOTHING)
    member = core.join("r")
    assert granted(core, member, until(60)) == [1, 11], "not split 10: its file group has an earlier split"
    assert granted(core, member, until(500), 2) == [0, 10]


def test_splits_of_a_member_that_joins_again_are_delivered_whatever_the_ceiling() -> None:
    core, member, _ = core_of((EventTimeSpan(10, 20),))
    assert granted(core, member, until(50)) == [0]
    assert granted(core, core.join("r", "again"), until(0)) == [0]


spans = st.tuples(st.integers(0, 300), st.integers(0, 200)).map(lambda pair: EventTimeSpan(pair[0], sum(pair)))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(spans | st.just(NOTHING) | st.just(UNBOUNDED), min_size=1, max_size=6), max_size=3),
    st.integers(0, 500),
    st.booleans(),
    st.integers(1, 6),
)
def test_no_split_beyond_the_ceiling_and_the_slowest_is_never_held(
    rounds: list[list[EventTimeSpan]], until_us: int, is_lowest: bool, most: int
) -> None:
    core, member, _ = core_of(*map(tuple, rounds))
    present = [(place * 10 + index, span) for place, part in enumerate(rounds) for index, span in enumerate(part)]
    is_waiting = withheld(core.group, until(until_us, is_lowest=is_lowest))
    reported = granted(core, member, until(until_us, is_lowest=is_lowest), most=most)
    bounds = [span for place, span in present if place in reported]
    assert is_waiting == (bool(present) and not reported) or not present
    if is_lowest:
        assert reported or not present
        lows = [span.low_us for _, span in present if span.low_us is not None]
        if not any(span.is_unbounded for _, span in present):
            until_us = max(until_us, min(lows, default=0) + DRIFT)
    beyond = [span for span in bounds if span.is_unbounded or (span.high_us or 0) > until_us]
    assert len(beyond) <= (len(bounds) == 1)
    assert is_lowest or all(span.is_unbounded for span in beyond)


@given(st.lists(spans | st.just(NOTHING) | st.just(UNBOUNDED), min_size=1, max_size=6), st.none() | st.integers(0, 500))
def test_one_split_is_admitted_as_all_are(of_splits: list[EventTimeSpan], until_us: int | None) -> None:
    for facts in (facts_of([(1, "p", "f")] * len(of_splits), of_splits), facts_of([(1, "p", "f")])):
        together = facts.admitted(until_us) | facts.unbounded()
        assert [facts.is_admitted(index, until_us) for index in range(len(facts))] == together.tolist()


def test_alignment_needs_a_watermark() -> None:
    with pytest.raises(ConfigurationError, match="maxOutOfOrderness"):
        GroupScope(request=PlanRequest(table="t", query=Incremental()), alignment=ALIGNED.alignment)


def test_aligned_group_without_a_ceiling_receives_nothing_new() -> None:
    """A set that did not answer is no permission to read ahead without bounds."""
    core, member, _ = core_of(SPANS)
    assert isinstance(core.handle(ev.RequestSplits(member, 10, 1)), NothingYet)
    assert withheld(core.group, None)
    assert granted(core, member, until(400), 2) == [0, 1, 2, 3]
    again = core.join("r", "again")
    answer = core.handle(ev.RequestSplits(again, 10, 1))
    assert isinstance(answer, SplitsGranted) and len(answer.splits) == 4, "those that it holds are delivered again"
