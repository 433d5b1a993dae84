"""Times of new instants: later than every instant of the timeline, in its zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import TableError
from penstock.table.timeline.active import build_timeline
from penstock.table.timeline.instants import parse_instant_file
from penstock.writer.transaction.clock import MAX_AHEAD, newest_time, next_time

NOW = datetime(2026, 11, 23, 16, 5, 6, 789_999, tzinfo=UTC)
TEXT = "20261123160506789"


def test_instant_is_the_wall_clock_in_the_zone_of_the_timeline() -> None:
    assert next_time(NOW, UTC, "", "t") == TEXT
    assert next_time(NOW, ZoneInfo("Asia/Shanghai"), "", "t") == "20261124000506789"


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        (TEXT, "20261123160506790"),
        ("20261123160506999", "20261123160507000"),
        ("20261123160559999", "20261123160600000"),
        ("20261123160506788", TEXT),
    ],
)
def test_instant_is_later_than_the_newest(newest: str, expected: str) -> None:
    assert next_time(NOW, UTC, newest, "t") == expected


def test_instants_of_seconds_count_to_their_end() -> None:
    names = ("20261123160506_20261123160506500.commit", "20261123160506789.deltacommit.requested")
    parsed = [parse_instant_file(name, 2) for name in names]
    assert newest_time(build_timeline(2, [item for item in parsed if item])) == "20261123160506999"


def test_timeline_ahead_of_the_clock_is_refused() -> None:
    ahead = (NOW + MAX_AHEAD + timedelta(seconds=1)).strftime("%Y%m%d%H%M%S000")
    with pytest.raises(TableError, match=r"0:02:00.* ahead of this machine's clock.*nothing was written"):
        next_time(NOW, UTC, ahead, "t")
    with pytest.raises(TableError, match="no time"):
        next_time(NOW, UTC, "99999999999999999", "t")


@given(st.integers(0, 2_000_000_000), st.lists(st.integers(-1000, 3000), max_size=9))
def test_instants_increase_whatever_the_clock_does(start_s: int, steps_ms: list[int]) -> None:
    now, newest = datetime.fromtimestamp(start_s, UTC), ""
    for step in steps_ms:
        now += timedelta(milliseconds=step)
        text = next_time(now, UTC, newest, "t")
        assert text > newest
        newest = text
