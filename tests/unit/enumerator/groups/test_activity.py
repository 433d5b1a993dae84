"""What is kept of groups for people who look: bounded, by the clock that is passed in."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.enumerator.groups import activity as kept
from penstock.enumerator.groups.activity import MAX_BARS, MAX_GROUPS, MAX_SAMPLES, SPACING_MS, Activity
from penstock.enumerator.observer import (
    NO_OBSERVER,
    CompositeObserver,
    GroupGauges,
    GroupMeasured,
    GroupRemoved,
    LagMeasured,
    Observation,
    ReaderSplits,
    RoundDiscovered,
    SplitEvent,
    SplitReported,
    WatermarkPlanned,
)
from penstock.enumerator.server.http.page_data import MAX_POINTS, page_data, thinned
from penstock.proto.model.groups import GroupLag
from penstock.proto.model.reports import SplitReport


class Clock:
    """Milliseconds that are moved by hand."""

    now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


GAUGES = GroupGauges(pending_splits=3, assigned_splits=2, finished_splits=5, issued_instant_s=1.5e9)
LAG = GroupLag(commits=4, size_bytes=700, seconds=12.5)
A = ("plan", 0)
B = ("plan", 1)


def test_samples_are_taken_by_their_spacing_and_the_oldest_go() -> None:
    clock = Clock()
    told = Activity(clock)
    for _ in range(2 * MAX_SAMPLES + 3):
        told.observe(GroupMeasured("t", "g", GAUGES))
        told.observe(GroupMeasured("t", "g", GAUGES))
        clock.now_ms += SPACING_MS
    found = told.samples("t", "g")
    assert len(found) == MAX_SAMPLES
    assert {later.at_ms - sooner.at_ms for sooner, later in itertools.pairwise(found)} == {SPACING_MS}
    assert found[-1].at_ms == clock.now_ms - SPACING_MS
    clock.now_ms -= 3_600_000  # somebody set the clock back
    told.observe(GroupMeasured("t", "g", GAUGES))
    assert told.samples("t", "g")[-1].at_ms == clock.now_ms


def test_a_sample_says_where_the_group_stood() -> None:
    told = Activity(Clock())
    told.observe(LagMeasured("t", "g", LAG))
    told.observe(ReaderSplits(SplitEvent.ASSIGNED, "t", "g", "r", (A, B)))
    told.observe(ReaderSplits(SplitEvent.FINISHED, "t", "g", "r", (A,)))
    told.observe(SplitReported("t", "g", "r", SplitReport(rows=70, size_bytes=9)))
    told.observe(GroupMeasured("t", "g", GAUGES))
    (sample,) = told.samples("t", "g")
    assert (sample.pending, sample.held, sample.finished, sample.rows) == (3, 2, 1, 70)
    assert (sample.lag_seconds, sample.lag_commits, sample.issued_ms) == (12.5, 4, 1_500_000_000_000)


def test_rates_are_of_the_last_minute() -> None:
    clock = Clock()
    told = Activity(clock)
    told.observe(GroupMeasured("t", "g", GAUGES))
    clock.now_ms += 60_000
    for _ in range(60):
        told.observe(SplitReported("t", "g", "r", SplitReport(rows=100, size_bytes=1_000)))
        clock.now_ms += 1_000
    rows, size_bytes = told.groups()["t", "g"].rates(clock.now_ms)
    assert 85 <= rows <= 105
    assert 850 <= size_bytes <= 1_050
    clock.now_ms += 70_000
    assert told.groups()["t", "g"].rates(clock.now_ms) == (0, 0)
    assert told.groups()["t", "g"].rows == 6_000


def test_bars_follow_splits_from_reader_to_reader() -> None:
    clock = Clock()
    told = Activity(clock)
    told.observe(ReaderSplits(SplitEvent.ASSIGNED, "t", "g", "r1", (A, B)))
    clock.now_ms += 10
    told.observe(ReaderSplits(SplitEvent.FINISHED, "t", "g", "r1", (A,)))
    clock.now_ms += 10
    told.observe(ReaderSplits(SplitEvent.EXPIRED, "t", "g", "r1", (B,)))
    told.observe(ReaderSplits(SplitEvent.ASSIGNED, "t", "g", "r2", (B,)))
    told.observe(ReaderSplits(SplitEvent.FENCED, "t", "g", "r1", ()))
    found = [(bar.reader_id, bar.index, (bar.end_ms or 0) - bar.begin_ms, bar.how) for bar in told.bars()]
    assert found[:2] == [("r1", 0, 10, "finished"), ("r1", 1, 20, "expired")]
    assert found[2][:2] == ("r2", 1) and found[2][3] == ""
    group = told.groups()["t", "g"]
    assert (group.finished, group.expired, group.fenced) == (1, 1, 1)
    told.observe(GroupRemoved("t", "g"))
    assert [bar.how for bar in told.bars()] == ["finished", "expired"]
    assert told.groups() == {}


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([SplitEvent.ASSIGNED, SplitEvent.FINISHED, SplitEvent.RETURNED, SplitEvent.EXPIRED]),
            st.sampled_from("ab"),
            st.integers(0, 3),
            st.integers(0, 50),
        ),
        max_size=60,
    )
)
def test_no_split_has_two_open_bars_and_none_ends_before_it_begins(
    events: list[tuple[SplitEvent, str, int, int]],
) -> None:
    clock = Clock()
    told = Activity(clock)
    for event, reader, index, later_ms in events:
        clock.now_ms += later_ms
        told.observe(ReaderSplits(event, "t", "g", reader, (("p", index),)))
    bars = list(told.bars())
    held = [bar.index for bar in bars if bar.end_ms is None]
    assert len(held) == len(set(held))
    assert all(bar.end_ms is None or bar.end_ms >= bar.begin_ms for bar in bars)
    assert len(bars) == sum(event is SplitEvent.ASSIGNED for event, *_ in events)


def test_memory_is_bounded_whatever_comes() -> None:
    told = Activity(Clock())
    for number in range(3 * MAX_BARS):
        told.observe(ReaderSplits(SplitEvent.ASSIGNED, "t", f"g{number % 700}", "r", (("p", number),)))
        told.observe(RoundDiscovered(table=f"t{number % 700}", group="g", commits=1, splits=1))
        told.observe(WatermarkPlanned(f"t{number % 700}", number))
    assert len(told.groups()) == MAX_GROUPS
    assert len(told.tables()) == kept.MAX_TABLES
    assert len(list(told.bars())) <= 2 * MAX_BARS


def test_the_document_is_thinned_and_in_order() -> None:
    assert thinned(range(5), 10) == [0, 1, 2, 3, 4]
    some = thinned(range(1000), 7)
    assert len(some) == 7 and some == sorted(set(some)) and some[-1] == 999
    clock = Clock()
    told = Activity(clock)
    told.observe(WatermarkPlanned("t", 1_600_000_000_000_000))
    for number in range(MAX_SAMPLES):
        told.observe(LagMeasured("t", "g", LAG))
        told.observe(GroupMeasured("t", "g", GAUGES))
        told.observe(RoundDiscovered(table="t", group="g", commits=number, splits=2, instant_ms=5))
        clock.now_ms += SPACING_MS
    (group,), (table,) = page_data(told)["groups"], page_data(told)["tables"]  # type: ignore[misc]
    assert len(group["samples"]) == len(table["rounds"]) == MAX_POINTS
    assert group["samples"][-1] == [clock.now_ms - SPACING_MS, 3, 2, 0, 12.5, 1_500_000_000_000]
    assert table["watermarks"] == [[Clock.now_ms, 1_600_000_000_000]]
    assert group["lag"] == {"commits": 4, "size_bytes": 700, "seconds": 12.5}


def test_reports_of_plans_without_a_group_are_not_activity_of_a_group() -> None:
    activity = Activity(Clock())
    activity.observe(SplitReported("t", "", "", SplitReport(rows=1, size_bytes=1)))
    assert activity.groups() == {}


def test_a_composite_passes_each_event_to_all_observers_in_order() -> None:
    events: list[tuple[str, Observation]] = []

    class Recording:
        def __init__(self, name: str) -> None:
            self.name = name

        def observe(self, event: Observation) -> None:
            events.append((self.name, event))

    first, second = WatermarkPlanned("t", 1), GroupRemoved("t", "g")
    composite = CompositeObserver(Recording("a"), NO_OBSERVER, Recording("b"))
    composite.observe(first)
    composite.observe(second)
    assert events == [("a", first), ("b", first), ("a", second), ("b", second)]
