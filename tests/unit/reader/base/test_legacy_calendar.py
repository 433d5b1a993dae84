"""Dates and timestamps of the legacy calendar: the arithmetic, by facts and against a slow oracle of another method."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.reader.base.legacy_calendar import CalendarRebase, rebased_days, rebased_instants
from penstock.reader.base.legacy_zones import UnknownZone, zone_offsets
from penstock.table.parquet.legacy_calendar import LegacyCalendar, legacy_calendar, widened_bounds

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
"""Local times are written as if they were UTC."""

DAY = datetime.timedelta(days=1)
SWITCH_DAY = -141427
MICROS = 10**6
DAY_US = 86_400 * MICROS
FIRST_DAY = -719164
"""0001-01-01 of the hybrid calendar."""

VERSION = b"org.apache.spark.version"
DATETIME = b"org.apache.spark.legacyDateTime"
INT96 = b"org.apache.spark.legacyINT96"
ZONE = b"org.apache.spark.timeZone"


def julian_date(day: int) -> datetime.date:
    """The Gregorian date of the same name as the Julian one on this day, by the formula from Julian day numbers."""
    four = 4 * (day + 2440588 + 1401) + 3
    rest = 5 * (four % 1461 // 4) + 2
    month = (rest // 153 + 2) % 12 + 1
    year = four // 1461 - 4716 + (14 - month) // 12
    return datetime.date(year, month, 1) + rest % 153 // 5 * DAY


def slow_day(day: int) -> int:
    return (julian_date(day) - EPOCH.date()).days if day < SWITCH_DAY else day


def berlin(local: datetime.datetime) -> datetime.timedelta:
    """What `java.time` takes for the offset; in the gap of 1893, that before it."""
    mean = local < datetime.datetime(1893, 4, 1, 0, 6, 32, tzinfo=datetime.UTC)
    return datetime.timedelta(minutes=53, seconds=28) if mean else datetime.timedelta(hours=1)


def new_york(local: datetime.datetime) -> datetime.timedelta:
    """In the overlap of 1883, the later one."""
    mean = local < datetime.datetime(1883, 11, 18, 12, tzinfo=datetime.UTC)
    return -datetime.timedelta(hours=4, minutes=56, seconds=2) if mean else -datetime.timedelta(hours=5)


ZONES = {
    "UTC": (0, lambda _local: datetime.timedelta()),
    "Europe/Berlin": (1, berlin),
    "America/New_York": (-5, new_york),
    "GMT+03:00": (3, lambda _local: datetime.timedelta(hours=3)),
}


def slow_instant(micros: int, zone: str) -> int:
    hours, offset = ZONES[zone]
    text = micros + hours * 3600 * MICROS
    day, time = divmod(text, DAY_US)
    local = EPOCH + datetime.timedelta(days=slow_day(day), microseconds=time)
    return (local - offset(local) - EPOCH) // datetime.timedelta(microseconds=1)


def one_day(day: int) -> int:
    return int(rebased_days(np.array([day], np.int32))[0])


def one_instant(micros: int, zone: str) -> int:
    return int(rebased_instants(np.array([micros]), MICROS, zone_offsets(zone))[0])


@pytest.mark.parametrize(
    ("stored", "expected", "what"),
    [
        (-719164, -719162, "0001-01-01"),
        (-719165, -719163, "0000-12-31, the year before"),
        (-171596, -171605, "1500-02-29, which the Gregorian calendar lacks: March 1"),
        (-171597, -171606, "1500-02-28"),
        (-171595, -171605, "1500-03-01"),
        (-141428, -141438, "1582-10-04, the last Julian day"),
        (-141427, -141427, "1582-10-15, the next day"),
        (0, 0, "1970-01-01"),
        (-(2**31), -(2**31) + 44084, "the first of all, by Spark 3.5.8"),
    ],
)
def test_days(stored: int, expected: int, what: str) -> None:
    assert one_day(stored) == expected, what


@pytest.mark.parametrize(
    ("zone", "stored", "expected"),
    [
        ("UTC", -62135769600000000, -62135596800000000),
        ("UTC", -14825764800000000, -14826628800000000),
        ("UTC", -12219292800000001, -12220156800000001),
        ("UTC", -12219292800000000, -12219292800000000),
        ("UTC", -2524521600000000, -2524521600000000),
        ("Europe/Berlin", -62135773200000000, -62135600008000000),
        ("Europe/Berlin", -14825768400000000, -14826632008000000),
        ("Europe/Berlin", -2524525200000000, -2524524808000000),
        ("Europe/Amsterdam", -2208988800000001, -2208988800000001 + 3600 * MICROS),
        ("Europe/Amsterdam", -2208988800000000, -2208988800000000),
        ("+02:00", -12219292800000000, -12219292800000000),
    ],
)
def test_instants(zone: str, stored: int, expected: int) -> None:
    """Hudi's answers (Spark 3.5.8); those of Amsterdam by Spark's own table, `+02:00` is GMT for Java."""
    assert one_instant(stored, zone) == expected


@given(st.integers(FIRST_DAY, 20_000))
def test_days_as_by_the_oracle(day: int) -> None:
    assert one_day(day) == slow_day(day)


@given(
    st.sampled_from(sorted(ZONES)),
    st.one_of(
        st.integers((FIRST_DAY + 1) * DAY_US, -25567 * DAY_US),
        st.integers((SWITCH_DAY - 1) * DAY_US, (SWITCH_DAY + 1) * DAY_US),
        st.integers(-2717640000 * MICROS - 10**9, -2717640000 * MICROS + 10**9),
        st.integers(-2422054408 * MICROS - 10**9, -2422054408 * MICROS + 10**9),
    ),
)
def test_instants_as_by_the_oracle(zone: str, micros: int) -> None:
    assert one_instant(micros, zone) == slow_instant(micros, zone)


@given(st.sampled_from(["UTC", "Europe/Berlin", "America/Juneau", "Asia/Manila"]), st.integers(-(10**17), 10**15))
def test_wide_bounds_hold_the_values(zone: str, micros: int) -> None:
    value, day = one_instant(micros, zone), micros // DAY_US
    for more in (0, 1, 10**15):
        low, high = widened_bounds(micros - more, micros + more, DAY_US)
        assert low <= value <= high
    low, high = widened_bounds(day, day, 1)
    assert low <= one_day(day) <= high


def test_bounds_since_1900_are_exact() -> None:
    assert widened_bounds(-25567, 5, 1) == (-25567, 5)
    assert widened_bounds(-25568, 5, 1) == (-25580, 5)
    assert widened_bounds(-171595, -171595, 1) == (-171607, -25565)


@pytest.mark.parametrize("zone", ["", "Nowhere/Town", "GMT+24:00", "EST", "3600"])
def test_zones_that_are_not_known(zone: str) -> None:
    with pytest.raises(UnknownZone):
        zone_offsets(zone)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (None, None),
        ({}, None),
        ({DATETIME: b"", ZONE: b"UTC"}, None),
        ({VERSION: b"3.5.8"}, None),
        ({VERSION: b"3.5.8", DATETIME: b"", ZONE: b"UTC"}, (True, False, "UTC")),
        ({VERSION: b"3.5.8", INT96: b"", ZONE: b"UTC"}, (False, True, "UTC")),
        ({VERSION: b"3.0.1"}, (False, True, "")),
        ({VERSION: b"2.4.8"}, (True, True, "")),
        ({VERSION: b"3.5.8", DATETIME: b"", INT96: b"", ZONE: b"\xff"}, (True, True, "�")),
    ],
)
def test_which_files(metadata: dict[bytes, bytes] | None, expected: tuple[bool, bool, str] | None) -> None:
    result = legacy_calendar(metadata)
    assert result == (None if expected is None else LegacyCalendar(*expected))


class TestBatches:
    DAYS = pa.array([-171595, None, -141427], pa.int32()).view(pa.date32())
    AT = pa.array([-14825764800000000, None, 5], pa.int64()).view(pa.timestamp("us", "UTC"))

    def rebased(self, column: pa.Array, physical: list[str], *, int96: bool = False) -> pa.Array:
        batch = pa.RecordBatch.from_arrays([column], ["c"])
        result = CalendarRebase(LegacyCalendar(True, int96, "UTC"), batch.schema, physical).rebased(batch)
        assert result.schema == batch.schema
        result.validate(full=True)
        return result.column(0)

    def test_nulls_and_slices(self) -> None:
        assert self.rebased(self.DAYS, ["INT32"]).view(pa.int32()).to_pylist() == [-171605, None, -141427]
        assert self.rebased(self.DAYS[1:], ["INT32"]).view(pa.int32()).to_pylist() == [None, -141427]
        assert self.rebased(self.DAYS[:1], ["INT32"]).view(pa.int32()).to_pylist() == [-171605]
        assert self.rebased(self.DAYS[:0], ["INT32"]).to_pylist() == []

    def test_units(self) -> None:
        millis = pa.array([-14825764800000, -14825764800001], pa.int64()).view(pa.timestamp("ms", "UTC"))
        assert self.rebased(millis, ["INT64"]).view(pa.int64()).to_pylist() == [-14826628800000, -14826628800001]

    def test_local_timestamps_stay(self) -> None:
        local = self.AT.view(pa.timestamp("us"))
        assert self.rebased(local, ["INT64"]).equals(local)

    def test_int96_goes_by_its_own_mark(self) -> None:
        local = self.AT.view(pa.timestamp("us"))
        assert self.rebased(local, ["INT96"]).equals(local)
        assert self.rebased(local, ["INT96"], int96=True).view(pa.int64()).to_pylist() == [-14826628800000000, None, 5]

    def test_nested_columns(self) -> None:
        struct = pa.StructArray.from_arrays(
            [pa.array([1, 2, 3]), self.DAYS, self.AT], ["n", "d", "t"], mask=pa.array([False, True, False])
        )
        lists = pa.ListArray.from_arrays(pa.array([0, None, 2, 3], pa.int32()), struct)
        maps = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pa.array(["a", "b", "c"]), lists)
        physical = ["BYTE_ARRAY", "INT64", "INT32", "INT64"]
        day, instant = -171605 * DAY, datetime.timedelta(microseconds=-14826628800000000)
        first = {"n": 1, "d": (EPOCH + day).date(), "t": EPOCH + instant}
        last = {"n": 3, "d": datetime.date(1582, 10, 15), "t": datetime.datetime(1970, 1, 1, 0, 0, 0, 5, datetime.UTC)}
        expected = [[("a", [first, None])], [("b", None)], [("c", [last])]]
        assert self.rebased(maps, physical).to_pylist() == expected
        assert self.rebased(maps[1:], physical).to_pylist() == expected[1:]
        assert self.rebased(lists[2:], physical[1:]).to_pylist() == [[last]]
