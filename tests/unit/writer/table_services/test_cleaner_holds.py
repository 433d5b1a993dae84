"""When a reader holds the cleaner, by its position, the timeline and the bound."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.options.hold_bound import HoldBound
from penstock.table.timeline.active import Timeline, build_timeline
from penstock.table.timeline.instants import Instant, parse_instant_file
from penstock.writer.table_services.cleaner_holds import (
    CleanerHold,
    HoldState,
    ReaderKind,
    ReaderPosition,
    hold_of,
    hold_text,
    is_unbounded,
    oldest_held,
)

HOURS = [f"202601311{hour}0000000" for hour in range(5)]
"""10:00 to 14:00."""
NOW = datetime(2026, 1, 31, 15, 0, tzinfo=UTC)


def timeline(*names: str) -> Timeline:
    files = [parse_instant_file(name, 2) for name in names or [f"{hour}_{hour}.commit" for hour in HOURS]]
    return build_timeline(2, [file for file in files if file])


def reader(position: str | None, name: str = "g") -> ReaderPosition:
    return ReaderPosition(ReaderKind.GROUP, name, None if position is None else Position(InstantTime(position)))


def hold(position: str | None, bound: str = "2h", without_rows: str = "", on: Timeline | None = None) -> CleanerHold:
    def is_data(instant: Instant) -> bool:
        return instant.requested_time != without_rows

    return hold_of(on or timeline(), reader(position), HoldBound.parse(bound), is_data, NOW, UTC)


def test_reader_that_is_behind_holds_up_to_the_bound() -> None:
    mine = hold(HOURS[2], "2h")
    assert (mine.state, mine.keeps_from, mine.unread_commits, mine.unread_seconds) == ("holds", HOURS[3], 2, 7200)
    assert hold(HOURS[2], "7199s").state is HoldState.EXCEEDED
    assert hold(HOURS[2], "2 commits").state is HoldState.HOLDS
    assert hold(HOURS[2], "1 commit").state is HoldState.EXCEEDED
    assert hold(str(EARLIEST), "10h").keeps_from == HOURS[0]


def test_reader_that_has_read_everything_does_not_hold() -> None:
    for position in (HOURS[4], "20270101000000000", None):
        mine = hold(position, "1s")
        assert (mine.state, mine.keeps_from, mine.unread_commits) == ("caught up", "", 0)
        assert mine.unread_seconds is None
    assert hold(HOURS[3], "1s", without_rows=HOURS[4]).state is HoldState.CAUGHT_UP


def test_position_inside_of_an_instant_holds_that_instant() -> None:
    inside = ReaderPosition(ReaderKind.STREAM, "s", Position(InstantTime(HOURS[2]), 1))
    mine = hold_of(timeline(), inside, HoldBound(commits=9), lambda item: True, NOW, UTC)
    assert (mine.keeps_from, mine.unread_commits, mine.position) == (HOURS[2], 3, f"{HOURS[2]}+1")


def test_times_are_in_the_zone_of_the_timeline() -> None:
    east = timezone(timedelta(hours=2))
    mine = hold_of(timeline(), reader(HOURS[3]), HoldBound(commits=9), lambda item: True, NOW, east)
    assert mine.unread_seconds == 3 * 3600


def test_order_is_that_of_completion() -> None:
    slow = timeline(f"{HOURS[0]}_{HOURS[3]}.commit", f"{HOURS[1]}_{HOURS[2]}.commit")
    mine = hold(HOURS[2], "9 commits", on=slow)
    assert (mine.keeps_from, mine.unread_commits, mine.unread_seconds) == (HOURS[0], 1, 7200)


def test_oldest_position_is_of_the_readers_within_the_bound() -> None:
    positions = [HOURS[2], HOURS[1], HOURS[4], None]
    pairs = [(reader(position), hold(position, "3 commits")) for position in positions]
    assert [mine.state.value for _, mine in pairs] == ["holds", "holds", "caught up", "caught up"]
    assert oldest_held(pairs) == Position(InstantTime(HOURS[1]))
    pairs = [(reader(position), hold(position, "2 commits")) for position in positions]
    assert oldest_held(pairs) == Position(InstantTime(HOURS[2]))
    assert oldest_held([(reader(None), hold(None))]) is None


def test_lines_for_operators() -> None:
    assert hold_text(hold(HOURS[2])) == (
        f"group g holds the cleaner: 2 writes not read from {HOURS[3]} on, the oldest for 7200 s; at most 7200s"
    )
    assert hold_text(hold(HOURS[2], "1 commits")) == (
        f"group g will lose its range: 2 writes not read from {HOURS[3]} on, the oldest for 7200 s, more than 1 commits"
    )
    assert hold_text(hold(None)) == "group g has read everything"


@pytest.mark.parametrize("text", ["", "0h", "0 commits", "48", "12345678 commits", "9" * 300, "2 weeks ago", "-1h"])
def test_bound_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="hold_at_most"):
        HoldBound.parse(text)


def test_bounds() -> None:
    assert HoldBound.parse("48h") == HoldBound(seconds=172_800) and HoldBound.parse("PT1M").text == "60s"
    assert HoldBound.parse("200 commits") == HoldBound(commits=200) == HoldBound.parse("200commits")


def test_bound_holds_for_a_reader_that_has_not_finished_anything() -> None:
    """All known writes are unread."""
    for bound in ("5 commits", "5h"):
        mine = hold(str(EARLIEST), bound)
        assert (mine.state, mine.unread_commits, mine.unread_seconds) == ("holds", 5, 5 * 3600)
        assert oldest_held([(reader(str(EARLIEST)), mine)]) == EARLIEST
        assert not is_unbounded(mine)
    for bound in ("4 commits", "17999s"):
        mine = hold(str(EARLIEST), bound)
        assert mine.state is HoldState.EXCEEDED and oldest_held([(reader(str(EARLIEST)), mine)]) is None


def test_reader_inside_of_a_snapshot_of_an_unknown_position_holds_without_a_bound() -> None:
    """It is at the order key of EARLIEST, with the number of finished splits."""
    for splits in (0, 5):
        inside = ReaderPosition(ReaderKind.GROUP, "g", Position(EARLIEST.order_key, splits))
        for bound in (HoldBound(seconds=1), HoldBound(commits=1)):
            mine = hold_of(timeline(), inside, bound, lambda item: True, NOW, UTC)
            assert (mine.state, mine.unread_commits, mine.unread_seconds) == ("holds", 5, 5 * 3600)
            assert oldest_held([(inside, mine)]) == inside.position and is_unbounded(mine)
            assert "reads a snapshot whose position its server does not tell" in hold_text(mine)


def test_unread_archived_writes_count() -> None:
    archived = {InstantTime(f"202601310{hour}0000000"): InstantTime(f"202601310{hour}3000000") for hour in range(7, 10)}

    def at(position: str, bound: HoldBound) -> CleanerHold:
        return hold_of(timeline(), reader(position), bound, lambda item: True, NOW, UTC, archived)

    mine = at("20260131073000000", HoldBound(commits=7))
    assert (mine.state, mine.unread_commits, mine.keeps_from) == ("holds", 7, "20260131080000000")
    assert mine.unread_seconds == 6.5 * 3600
    assert at("20260131073000000", HoldBound(commits=6)).state is HoldState.EXCEEDED
    assert at("20260131073000000", HoldBound(seconds=6 * 3600)).state is HoldState.EXCEEDED
    assert at("20260131093000000", HoldBound(commits=5)).unread_commits == 5


def test_age_by_the_requested_time_or_unknown() -> None:
    """A completion time that is no time does not count as now."""
    odd = timeline(f"{HOURS[3]}_99999999999999999.commit")
    assert hold(HOURS[3], "2h", on=odd).unread_seconds == 7200
    assert hold(HOURS[3], "7199s", on=odd).state is HoldState.EXCEEDED
    unknown = hold(HOURS[3], "1s", on=timeline("30_99999999999999999.commit"))
    assert (unknown.state, unknown.unread_seconds) == ("holds", None)
    assert hold_text(unknown).endswith("and the time of these writes is unknown")
