"""Texts of times: their meaning, and conversions that agree with the calendar."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.requests.times import TimelineZone, range_bound, requested_time, utc_of
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Latest
from penstock.proto.options.types import Time
from penstock.table.timeline.zones import named_zone

BERLIN = ZoneInfo("Europe/Berlin")


def utc(_text: str) -> tzinfo:
    return UTC


def berlin(_text: str) -> tzinfo:
    return BERLIN


def no_zone(text: str) -> tzinfo:
    raise AssertionError(f"{text} needs no zone")


@pytest.mark.parametrize("text", ["20260131235959", "20260131235959123", "00000000000000", "99999999999999999"])
def test_whole_instants_are_not_converted(text: str) -> None:
    assert range_bound("after", text, no_zone) == Position(InstantTime(text))
    assert requested_time("asOf", text, no_zone) == text


@pytest.mark.parametrize("text", ["earliest", "0", "000", "0" * 13, " earliest "])
def test_earliest_in_all_its_texts(text: str) -> None:
    assert range_bound("after", text, no_zone) == EARLIEST


def test_latest_is_a_bound() -> None:
    assert range_bound("upto", "latest", no_zone) == Latest()


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("2026-01-31", "20260131000000000"),
        ("2026-01-31T23:59:59", "20260131235959999"),
        ("2026-01-31 23:59:59", "20260131235959999"),
        ("2026-01-31T23:59:59.5", "20260131235959500"),
        ("2026-01-31T23:59:59.123999999", "20260131235959123"),
        ("2026-01-31T23:59:59,123", "20260131235959123"),
        ("2026-01-31T23:59:59Z", "20260131235959999"),
        ("2026-01-31t23:59:59.000z", "20260131235959000"),
        ("2026-01-31T23:59:59.000+01:00", "20260131225959000"),
        ("2026-01-31T23:59:59.000-0130", "20260201012959000"),
    ],
)
def test_iso_on_a_utc_timeline(text: str, digits: str) -> None:
    assert range_bound("upto", text, utc) == Position(InstantTime(digits))
    assert range_bound("after", text, utc) == Position(InstantTime(digits))
    assert requested_time("asOf", text, utc) == digits


def test_times_are_converted_to_the_zone_of_the_timeline() -> None:
    assert requested_time("asOf", "2026-07-01T12:00:00.000Z", berlin) == "20260701140000000"
    assert requested_time("asOf", "2026-01-01T12:00:00.000Z", berlin) == "20260101130000000"
    assert requested_time("asOf", "2026-07-01T12:00:00.000", berlin) == "20260701120000000"


def test_only_as_of_accepts_epochs() -> None:
    assert requested_time("asOf", "1700000000", utc) == "20231114221320000"
    assert requested_time("asOf", "1700000000123", berlin) == "20231114231320123"
    for text in ("1700000000", "1700000000123"):
        with pytest.raises(ConfigurationError, match="only asOf accepts seconds or milliseconds"):
            range_bound("after", text, utc)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "Latest",
        "2026",
        "202601312359",
        "2026013123595",
        "202601312359591",
        "2026-01-31T",
        "2026-01-31T23:59",
        "2026-01-31Z",
        "2026-13-01",
        "2026-02-30",
        "2026-01-31T24:00:00",
        "2026-01-31T23:59:60",
        "2026-01-31T23:59:59+25:00",
        "0000-01-01",
        "٢٠٢٦٠١٣١٢٣٥٩٥٩",
        "2026-01-31\n",
        "-1",
    ],
)
def test_bad_times(text: str) -> None:
    stripped_is_fine = text.strip() == "2026-01-31"
    if stripped_is_fine:
        assert range_bound("after", text, utc) == Position(InstantTime("20260131000000000"))
        return
    with pytest.raises(ConfigurationError):
        range_bound("after", text, utc)


@pytest.mark.parametrize("text", ["earliest", "latest", "0", "000"])
def test_as_of_refuses_bounds_of_a_range(text: str) -> None:
    with pytest.raises(ConfigurationError, match="option asOf"):
        requested_time("asOf", text, utc)


def test_times_at_the_end_of_the_calendar_are_refused() -> None:
    for text in ("0001-01-01T00:00:00.000+10:00", "9999-12-31T23:59:59.000-10:00"):
        with pytest.raises(ConfigurationError, match="not a calendar time"):
            range_bound("after", text, utc)


class TestTimelineZone:
    """The zone of a timeline."""

    def test_utc_needs_no_option(self) -> None:
        assert TimelineZone("t", "UTC").required("x") is UTC
        assert TimelineZone("t", "utc", "Europe/Berlin").required("x") is UTC

    def test_local_takes_the_option(self) -> None:
        assert TimelineZone("t", "LOCAL", "Europe/Berlin").required("x") == BERLIN

    def test_local_without_the_option_names_it(self) -> None:
        with pytest.raises(ConfigurationError, match=r"'2026-01-31' for table orders.*timelineTimezone"):
            TimelineZone("orders", "LOCAL").required("2026-01-31")
        assert TimelineZone("orders", "LOCAL").known() is None

    @pytest.mark.parametrize("name", ["Mars/Olympus", "", "../UTC", "/etc/passwd", "Europe", "a\x00b", "x" * 5000])
    def test_unknown_zone_is_refused(self, name: str) -> None:
        with pytest.raises(ConfigurationError, match="timelineTimezone"):
            named_zone(name)


class TestUtcOf:
    """Conversion from the wall clock of a timeline to UTC."""

    def test_seconds_are_padded_as_hudi_does(self) -> None:
        assert utc_of("20260131235959", UTC) == datetime(2026, 1, 31, 23, 59, 59, 999000, UTC)

    def test_utc_of_a_local_timeline(self) -> None:
        assert utc_of("20260701140000000", BERLIN) == datetime(2026, 7, 1, 12, tzinfo=UTC)

    @pytest.mark.parametrize("text", ["00000000000000", "001", "20261301000000000", "2" * 24])
    def test_digits_outside_the_calendar_have_no_utc_time(self, text: str) -> None:
        assert utc_of(text, UTC) is None


milliseconds = st.integers(0, 120 * 365 * 86_400_000).map(
    lambda value: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
)


@given(milliseconds, st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]))
def test_iso_and_back_is_the_same_moment(moment: datetime, zone_name: str) -> None:
    zone = named_zone(zone_name)
    digits = requested_time("asOf", moment.isoformat(timespec="milliseconds"), lambda _: zone)
    back = utc_of(digits, zone)
    assert back is not None
    ambiguous = moment.astimezone(zone).fold == 1  # the hour that a wall clock repeats is ambiguous
    assert back == moment or (ambiguous and abs(back - moment) == timedelta(hours=1))


@given(milliseconds, milliseconds)
def test_order_of_moments_is_order_of_keys(first: datetime, second: datetime) -> None:
    one, two = (range_bound("after", moment.isoformat(timespec="milliseconds"), utc) for moment in (first, second))
    assert isinstance(one, Position)
    assert isinstance(two, Position)
    assert (one < two) == (first < second)


class TestPythonTimes:
    @pytest.mark.parametrize(
        ("value", "digits"),
        [
            (datetime(2026, 1, 31, 23, 59, 59), "20260131235959000"),  # noqa: DTZ001
            (datetime(2026, 1, 31, 23, 59, 59, 123_999), "20260131235959123"),  # noqa: DTZ001
            (datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC), "20260201005959000"),
            (datetime(2026, 7, 31, 23, 59, 59, tzinfo=UTC), "20260801015959000"),
            (datetime(2026, 1, 31, 0, tzinfo=timezone(timedelta(hours=1))), "20260131000000000"),
            (datetime(2026, 1, 31, 0, tzinfo=timezone(timedelta(seconds=3600.5))), "20260130235959500"),
            (date(2026, 1, 31), "20260131235959999"),
            (date(9999, 12, 31), "99991231235959999"),
        ],
    )
    def test_in_the_zone_of_the_timeline(self, value: date, digits: str) -> None:
        text = Time().parse("after", value)
        assert range_bound("after", text, berlin) == Position(InstantTime(digits))
        assert requested_time("asOf", text, berlin) == digits

    def test_naive_times_and_days_need_the_zone_of_a_local_timeline(self) -> None:
        for value in (date(2026, 1, 31), datetime(2026, 1, 31), datetime(2026, 1, 31, tzinfo=UTC)):  # noqa: DTZ001
            with pytest.raises(ConfigurationError, match="timelineTimezone"):
                range_bound("upto", Time().parse("upto", value), TimelineZone("t", "LOCAL").required)

    @pytest.mark.parametrize("value", [7, None, 1.5, ["2026-01-31"], timedelta(1)])
    def test_other_values_are_refused(self, value: object) -> None:
        with pytest.raises(ConfigurationError, match="option after: got"):
            Time().parse("after", value)

    def test_time_before_the_calendar_is_refused(self) -> None:
        value = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))
        with pytest.raises(ConfigurationError, match="option after: got"):
            Time().parse("after", value)

    @given(
        st.lists(st.dates(date(2026, 3, 27), date(2026, 4, 2)), min_size=2, max_size=5, unique=True).map(sorted),
        st.lists(st.integers(0, 8 * 86_400_000), min_size=1, max_size=30),
        st.sampled_from(["UTC", "Europe/Berlin"]),  # the clock in Berlin changes on 2026-03-29
    )
    def test_ranges_cut_at_days_have_each_instant_once(
        self, days: list[date], offsets: list[int], zone_name: str
    ) -> None:
        start = datetime(2026, 3, 26, 12, tzinfo=UTC)
        zone = named_zone(zone_name)
        walls = [(start + timedelta(milliseconds=offset)).astimezone(zone) for offset in offsets]
        instants = [Position(InstantTime(wall.strftime("%Y%m%d%H%M%S%f")[:17])) for wall in walls]
        bounds = [range_bound("upto", Time().parse("upto", day), lambda _: zone) for day in days]
        ranges = list(itertools.pairwise(bounds))
        for instant, wall in zip(instants, walls, strict=True):
            times = sum(after < instant <= upto for after, upto in ranges)  # type: ignore[operator]
            assert times == (days[0] < wall.date() <= days[-1])
