"""The watermark: it never decreases, stays below known later rows, and allows the configured lateness."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.streams.watermark import next_watermark, span_of, watermark_at_end
from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.splits import EventTimeBounds, NoEventTimes, Split, UnknownBounds
from penstock.proto.model.streams import END_OF_TIME_US, EventTimeRule, StreamScope, Watermark, WatermarkFallback

BOUNDS = st.tuples(st.integers(-1000, 1000), st.integers(0, 300)).map(lambda t: EventTimeBounds(t[0], t[0] + t[1]))
ANY_BOUNDS = st.one_of(BOUNDS, st.just(NoEventTimes()), st.just(UnknownBounds()))
INSTANT = InstantTime("19700101000000001")


def split(bounds: EventTimeBounds | NoEventTimes | UnknownBounds, number: int = 0) -> Split:
    return Split(
        split_id=str(number),
        partition="",
        partition_values=(),
        file_group="g",
        order_key=INSTANT,
        base=None,
        event_time=bounds,
    )


def rule(fallback: WatermarkFallback, lateness_us: int = 10) -> EventTimeRule:
    return EventTimeRule(max_out_of_orderness_us=lateness_us, fallback=fallback)


def span_of_bounds(
    bounds: list[EventTimeBounds | NoEventTimes | UnknownBounds], fallback: WatermarkFallback
) -> EventTimeSpan:
    return span_of(map(split, bounds), rule(fallback), lambda instant: 1000)


@given(
    commits=st.lists(st.lists(ANY_BOUNDS, max_size=3), min_size=1, max_size=8),
    known=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    fallback=st.sampled_from([WatermarkFallback.HOLD, WatermarkFallback.COMMIT_TIME]),
    lateness_us=st.integers(0, 200),
)
def test_watermark_never_decreases_and_never_passes_known_later_rows(
    commits: list[list[EventTimeBounds | NoEventTimes | UnknownBounds]],
    known: list[int],
    fallback: WatermarkFallback,
    lateness_us: int,
) -> None:
    message = rule(fallback, lateness_us)
    before, observed, highs = Watermark(), 0, [-(10**9)]
    for place, commit in enumerate(commits):
        observed = max(observed, min(place + 1 + known[place], len(commits)))
        ahead = [bounds for later in commits[place + 1 : observed] for bounds in later]
        planned, coming = (span_of(map(split, bounds), message, lambda instant: 500) for bounds in (commit, ahead))
        after = next_watermark(before, planned, coming, message)
        highs += [bounds.max_us for bounds in (*commit, *ahead) if isinstance(bounds, EventTimeBounds)]
        assert before.at_us is None or (after.at_us is not None and after.at_us >= before.at_us)
        moved = after.at_us is not None and after.at_us != before.at_us
        if moved:
            assert all(after.at_us < bounds.min_us for bounds in ahead if isinstance(bounds, EventTimeBounds))
            assert fallback is WatermarkFallback.COMMIT_TIME or UnknownBounds() not in ahead
            if fallback is WatermarkFallback.HOLD:
                assert after.at_us <= max(highs) - lateness_us
        if not ahead and fallback is WatermarkFallback.HOLD and max(highs) > -(10**9):
            expected = max(highs) - lateness_us
            assert after.at_us == (expected if before.at_us is None else max(before.at_us, expected))
        before = after


def test_watermark_is_the_lateness_below_the_highest_bound() -> None:
    planned = span_of_bounds([EventTimeBounds(5, 100), EventTimeBounds(50, 90)], WatermarkFallback.HOLD)
    assert next_watermark(Watermark(), planned, EventTimeSpan(), rule(WatermarkFallback.HOLD)) == Watermark(90, 100)


def test_known_later_rows_limit_the_watermark_and_raise_it_as_long_as_they_are_known() -> None:
    planned = span_of_bounds([EventTimeBounds(5, 100)], WatermarkFallback.HOLD)
    coming = span_of_bounds([EventTimeBounds(60, 400)], WatermarkFallback.HOLD)
    message = rule(WatermarkFallback.HOLD)
    after = next_watermark(Watermark(), planned, coming, message)
    assert after == Watermark(59, 100)
    assert next_watermark(after, coming, EventTimeSpan(), message) == Watermark(390, 400)
    assert next_watermark(after, EventTimeSpan(), EventTimeSpan(), message) == Watermark(90, 100), "they are hidden"
    assert next_watermark(Watermark(70, 80), planned, coming, message) == Watermark(70, 100), "never back"


def test_unknown_bounds_by_fallback() -> None:
    planned = span_of_bounds([EventTimeBounds(5, 100)], WatermarkFallback.HOLD)
    held = span_of_bounds([UnknownBounds()], WatermarkFallback.HOLD)
    message = rule(WatermarkFallback.HOLD)
    assert held.is_unbounded
    assert next_watermark(Watermark(3, 50), planned, held, message) == Watermark(3, 100)
    assert next_watermark(Watermark(), held, EventTimeSpan(), message) == Watermark()
    assert span_of_bounds([UnknownBounds()], WatermarkFallback.COMMIT_TIME) == EventTimeSpan(990, 1000)
    with pytest.raises(InvariantViolation):
        span_of_bounds([UnknownBounds()], WatermarkFallback.SCAN)
    with pytest.raises(ConfigurationError, match="timelineTimezone"):
        span_of([split(UnknownBounds())], rule(WatermarkFallback.COMMIT_TIME), lambda instant: None)


def test_splits_without_event_times_do_not_affect_the_watermark() -> None:
    planned = span_of_bounds([NoEventTimes()], WatermarkFallback.HOLD)
    assert planned == EventTimeSpan()
    assert next_watermark(Watermark(7, 9), planned, EventTimeSpan(), rule(WatermarkFallback.HOLD)) == Watermark(7, 9)


@pytest.mark.parametrize(
    ("bounds", "end_us", "expected"),
    [
        (Watermark(5, 15), None, Watermark(END_OF_TIME_US, 15)),
        (Watermark(5, 15), 30, Watermark(45, 15)),
        (Watermark(5, 15), -20, Watermark(5, 15)),
        (Watermark(), 30, Watermark()),
        (Watermark(), None, Watermark(END_OF_TIME_US, None)),
    ],
)
def test_watermark_at_the_end_of_a_stream(bounds: Watermark, end_us: int | None, expected: Watermark) -> None:
    request = PlanRequest(table="t", query=Incremental(), event_time="ts")
    scope = StreamScope(request=request, rule=rule(WatermarkFallback.HOLD), end_watermark_us=end_us)
    assert watermark_at_end(bounds, scope) == expected
    plain = StreamScope(request=request, end_watermark_us=end_us)
    assert watermark_at_end(bounds, plain) == bounds


def test_watermark_is_an_event_time_that_a_column_can_hold() -> None:
    lowest, highest = -(2**63), 2**63 - 1
    rule = EventTimeRule(max_out_of_orderness_us=highest)
    assert next_watermark(Watermark(), EventTimeSpan(-2, -2), EventTimeSpan(), rule) == Watermark(None, -2)
    assert next_watermark(Watermark(7), EventTimeSpan(-2, -2), EventTimeSpan(), rule) == Watermark(7, -2)
    assert next_watermark(Watermark(), EventTimeSpan(-1, -1), EventTimeSpan(), rule) == Watermark(lowest, -1)
    at_once = EventTimeRule(max_out_of_orderness_us=0)
    assert next_watermark(Watermark(), EventTimeSpan(0, 0), EventTimeSpan(lowest, 5), at_once) == Watermark(None, 0)
    assert next_watermark(Watermark(), EventTimeSpan(0, 0), EventTimeSpan(lowest + 1, 5), at_once) == Watermark(
        lowest, 0
    )
    scope = StreamScope(request=PlanRequest(table="t", query=Incremental()), rule=at_once, end_watermark_us=9)
    assert watermark_at_end(Watermark(0, highest - 8), scope).at_us == highest
    assert watermark_at_end(Watermark(0, highest - 9), scope).at_us == highest
    assert watermark_at_end(Watermark(0, highest - 10), scope).at_us == highest - 1
