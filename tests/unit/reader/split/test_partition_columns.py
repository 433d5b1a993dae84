"""Path values as a column's one value."""

from __future__ import annotations

import datetime
import decimal
import math
import pathlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile, SchemaMismatch
from penstock.reader.split.partition_columns import PartitionConstants
from penstock.table.partitions.scalars import partition_scalar
from tests.unit.reader.slices import SliceFolder


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("a/b ü", pa.string(), "a/b ü"),
        ("", pa.string(), ""),
        ("-12", pa.int32(), -12),
        ("9223372036854775807", pa.int64(), 2**63 - 1),
        ("TRUE", pa.bool_(), True),
        ("2024-02-29", pa.date32(), datetime.date(2024, 2, 29)),
        ("1.5", pa.float64(), 1.5),
        ("1.0E10", pa.float64(), 1e10),
        ("1.50", pa.decimal128(10, 2), decimal.Decimal("1.50")),
        ("7", pa.decimal128(10, 2), decimal.Decimal("7.00")),
        *[(text, kind, float(text)) for kind in (pa.float32(), pa.float64()) for text in ("Infinity", "-Infinity")],
        (None, pa.int32(), None),
        (None, pa.timestamp("us", "UTC"), None),
    ],
)
def test_values_that_are_the_types(text: str | None, kind: pa.DataType, value: Any) -> None:
    result = partition_scalar(text, kind, "w")
    assert result.type == kind
    assert result.as_py() == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", pa.int32()),
        ("1.0", pa.int32()),
        ("2147483648", pa.int32()),
        ("9" * 30, pa.int64()),
        ("1 ", pa.int32()),
        ("", pa.int32()),
        ("yes", pa.bool_()),
        ("nan", pa.float64()),
        ("inf", pa.float64()),
        ("infinity", pa.float64()),
        ("-NaN", pa.float32()),
        ("NaN", pa.decimal128(10, 2)),
        ("Infinity", pa.int64()),
        ("1.555", pa.decimal128(10, 2)),
        ("123456789012", pa.decimal128(10, 2)),
        ("٣", pa.int32()),
    ],
)
def test_values_that_are_not_are_damage(text: str, kind: pa.DataType) -> None:
    with pytest.raises(CorruptFile, match="w: partition value"):
        partition_scalar(text, kind, "w")


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_is_a_value(kind: pa.DataType) -> None:
    assert math.isnan(partition_scalar("NaN", kind, "w").as_py())


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("9999-12-31", 2932896),
        ("+10000-01-01", 2932897),
        ("+10000-02-29", 2932897 + 59),
        ("+5881580-07-11", 2**31 - 1),
        ("0001-01-01", -719162),
        ("0000-12-31", -719163),
        ("0000-02-29", -719469),
        ("-0001-12-31", -719529),
        ("-0004-02-29", -720930),
        ("-5877641-06-23", -(2**31)),
    ],
)
def test_dates_that_python_has_none_of_are_days_as_java_counts_them(text: str, days: int) -> None:
    result = partition_scalar(text, pa.date32(), "w")
    assert result.type == pa.date32()
    assert result.cast(pa.int32()).as_py() == days


@given(st.dates(), st.integers(-14000, 14600))
def test_dates_400_years_apart_are_146097_days_apart(day: datetime.date, eras: int) -> None:
    """The calendar repeats itself every 146097 days."""
    year = day.year + 400 * eras
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    result = partition_scalar(f"{sign}{abs(year):04d}-{day:%m-%d}", pa.date32(), "w")
    since_1970 = (day - datetime.date(1970, 1, 1)).days
    assert result.cast(pa.int32()).as_py() == since_1970 + 146097 * eras


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2024-01-01", pa.time64("us")),
        ("2024-01-01", pa.list_(pa.int32())),
        ("1577872800000000", pa.timestamp("us")),
        ("0", pa.timestamp("us")),
        ("2020", pa.timestamp("us")),
        ("2023-13-10 12:30:00", pa.timestamp("us")),
        ("2023-03-10 12:30:00 Europe/Oslo", pa.timestamp("us", "UTC")),
        ("12:30:00", pa.timestamp("us", "UTC")),
        ("T12:30", pa.timestamp("us", "UTC")),
    ],
)
def test_values_that_hudi_does_not_read_again_or_reads_by_its_clock_are_refused(text: str, kind: pa.DataType) -> None:
    with pytest.raises(SchemaMismatch, match="w: partition value"):
        partition_scalar(text, kind, "w")


def test_timestamps_and_bytes_are_as_spark_casts_them() -> None:
    instant, local = pa.timestamp("us", "UTC"), pa.timestamp("us")
    noon = datetime.datetime(2023, 3, 10, 12, 30, tzinfo=datetime.UTC)
    assert partition_scalar("2023-03-10 12:30:00", instant, "w").as_py() == noon
    half = partition_scalar("2023-03-10T12:30:00.5", local, "w").as_py()
    assert half == noon.replace(microsecond=500000, tzinfo=None)
    assert partition_scalar("2023-03-10", local, "w").as_py() == noon.replace(hour=0, minute=0, tzinfo=None)
    assert partition_scalar("1577872800500000", instant, "w").as_py() is None
    assert partition_scalar("616263", pa.binary(), "w").as_py() == b"616263"


HUDIS_DATES = {
    "1999": 10592,
    "+2020": 18262,
    "-2020": -1457318,
    "002020": 18262,
    "0000": -719528,
    "-0000": -719528,
    "999999": 364522607,
    "-1234567": -451635865,
    "5881580": 2147483455,
    "2020-1": 18262,
    "-2020-01": -1457318,
    "20200-1": 6658371,
    "2020-1-5": 18266,
    "10000-01-01": 2932897,
    "+10000-01-01": 2932897,
    "-0001-01-01": -719893,
    "2020-01-01T05:06:07Z": 18262,
    **dict.fromkeys(("0", "7", "-7", "999", "-123", "5881581", "-5877642", "9999999", "12345678", "1600000000")),
    **dict.fromkeys(("2020-13", "2020-00", "2020-02-30", "999-01-01", "2020-", "2020-01-", "abc", "-", "1.5", "1e3")),
}
HUDIS_TIMESTAMPS = {
    "1000": -30610224000000000,
    "2020": 1577836800000000,
    "+2020": 1577836800000000,
    "002020": 1577836800000000,
    "-2020": -125912275200000000,
    "12345": 327403382400000000,
    "-202001": -6436703059200000000,
    "294247": 9223371244800000000,
    "-290307": -9223371158400000000,
    "0000": -62167219200000000,
    "2020-1": 1577836800000000,
    "20200-1": 575283254400000000,
    "2020-1-5": 1578182400000000,
    "10000-01-01 00:00:00.0": 253402300800000000,
    "-0001-01-01": -62198755200000000,
    "2020-01-01 05:06": 1577855160000000,
    "2020-01-01 5": 1577854800000000,
    "2020-01-01 05:06:07.123456789": 1577855167123456,
    "2020-01-01T05:06:07Z": 1577855167000000,
    **dict.fromkeys(("0", "7", "-7", "12", "123", "999", "294248", "-290308", "999999", "-999995", "1234567")),
    **dict.fromkeys(("20200101", "-1600000000", "1600000000000", "16000000000000000", "2020-13", "2020-02-30")),
    **dict.fromkeys(("999-01-01", "2020-", "abc", "true", "2020-01-01 25", "2023-13-10 12:30:00")),
}


@pytest.mark.parametrize(
    ("kind", "values"),
    [(pa.date32(), HUDIS_DATES), (pa.timestamp("us", "UTC"), HUDIS_TIMESTAMPS)],
    ids=["date", "time"],
)
def test_dates_and_timestamps_are_what_hudi_reads(kind: pa.DataType, values: dict[str, int | None]) -> None:
    """Read by Hudi 1.2.0 (interop: `test_partition_texts`); years alone count, what Spark cannot cast is null."""
    width = pa.int32() if kind == pa.date32() else pa.int64()
    assert {text: partition_scalar(text, kind, "w").cast(width).as_py() for text in values} == values


@pytest.mark.parametrize(
    ("text", "day", "micros"),
    [
        ("\t2024", 19723, 1704067200000000),
        (" 2024-01-01\n", 19723, 1704067200000000),
        ("\x7f2024", 19723, 1704067200000000),
        ("2024-01-01 ", 19723, 1704067200000000),
        (" 2024-01-01 00:00:00 ", 19723, 1704067200000000),
        ("\x1f2024-01-02 10:00:00Z\n", 19724, 1704189600000000),
        ("2024-01-01 a\nb", 19723, None),
    ],
)
def test_space_around_dates_and_timestamps_does_not_count(text: str, day: int, micros: int | None) -> None:
    """As Spark 3.5 casts them."""
    assert partition_scalar(text, pa.date32(), "w").cast(pa.int32()).as_py() == day
    assert partition_scalar(text, pa.timestamp("us", "UTC"), "w").cast(pa.int64()).as_py() == micros


def test_only_requested_partition_columns_are_constants(tmp_path: pathlib.Path) -> None:
    """The value of a column that is not requested is not parsed, even if it is invalid."""
    folder = SliceFolder(tmp_path, {"p": "string", "n": "int"})
    scan = folder.scan(partition_fields=("p", "n"))
    constants = PartitionConstants(scan, folder.split(partition_values=("x", "none")), folder.arrow, ["p"])
    assert constants.column("n", 3) is None
    column = constants.column("p", 3)
    assert column is not None
    assert column.to_pylist() == ["x"] * 3
    longer = constants.column("p", 5)
    assert longer is not None
    assert len(longer) == 5


def test_split_with_another_number_of_values_is_refused(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, {"p": "string"})
    with pytest.raises(CorruptFile, match="table orders: partition '': 0 values for the partition columns p"):
        PartitionConstants(folder.scan(partition_fields=("p",)), folder.split(), folder.arrow, ["p"])
