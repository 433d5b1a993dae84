"""Alignment: the decision for one member, sets of streams and groups, and their limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.streams.alignment import (
    DEFAULT_IDLE_MS,
    MAX_IDLE_MS,
    AlignedMember,
    ceiling_of,
    ceilings_of,
    is_active,
    is_held,
    units_within,
)
from penstock.enumerator.streams.alignment_sets import (
    MAX_MEMBERS,
    MAX_OF_PRINCIPAL,
    AlignmentSets,
    GroupMember,
    SetKey,
)
from penstock.enumerator.streams.watermark import HIGHEST_US, LOWEST_US
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.streams import (
    Alignment,
    CommitsBatch,
    EventTimeCeiling,
    NextBatch,
    Progress,
    StreamPoint,
    StreamScope,
    Watermark,
)
from tests.unit.enumerator.scripted_service import Clock

DRIFT = 100


def member(watermark_us: int | None, active_ms: int = 0, idle_timeout_ms: int = 1_000) -> AlignedMember:
    return AlignedMember(
        watermark_us=watermark_us, idle_timeout_ms=idle_timeout_ms, active_ms=active_ms, seen_ms=active_ms
    )


def spans(*bounds: tuple[int, int]) -> list[EventTimeSpan]:
    return [EventTimeSpan(low, high) for low, high in bounds]


# --- one decision


def test_ceiling_is_drift_above_slowest_active_member() -> None:
    others = [member(50), member(10, active_ms=-1_000), member(70)]
    assert ceiling_of(300, DRIFT, others, 0) == EventTimeCeiling(150, DRIFT, is_lowest=False)
    assert ceiling_of(50, DRIFT, others, 0) == EventTimeCeiling(150, DRIFT, is_lowest=True)
    assert ceiling_of(40, DRIFT, others, 0) == EventTimeCeiling(140, DRIFT, is_lowest=True)
    assert ceiling_of(40, DRIFT, [], 0) == EventTimeCeiling(140, DRIFT, is_lowest=True)


def test_member_without_watermark_is_slowest() -> None:
    assert ceiling_of(None, DRIFT, [member(0)], 0) == EventTimeCeiling(None, DRIFT, is_lowest=True)
    ahead = ceiling_of(0, DRIFT, [member(None)], 0)
    assert ahead == EventTimeCeiling(LOWEST_US, DRIFT, is_lowest=False)
    assert is_held(0, ahead)
    assert not is_held(None, ceiling_of(None, DRIFT, [member(None)], 0))


def test_only_member_ahead_is_held() -> None:
    others = [member(50)]
    held = [is_held(at_us, ceiling_of(at_us, DRIFT, others, 0)) for at_us in (49, 50, 150, 151, HIGHEST_US)]
    assert held == [False, False, False, True, True]


def test_idle_timeout_is_bounded() -> None:
    endless = member(0, active_ms=0, idle_timeout_ms=10**15)
    assert is_active(endless, MAX_IDLE_MS - 1)
    assert not is_active(endless, MAX_IDLE_MS)


@pytest.mark.parametrize(
    ("ceiling", "units", "expected"),
    [
        (EventTimeCeiling(150, DRIFT, is_lowest=False), spans((0, 90), (80, 150), (100, 151), (1, 2)), 2),
        (EventTimeCeiling(150, DRIFT, is_lowest=False), spans((100, 151)), 0),
        (EventTimeCeiling(150, DRIFT, is_lowest=True), spans((100, 900), (901, 902)), 1),
        (EventTimeCeiling(150, DRIFT, is_lowest=True), spans((1_000, 1_050), (1_000, 1_100), (1_001, 1_101)), 2),
        (EventTimeCeiling(None, DRIFT, is_lowest=True), spans((5, 10), (20, 105), (20, 106)), 2),
        (EventTimeCeiling(150, DRIFT, is_lowest=False), [EventTimeSpan(is_unbounded=True)] * 2, 1),
        (EventTimeCeiling(150, DRIFT, is_lowest=True), [*spans((1, 2)), EventTimeSpan(is_unbounded=True)], 1),
        (EventTimeCeiling(150, DRIFT, is_lowest=False), [EventTimeSpan(), EventTimeSpan(), *spans((1, 999))], 2),
        (EventTimeCeiling(HIGHEST_US, DRIFT, is_lowest=True), spans((HIGHEST_US, HIGHEST_US)), 1),
        (EventTimeCeiling(150, DRIFT, is_lowest=False), [], 0),
    ],
)
def test_batch_is_cut_at_ceiling(ceiling: EventTimeCeiling, units: list[EventTimeSpan], expected: int) -> None:
    assert units_within(units, ceiling) == expected


times = st.integers(LOWEST_US, HIGHEST_US)


@given(st.none() | times, st.integers(1, HIGHEST_US), st.lists(st.none() | times, max_size=4))
@settings(max_examples=300, deadline=None)
def test_somebody_may_always_read(own: int | None, drift: int, others: list[int | None]) -> None:
    """Of any set at least the slowest member is not held, and its ceiling is an event time."""
    marks = [own, *others]
    free = []
    for place, mark in enumerate(marks):
        rest = [member(other) for number, other in enumerate(marks) if number != place]
        ceiling = ceiling_of(mark, drift, rest, 0)
        assert ceiling.until_us is None or LOWEST_US <= ceiling.until_us <= HIGHEST_US
        free.append(ceiling.is_lowest and not is_held(mark, ceiling))
    assert free[min(range(len(marks)), key=lambda place: (marks[place] is not None, marks[place] or 0))]


# --- sets


def scope(name: str, principal: str = "", drift: int = DRIFT, idle_us: int | None = 1_000_000) -> StreamScope:
    aligned = Alignment(set="s", max_drift_us=drift, idle_timeout_us=idle_us)
    request = PlanRequest(table="t", query=Incremental())
    return StreamScope(request=request, name=name, alignment=aligned, principal=principal)


def point(number: int, at_us: int | None) -> StreamPoint:
    progress = Progress(Position(InstantTime(f"{number:03d}")))
    return StreamPoint(progress=progress, watermark=Watermark(at_us), content=CommitsBatch(Position(InstantTime("0"))))


def call(sets: AlignmentSets, of: StreamScope, start: StreamPoint, end: StreamPoint) -> NextBatch:
    assert of.alignment is not None
    return sets.next_batch(of, of.alignment, start, lambda scope, point: NextBatch(point=end))[1]


def test_fast_member_waits_until_slow_one_is_idle() -> None:
    clock = Clock()
    sets = AlignmentSets(clock)
    fast, slow = point(1, 1_000), point(1, 0)
    assert call(sets, scope("slow"), slow, slow).point == slow
    assert call(sets, scope("fast"), fast, point(2, 2_000)).held
    clock.now_ms += 999
    call(sets, scope("slow"), slow, slow)  # nothing new: its idle time goes on
    assert call(sets, scope("fast"), fast, point(2, 2_000)).held
    clock.now_ms += 1
    call(sets, scope("slow"), slow, slow)
    assert not call(sets, scope("fast"), fast, point(2, 2_000)).held
    call(sets, scope("slow"), slow, point(2, 10))  # it reads again
    assert call(sets, scope("fast"), point(2, 2_000), point(3, 3_000)).held


def test_held_member_keeps_its_place() -> None:
    """A member that was held for long is not idle: the others do not overtake it by more than the drift."""
    clock = Clock()
    sets = AlignmentSets(clock)
    for _ in range(5):
        call(sets, scope("slow"), point(1, 0), point(2, 10))
        assert call(sets, scope("fast"), point(1, 1_000), point(2, 2_000)).held
        clock.now_ms += 900
    assert call(sets, scope("slow"), point(9, 1_200), point(10, 1_300)).held


def test_member_that_stopped_is_forgotten() -> None:
    clock = Clock()
    sets = AlignmentSets(clock)
    call(sets, scope("slow", idle_us=None), point(1, 0), point(2, 10))
    clock.now_ms += DEFAULT_IDLE_MS - 1
    assert call(sets, scope("fast"), point(1, 1_000), point(2, 2_000)).held
    clock.now_ms += 1
    assert not call(sets, scope("fast"), point(1, 1_000), point(2, 2_000)).held


def test_run_with_fixed_end_leaves_set_with_its_last_batch() -> None:
    """Otherwise a run of `availableNow` would end while the other stream is held."""
    sets = AlignmentSets(Clock())
    target = Position(InstantTime("002"))
    call(sets, replace(scope("slow"), target=target), point(1, 0), point(2, 10))
    assert not call(sets, scope("fast"), point(1, 1_000), point(2, 2_000)).held
    call(sets, replace(scope("slow"), target=Position(InstantTime("003"))), point(1, 0), point(2, 10))
    assert call(sets, scope("fast"), point(1, 1_000), point(2, 2_000)).held
    ended = replace(point(2, HIGHEST_US), ended=True)
    call(sets, scope("slow"), point(1, 0), ended)
    assert not call(sets, scope("fast"), point(1, 1_000), point(2, 2_000)).held
    assert call(sets, scope("slow"), ended, ended).point == ended


def test_sets_of_callers_are_apart_and_bounded() -> None:
    sets = AlignmentSets(Clock())
    call(sets, scope("slow", principal="token:bad"), point(1, 0), point(2, 10))
    assert not call(sets, scope("fast", principal="token:good"), point(1, 1_000), point(2, 2_000)).held
    for number in range(MAX_MEMBERS - 1):
        call(sets, scope(f"n{number}", principal="token:bad"), point(1, 0), point(2, 10))
    with pytest.raises(ConfigurationError, match=f"alignWith=s: the set has {MAX_MEMBERS} members"):
        call(sets, scope("more", principal="token:bad"), point(1, 0), point(2, 10))
    call(sets, scope("slow", principal="token:bad"), point(2, 10), point(3, 20))


def test_members_of_caller_are_bounded_over_all_sets() -> None:
    sets = AlignmentSets(Clock())
    for number in range(MAX_OF_PRINCIPAL):
        of = scope("q", principal="token:bad")
        call(sets, replace(of, alignment=Alignment(set=f"s{number}", max_drift_us=1)), point(1, 0), point(2, 10))
    with pytest.raises(ConfigurationError, match=f"all sets of this caller have {MAX_OF_PRINCIPAL}"):
        call(sets, scope("q", principal="token:bad"), point(1, 0), point(2, 10))
    call(sets, scope("q", principal="token:good"), point(1, 0), point(2, 10))


# --- groups


def group_set(name: str = "s", principal: str = "") -> SetKey:
    return SetKey(principal, name)


def groups_of(marks: dict[str, int | None]) -> dict[GroupMember, int | None]:
    return {GroupMember(table, "g"): at_us for table, at_us in marks.items()}


@given(
    st.lists(st.tuples(st.none() | times, st.integers(-2_000, 0)), min_size=1, max_size=6), st.integers(1, HIGHEST_US)
)
@settings(max_examples=300, deadline=None)
def test_ceilings_of_a_whole_set_are_those_of_its_members(marks: list[tuple[int | None, int]], drift: int) -> None:
    members = {place: member(at_us, active_ms) for place, (at_us, active_ms) in enumerate(marks)}
    watermarks = {place: each.watermark_us for place, each in members.items()}
    for place, ceiling in ceilings_of(watermarks, drift, members.values(), 0).items():
        others = [each for other, each in members.items() if other != place]
        assert ceiling == ceiling_of(watermarks[place], drift, others, 0)


def test_groups_and_streams_of_a_set_wait_for_each_other() -> None:
    clock = Clock()
    sets, aligned = AlignmentSets(clock), Alignment(set="s", max_drift_us=DRIFT, idle_timeout_us=1_000_000)
    call(sets, scope("slow"), point(1, 0), point(2, 10))
    marks = groups_of({"t": 500, "u": 100})
    ceilings = sets.requested(group_set(), aligned, marks)
    assert {key.table: is_held(marks[key], ceiling) for key, ceiling in ceilings.items()} == {"t": True, "u": False}
    assert {each.until_us for each in ceilings.values()} == {10 + DRIFT}
    assert sets.ceilings(group_set(), aligned, marks) == ceilings
    assert not any(each.is_lowest for each in ceilings.values())
    assert sets.requested(group_set(principal="other"), aligned, groups_of({"t": 500}))[GroupMember("t", "g")].is_lowest
    call(sets, scope("slow"), point(2, 10), point(3, 1_000))
    assert call(sets, scope("slow"), point(3, 1_000), point(4, 2_000)).held, "it waits for the groups"
    sets.advanced(group_set(), groups_of({"t": 950, "u": 960}), active=())
    assert not call(sets, scope("slow"), point(3, 1_000), point(4, 2_000)).held


def test_group_that_neither_reads_nor_waits_is_idle_and_one_that_left_is_gone() -> None:
    clock = Clock()
    sets, aligned = AlignmentSets(clock), Alignment(set="s", max_drift_us=DRIFT, idle_timeout_us=1_000_000)
    slow, fast = groups_of({"slow": 0}), groups_of({"fast": 500})

    def is_waiting() -> bool:
        [ceiling] = sets.requested(group_set(), aligned, fast).values()
        return is_held(500, ceiling)

    sets.requested(group_set(), aligned, slow)
    for _ in range(3):
        clock.now_ms += 900
        sets.advanced(group_set(), slow, active=slow)
        sets.advanced(group_set(), fast, active=fast)
        assert is_waiting()
    clock.now_ms += 999
    sets.requested(group_set(), aligned, slow)
    sets.advanced(group_set(), slow, active=())
    assert is_waiting()
    clock.now_ms += 1
    assert not is_waiting(), "it called, and nothing happened"
    sets.advanced(group_set(), slow, active=slow)
    assert is_waiting()
    sets.left(group_set(), slow)
    assert not is_waiting()


def test_tables_of_a_group_over_tables_are_one_member_of_the_limit() -> None:
    sets, aligned = AlignmentSets(Clock()), Alignment(set="s", max_drift_us=DRIFT)
    sets.requested(group_set(), aligned, groups_of({f"t{number}": 0 for number in range(10 * MAX_MEMBERS)}))
    for number in range(MAX_MEMBERS - 1):
        sets.requested(group_set(), aligned, {GroupMember("t", f"n{number}"): 0})
    with pytest.raises(ConfigurationError, match=f"alignWith=s: the set has {MAX_MEMBERS} members"):
        sets.requested(group_set(), aligned, {GroupMember("t", "more"): 0})
    sets.requested(group_set(), aligned, groups_of({"new": 0}))
