"""Pages of a timeline: bounds, instants with one requested time; together they are the timeline."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.enumerator.tables.timeline_pages import timeline_page
from penstock.proto.model.reports import TimelineInstant
from penstock.table.timeline.active import Timeline, build_timeline
from penstock.table.timeline.instants import parse_instant_file

NAMES = (
    "101_150.deltacommit",
    "102.compaction.inflight",
    "102.rollback.requested",
    "102_103.clean",
    "104.deltacommit.requested",
    "105_104.commit",
)


def timeline_of(names: tuple[str, ...], layout: int = 2) -> Timeline:
    parsed = (parse_instant_file(name, layout) for name in names)
    return build_timeline(layout, [item for item in parsed if item is not None])


TIMELINE = timeline_of(NAMES)


def in_pages(timeline: Timeline, size: int, as_of: str = "") -> list[TimelineInstant]:
    """All instants, in pages of this size."""
    instants: list[TimelineInstant] = []
    more = True
    while more:
        after = instants[-1].requested_time if instants else ""
        page = timeline_page(timeline, "UTC", after, as_of, size)
        assert page.instants or not page.more, "each page with more after it moves on"
        instants += page.instants
        more = page.more
    return instants


def test_page_has_the_instants_of_the_timeline_in_their_latest_states() -> None:
    page = timeline_page(TIMELINE, "LOCAL", "", "", 0)
    assert not page.more and page.timeline_timezone == "LOCAL"
    assert [(one.requested_time, one.completion_time, one.action, one.state) for one in page.instants] == [
        ("101", "150", "deltacommit", "completed"),
        ("102", "103", "clean", "completed"),
        ("102", None, "compaction", "inflight"),
        ("102", None, "rollback", "requested"),
        ("104", None, "deltacommit", "requested"),
        ("105", "104", "commit", "completed"),
    ]
    keys = [TIMELINE.order_key(one) if one.is_completed else None for one in TIMELINE.instants]
    assert [one.order_key for one in page.instants] == keys


def test_order_key_on_layout_1_is_the_requested_time() -> None:
    (done, pending) = timeline_page(timeline_of(("001.commit", "002.inflight"), 1), "UTC", "", "", 0).instants
    assert (done.order_key, done.completion_time, pending.order_key) == ("001", None, None)


@pytest.mark.parametrize(
    ("after", "as_of", "max_instants", "expected", "more"),
    [
        ("", "", 1, 1, True),
        ("", "", 3, 1, True),  # the instants of 102 are in one page
        ("", "", 4, 4, True),
        ("", "", 5, 5, True),
        ("", "", 6, 6, False),
        ("101", "", 1, 3, True),  # more than the maximum: one requested time
        ("101", "", 3, 3, True),
        ("101", "102", 1, 3, False),
        ("102", "", 0, 2, False),
        ("105", "", 1, 0, False),
        ("", "100", 0, 0, False),
        ("", "103", 0, 4, False),
        ("103", "102", 0, 0, False),
        ("1015", "", 1, 3, True),  # compared as text, as Hudi does
    ],
)
def test_page_is_within_its_bounds(after: str, as_of: str, max_instants: int, expected: int, more: bool) -> None:
    page = timeline_page(TIMELINE, "UTC", after, as_of, max_instants)
    assert (len(page.instants), page.more) == (expected, more)
    assert all(one.requested_time > after and (not as_of or one.requested_time <= as_of) for one in page.instants)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["clean", "commit", "rollback", "savepoint"])), max_size=30),
    st.integers(1, 12),
    st.sampled_from(["", "003", "007"]),
)
def test_pages_together_are_the_timeline(drawn: list[tuple[int, str]], size: int, as_of: str) -> None:
    timeline = timeline_of(tuple(f"{time:03d}.{action}" for time, action in sorted(set(drawn))), 1)
    expected = [one.file_name for one in timeline.instants if not as_of or one.requested_time <= as_of]
    assert [one.file for one in in_pages(timeline, size, as_of)] == expected
