"""Partition paths of times, as `tests/interop/test_write_partitions.py` compares them with Hudi's."""

from __future__ import annotations

import pathlib
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.writer.rows.timestamp_partitions import PREFIX, time_partitions

SECONDS = {"timestamp.type": "UNIX_TIMESTAMP", "output.dateformat": "yyyy/MM/dd"}
TEXT = {
    "timestamp.type": "DATE_STRING",
    "input.dateformat": "yyyy-MM-dd HH:mm",
    "input.timezone": "Europe/Berlin",
    "output.dateformat": "yyyyMMdd'at'HH",
}


def path_of(value: object, **options: str) -> str:
    named = {f"{PREFIX}{name}": text for name, text in options.items()}
    return time_partitions(named, "table t").text(value, "column c")


@pytest.mark.parametrize(
    ("options", "value", "path"),
    [
        (SECONDS, 0, "1970/01/01"),
        (SECONDS, -1, "1969/12/31"),
        (SECONDS, None, "1970/01/01"),
        ({**SECONDS, "output.timezone": "GMT-1:30"}, 0, "1969/12/31"),
        ({**SECONDS, "timestamp.type": "EPOCHMILLISECONDS", "output.dateformat": "ss.SSS"}, 1234, "01.234"),
        ({**SECONDS, "timestamp.type": "EPOCHMICROSECONDS", "output.dateformat": "ss.SSS"}, -1001, "59.999"),
        ({**SECONDS, "timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "days"}, 366, "1971/01/02"),
        (TEXT, "2024-07-01 00:30", "20240630at22"),
        (TEXT, "2024-01-01 00:30", "20231231at23"),
        ({**SECONDS, "timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "days"}, None, "1970/01/02"),
        ({**SECONDS, "timestamp.type": "EPOCHMICROSECONDS", "output.dateformat": "ss.SSS"}, None, "00.000"),
        (TEXT, None, "19700101at00"),
        ({**TEXT, "timezone": "Asia/Tokyo"}, "2024-07-01 00:30", "20240701at00"),
    ],
)
def test_path_of_a_time(options: dict[str, str], value: object, path: str) -> None:
    assert path_of(value, **options) == path


ZONES = ("UTC", "GMT+5:30", "GMT-0:01", "America/St_Johns", "Asia/Kathmandu", "Africa/Monrovia", "Australia/Lord_Howe")
PATTERNS = ("yyyy/MM", "yyyyMMdd", "dd'T'HH", "HH:mm", "HH:mm:ss", "ss.SSS")
UNITS = {"UNIX_TIMESTAMP": 1, "EPOCHMILLISECONDS": 10**3, "EPOCHMICROSECONDS": 10**6}
CHANGES = (1_320_546_660, 1_299_990_660, 63_593_070, 504_901_800, -1_000_000_000, 0)
"""Seconds at and near which clocks of the zones change: St. John's at one minute past midnight, Monrovia by 44:30."""


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.sampled(6)
def test_coarse_numbers_have_the_path_of_the_number(zone: str, pattern: str) -> None:
    chance = random.Random(zone + pattern)
    moments = [change + chance.uniform(-4000, 4000) for change in CHANGES for _ in range(60)]
    moments += [chance.uniform(-2e9, 4e9) for _ in range(100)]
    for unit, factor in UNITS.items():
        options = {"timestamp.type": unit, "output.dateformat": pattern, "output.timezone": zone}
        times = time_partitions({f"{PREFIX}{name}": text for name, text in options.items()}, "table t")
        numbers = [int(moment * factor) for moment in moments] + [None, -1, -1001, -999]
        coarse = times.coarse(pa.chunked_array([numbers[:9], numbers[9:]], pa.int64()))
        assert [times.text(one, "t") for one in coarse.to_pylist()] == [times.text(one, "t") for one in numbers]
        assert pc.count_distinct(coarse).as_py() <= len(set(numbers))


def test_coarse_numbers_are_few() -> None:
    """The text of each distinct number is made in Python."""
    column = pa.chunked_array([np.arange(0, 86_400 * 10**6 * 30, 77_777_777)])
    for zone, most in (("UTC", 30), ("GMT+5:30", 31), ("Europe/Berlin", 30 * 96)):
        options = {"timestamp.type": "EPOCHMICROSECONDS", "output.dateformat": "yyyyMMdd", "output.timezone": zone}
        times = time_partitions({f"{PREFIX}{name}": text for name, text in options.items()}, "table t")
        assert pc.count_distinct(times.coarse(column)).as_py() <= most


def test_numbers_without_a_path_and_text_are_not_rounded() -> None:
    seconds = time_partitions({f"{PREFIX}{name}": text for name, text in SECONDS.items()}, "table t")
    for column in (pa.chunked_array([[5, 2**63 - 1]]), pa.chunked_array([["2024"]]), pa.chunked_array([[True]])):
        assert seconds.coarse(column) is column
    hours = {"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "HOURS", "output.timezone": "GMT+5:30"}
    times = time_partitions({f"{PREFIX}{name}": text for name, text in {**SECONDS, **hours}.items()}, "table t")
    column = pa.chunked_array([[5, 18, 19]])
    assert times.coarse(column) is column, "a day begins within an hour of the column"
    assert seconds.coarse(pa.chunked_array([], pa.int64())).to_pylist() == []


@pytest.mark.parametrize(
    ("options", "value", "problem"),
    [
        (SECONDS, "2024", "expected a whole number"),
        (SECONDS, True, "expected a whole number"),
        (SECONDS, 10**15, "years 1 to 9999"),
        (TEXT, 5, "expected text"),
        (TEXT, "", "expected text in the form"),
        (TEXT, "2024-07-01 00:30 ", "text follows"),
        (TEXT, "2024-02-30 00:30", "no time"),
        (TEXT, "2024-03-31 02:30", "clocks of its zone skip"),
    ],
)
def test_value_without_a_path_is_refused(options: dict[str, str], value: object, problem: str) -> None:
    with pytest.raises(SchemaMismatch, match=f"^column c: .*{problem}"):
        path_of(value, **options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"timestamp.type": "MIXED"}, "timestamp.type is 'MIXED'"),
        ({}, "timestamp.type is '.none.'"),
        ({**SECONDS, "timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "WEEKS"}, "timestamp.type is 'SCALAR'"),
        ({**SECONDS, "output.dateformat": "YYYY/ww"}, "output.dateformat is 'YYYY/ww'"),
        ({**SECONDS, "output.dateformat": ""}, "output.dateformat is ''"),
        ({**SECONDS, "output.dateformat": "'open"}, "output.dateformat is"),
        ({**SECONDS, "output.timezone": "Mars/Base"}, "output.timezone is 'Mars/Base'"),
        ({name: text for name, text in TEXT.items() if name != "input.timezone"}, "input.timezone is not set"),
    ],
)
def test_options_that_are_not_written_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^table t: .*{problem}"):
        path_of(0, **options)


def test_table_with_times_as_partitions(tmp_path: pathlib.Path) -> None:
    schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    for number, (partition_by, generator) in enumerate(
        [(["at"], "TIMESTAMP"), (["p:SIMPLE", "at:TIMESTAMP"], "custom")]
    ):
        path = str(tmp_path / str(number))
        create_table(
            path,
            schema,
            record_key="id",
            partition_by=partition_by,
            buckets=1,
            hive_style_partitioning=True,
            key_generator=generator,
            time_partitions={"timestamp.type": "EPOCHMICROSECONDS", "output.dateformat": "yyyy-MM"},
        )
        rows = [{"id": "a", "p": "x", "at": 0}, {"id": "b", "p": "y", "at": 10**15}]
        result = penstock.write(path, pa.Table.from_pylist(rows, schema))
        middle = ("", "") if generator == "TIMESTAMP" else ("p=x/", "p=y/")
        assert result.partitions == (f"{middle[0]}at=1970-01", f"{middle[1]}at=2001-09")
        assert (
            penstock.read(path).read_all().select(schema.names).sort_by("id").to_pylist()
            == pa.Table.from_pylist(rows, schema).to_pylist()
        )


def test_time_partitions_that_do_not_fit_are_refused(tmp_path: pathlib.Path) -> None:
    schema = pa.schema([("id", pa.string()), ("at", pa.int64())])

    def created(**settings: object) -> None:
        create_table(str(tmp_path / "t"), schema, record_key="id", buckets=1, **settings)  # type: ignore[arg-type]

    with pytest.raises(ConfigurationError, match="no partition column is a TIMESTAMP"):
        created(partition_by="at", time_partitions=SECONDS)
    with pytest.raises(ConfigurationError, match="CUSTOM needs version 9"):
        created(partition_by="at:TIMESTAMP", key_generator="CUSTOM", table_version=6, time_partitions=SECONDS)
    with pytest.raises(ConfigurationError, match=r"timestamp\.type is"):
        created(partition_by="at", key_generator="TIMESTAMP")
    with pytest.raises(ConfigurationError, match="expected one of SIMPLE"):
        created(partition_by="at", key_generator="other")
    assert not (tmp_path / "t" / ".hoodie").exists()
