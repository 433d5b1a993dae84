"""Samples and bars of groups for the status page: bounded, with a manual clock."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.enumerator.catalog_events import TableRemoved
from penstock.enumerator.groups.activity import FULL, LEAST, MAX_BARS, MAX_SAMPLES, SPACING_MS, Activity
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
    TableChecked,
    WatermarkPlanned,
)
from penstock.enumerator.server.http.page_data import MAX_POINTS, page_data, thinned
from penstock.proto.model.groups import GroupAlignment, GroupLag
from penstock.proto.model.reports import SplitReport


class Clock:
    """A manual clock in milliseconds."""

    now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


GAUGES = GroupGauges(
    pending_splits=3, assigned_splits=2, finished_splits=5, issued_instant_s=1.5e9, watermark_us=1_499_000_000_000_999
)
LAG = GroupLag(commits=4, size_bytes=700, seconds=12.5)
A = ("plan", 0)
B = ("plan", 1)


def test_samples_are_spaced_and_the_oldest_are_dropped() -> None:
    clock = Clock()
    activity = Activity(clock)
    for _ in range(2 * MAX_SAMPLES + 3):
        activity.observe(GroupMeasured("t", "g", GAUGES))
        activity.observe(GroupMeasured("t", "g", GAUGES))
        clock.now_ms += SPACING_MS
    result = activity.samples("t", "g")
    assert len(result) == MAX_SAMPLES
    assert {later.at_ms - sooner.at_ms for sooner, later in itertools.pairwise(result)} == {SPACING_MS}
    assert result[-1].at_ms == clock.now_ms - SPACING_MS
    clock.now_ms -= 3_600_000  # the clock was set back
    activity.observe(GroupMeasured("t", "g", GAUGES))
    assert activity.samples("t", "g")[-1].at_ms == clock.now_ms


def test_sample_has_the_gauges_of_the_group() -> None:
    activity = Activity(Clock())
    activity.observe(LagMeasured("t", "g", LAG))
    activity.observe(ReaderSplits(SplitEvent.ASSIGNED, "t", "g", "r", (A, B)))
    activity.observe(ReaderSplits(SplitEvent.FINISHED, "t", "g", "r", (A,)))
    activity.observe(SplitReported("t", "g", "r", SplitReport(rows=70, size_bytes=9)))
    activity.observe(GroupMeasured("t", "g", GAUGES))
    (sample,) = activity.samples("t", "g")
    assert (sample.pending, sample.held, sample.finished, sample.rows) == (3, 2, 1, 70)
    assert (sample.lag_seconds, sample.lag_commits, sample.issued_ms) == (12.5, 4, 1_500_000_000_000)
    assert sample.watermark_ms == 1_499_000_000_000


def test_rates_cover_the_last_minute() -> None:
    clock = Clock()
    activity = Activity(clock)
    activity.observe(GroupMeasured("t", "g", GAUGES))
    clock.now_ms += 60_000
    for _ in range(60):
        activity.observe(SplitReported("t", "g", "r", SplitReport(rows=100, size_bytes=1_000)))
        clock.now_ms += 1_000
    rows, size_bytes = activity.groups()["t", "g"].rates(clock.now_ms)
    assert 85 <= rows <= 105
    assert 850 <= size_bytes <= 1_050
    clock.now_ms += 70_000
    assert activity.groups()["t", "g"].rates(clock.now_ms) == (0, 0)
    assert activity.groups()["t", "g"].rows == 6_000


def test_bars_follow_splits_from_reader_to_reader() -> None:
    clock = Clock()
    activity = Activity(clock)
    activity.observe(ReaderSplits(SplitEvent.ASSIGNED, "t", "g", "r1", (A, B)))
    clock.now_ms += 10
    activity.observe(ReaderSplits(SplitEvent.FINISHED, "t", "g", "r1", (A,)))
    clock.now_ms += 10
    activity.observe(ReaderSplits(SplitEvent.EXPIRED, "t", "g", "r1", (B,)))
    activity.observe(ReaderSplits(SplitEvent.ASSIGNED, "t", "g", "r2", (B,)))
    activity.observe(ReaderSplits(SplitEvent.FENCED, "t", "g", "r1", ()))
    result = [(bar.reader_id, bar.index, (bar.end_ms or 0) - bar.begin_ms, bar.how) for bar in activity.bars()]
    assert result[:2] == [("r1", 0, 10, "finished"), ("r1", 1, 20, "expired")]
    assert result[2][:2] == ("r2", 1) and result[2][3] == ""
    group = activity.groups()["t", "g"]
    assert (group.finished, group.expired, group.fenced) == (1, 1, 1)
    activity.observe(GroupRemoved("t", "g"))
    assert [bar.how for bar in activity.bars()] == ["finished", "expired"]
    assert activity.groups() == {}


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
def test_bars_of_a_split_never_overlap_and_never_end_before_they_begin(
    events: list[tuple[SplitEvent, str, int, int]],
) -> None:
    clock = Clock()
    activity = Activity(clock)
    for event, reader, index, later_ms in events:
        clock.now_ms += later_ms
        activity.observe(ReaderSplits(event, "t", "g", reader, (("p", index),)))
    bars = list(activity.bars())
    held = [bar.index for bar in bars if bar.end_ms is None]
    assert len(held) == len(set(held))
    assert all(bar.end_ms is None or bar.end_ms >= bar.begin_ms for bar in bars)
    assert len(bars) == sum(event is SplitEvent.ASSIGNED for event, *_ in events)


def test_activity_is_bounded_for_any_events() -> None:
    activity = Activity(Clock(), max_shown=150)
    for number in range(3 * MAX_BARS):
        activity.observe(ReaderSplits(SplitEvent.ASSIGNED, "t", f"g{number % 700}", "r", (("p", number),)))
        activity.observe(RoundDiscovered(table=f"t{number % 700}", group="g", commits=1, splits=1))
        activity.observe(WatermarkPlanned(f"t{number % 700}", number))
    assert len(activity.groups()) == 150
    assert len(activity.tables()) == 150
    assert len(list(activity.bars())) <= 2 * MAX_BARS


def test_more_groups_have_shorter_histories_and_no_more_samples_in_total() -> None:
    clock = Clock()
    activity = Activity(clock)

    def sampled(groups: int, times: int) -> tuple[int, int]:
        """The numbers of samples of the first and of the last group."""
        for _ in range(times):
            clock.now_ms += SPACING_MS
            for number in range(groups):
                activity.observe(GroupMeasured(table="t", group=f"g{number}", gauges=GAUGES))
        return len(activity.samples("t", "g0")), len(activity.samples("t", f"g{groups - 1}"))

    assert sampled(1, MAX_SAMPLES + 5) == (MAX_SAMPLES, MAX_SAMPLES)
    assert sampled(20 * FULL, LEAST) == (MAX_SAMPLES - LEAST, LEAST)
    assert sampled(20 * FULL, LEAST) == (MAX_SAMPLES - 2 * LEAST, MAX_SAMPLES // 20)


def test_removed_table_is_no_longer_shown() -> None:
    activity = Activity(Clock())
    activity.observe(TableChecked("t", "STORAGE"))
    activity.observe(RoundDiscovered(table="t", group="g", commits=1, splits=1))
    activity.observe(TableRemoved("t"))
    assert (activity.health(), activity.tables()) == ({}, {})


def test_document_of_the_page_is_thinned_and_in_order() -> None:
    assert thinned(range(5), 10) == [0, 1, 2, 3, 4]
    some = thinned(range(1000), 7)
    assert len(some) == 7 and some == sorted(set(some)) and some[-1] == 999
    clock = Clock()
    activity = Activity(clock)
    activity.observe(WatermarkPlanned("t", 1_600_000_000_000_000))
    for number in range(MAX_SAMPLES):
        activity.observe(LagMeasured("t", "g", LAG))
        activity.observe(GroupMeasured("t", "g", GAUGES))
        activity.observe(RoundDiscovered(table="t", group="g", commits=number, splits=2, instant_ms=5))
        clock.now_ms += SPACING_MS
    (group,), (table,) = page_data(activity)["groups"], page_data(activity)["tables"]  # type: ignore[misc]
    assert len(group["samples"]) == len(table["rounds"]) == MAX_POINTS
    assert group["samples"][-1] == [clock.now_ms - SPACING_MS, 3, 2, 0, 12.5, 1_500_000_000_000, 1_499_000_000_000]
    assert table["watermarks"] == [[Clock.now_ms, 1_600_000_000_000]]
    assert group["lag"] == {"commits": 4, "size_bytes": 700, "seconds": 12.5}
    assert group["alignment"] is None
    for ceiling_us, ceiling_ms in ((5_000, 5), (None, None)):
        aligned = GroupAlignment("s", ceiling_us, held=True)
        activity.observe(GroupMeasured("t", "g", replace(GAUGES, alignment=aligned)))
        (group,) = page_data(activity)["groups"]  # type: ignore[misc]
        assert group["alignment"] == {"set": "s", "ceiling_ms": ceiling_ms, "held": True}


def test_reports_without_a_group_are_not_activity() -> None:
    activity = Activity(Clock())
    activity.observe(SplitReported("t", "", "", SplitReport(rows=1, size_bytes=1)))
    assert activity.groups() == {}


def test_composite_observer_passes_each_event_to_all_in_order() -> None:
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
