"""Base files of the legacy calendar: rows as Hudi shows them, filters that prune nothing wrong, errors that name it."""

from __future__ import annotations

import datetime
import pathlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.proto.errors import CorruptFile
from penstock.proto.model.splits import FileRef
from penstock.reader.read_split import SplitTally, read_split
from tests.unit.reader.slices import BASE_INSTANT, SliceFolder

VERSION = "org.apache.spark.version"
ZONE = "org.apache.spark.timeZone"
LEGACY = {VERSION: "3.5.8", "org.apache.spark.legacyDateTime": "", ZONE: "UTC"}
FIELDS: dict[str, Any] = {
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "loc": {"type": "long", "logicalType": "local-timestamp-micros"},
    "st": {
        "type": "record",
        "name": "st",
        "fields": [{"name": "d", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None}],
    },
}
STORED = [(-719164, -62135769600000000), (-171595, -14825764800000000), (None, None), (-141427, -2524521600000000)]
SHOWN = [(-719162, -62135596800000000), (-171605, -14826628800000000), (None, None), (-141427, -2524521600000000)]


def written(
    folder: pathlib.Path, metadata: dict[str, str], stored: list[tuple[Any, Any]] = STORED, **options: Any
) -> SliceFolder:
    """A slice with a row of each of `stored`, each a row group."""
    result = SliceFolder(folder, FIELDS)
    days, instants = (pa.array(values, pa.int64()) for values in zip(*stored, strict=True))
    keys = [f"k{number}" for number in range(len(stored))]
    days = days.cast(pa.int32()).view(pa.date32())
    values = {
        "_hoodie_commit_time": [BASE_INSTANT] * len(keys),
        "_hoodie_record_key": keys,
        "day": days,
        "at": instants.view(pa.timestamp("us", "UTC")),
        "loc": instants.view(pa.timestamp("us")),
        "st": pa.StructArray.from_arrays([days], ["d"]),
    }
    columns = [values.get(field.name, pa.nulls(len(keys), field.type)) for field in result.arrow]
    columns = [pa.array(column) if isinstance(column, list) else column for column in columns]
    table = pa.table(columns, names=result.arrow.names)
    path = folder / f"group_0-1-1_{BASE_INSTANT}.parquet"
    pq.write_table(table.replace_schema_metadata(metadata), path, row_group_size=1, **options)
    result.base = FileRef(path.name, path.stat().st_size)
    return result


def numbers(folder: SliceFolder, **changed: Any) -> list[tuple[Any, ...]]:
    """Day, instant, local timestamp and nested day of each row, as numbers."""
    rows = []
    for item in folder.read(columns=("day", "at", "loc", "st"), **changed):
        day = item.batch["day"].view(pa.int32()).to_pylist()
        at, loc = (item.batch[name].view(pa.int64()).to_pylist() for name in ("at", "loc"))
        inner = item.batch["st"].field(0).view(pa.int32()).to_pylist()
        rows += list(zip(day, at, loc, inner, strict=True))
    return rows


@pytest.mark.parametrize("metadata", [LEGACY, {VERSION: "2.4.8", ZONE: "UTC"}])
def test_rows_are_as_hudi_shows_them(tmp_path: pathlib.Path, metadata: dict[str, str]) -> None:
    expected = [(day, at, loc, day) for (day, at), (_, loc) in zip(SHOWN, STORED, strict=True)]
    assert numbers(written(tmp_path, metadata)) == expected


@pytest.mark.parametrize(
    "metadata", [{}, {VERSION: "3.5.8"}, {"org.apache.spark.legacyDateTime": "", ZONE: "Nowhere/Town"}]
)
def test_other_files_are_read_as_they_are(tmp_path: pathlib.Path, metadata: dict[str, str]) -> None:
    assert numbers(written(tmp_path, metadata)) == [(day, at, at, day) for day, at in STORED]


def test_zone_counts(tmp_path: pathlib.Path) -> None:
    result = [row[1] for row in numbers(written(tmp_path, {**LEGACY, ZONE: "Europe/Berlin"}))]
    assert result[3] == STORED[3][1] + 392 * 10**6


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("day = DATE '1500-03-01'", ["k1"]),
        ("day <= DATE '1500-03-01'", ["k0", "k1"]),
        ("day < DATE '0001-01-02'", ["k0"]),
        ("day > DATE '1500-03-01'", ["k3"]),
        ("day IN (DATE '0001-01-01', DATE '1582-10-15')", ["k0", "k3"]),
        ("day IS NULL", ["k2"]),
        ("st.d = DATE '1500-03-01'", ["k1"]),
        ("at < TIMESTAMP '1500-03-01 12:00:01'", ["k0", "k1"]),
        ("at = TIMESTAMP '1500-03-01 12:00:00'", ["k1"]),
        ("at = TIMESTAMP '0001-01-01 00:00:00'", ["k0"]),
        ("at >= TIMESTAMP '1890-01-01 00:00:00'", ["k3"]),
    ],
)
def test_filters_compare_rebased_values(tmp_path: pathlib.Path, where: str, expected: list[str]) -> None:
    rows = written(tmp_path, LEGACY).rows(where=where, columns=("_hoodie_record_key",))
    assert [row["_hoodie_record_key"] for row in rows] == expected


def test_filters_still_prune(tmp_path: pathlib.Path) -> None:
    folder, tally = written(tmp_path, LEGACY), SplitTally()
    scan = folder.scan(where="day > DATE '2000-01-01'")
    assert list(read_split(scan, folder.split(), tally=tally)) == []
    assert tally.report().pruned_row_groups == 4


def test_int96(tmp_path: pathlib.Path) -> None:
    """Arrow marks no file by its INT96, so only the mark is used."""
    marked = {VERSION: "3.5.8", "org.apache.spark.legacyINT96": "", ZONE: "UTC"}
    options = {"use_deprecated_int96_timestamps": True}
    assert [row[:2] for row in int96_rows(tmp_path, marked, options)] == [
        (day, at) for (day, _), (_, at) in zip(STORED, SHOWN, strict=True)
    ]
    assert [row[:2] for row in int96_rows(tmp_path, LEGACY, options)] == [
        (day, at) for (day, _), (_, at) in zip(SHOWN, STORED, strict=True)
    ]


def int96_rows(folder: pathlib.Path, metadata: dict[str, str], options: dict[str, Any]) -> list[tuple[Any, ...]]:
    result = written(folder, metadata, **options)
    rows = []
    for item in result.read(columns=("day", "at")):
        rows += list(zip(*(item.batch[name].cast(kind).to_pylist() for name, kind in KINDS), strict=True))
    return rows


KINDS = (("day", pa.int32()), ("at", pa.int64()))


@pytest.mark.parametrize("zone", ["Nowhere/Town", ""])
def test_zone_that_is_not_known(tmp_path: pathlib.Path, zone: str) -> None:
    folder = written(tmp_path, {**LEGACY, ZONE: zone})
    message = f"time zone '{zone}'" if zone else "no time zone"
    with pytest.raises(CorruptFile, match=rf"table orders: base file group_.*names {message} .*rewrite the file"):
        folder.read()
    assert [row["day"] for row in folder.rows(columns=("day",))][1] == datetime.date(1500, 3, 1), "dates have no zone"


def test_unknown_zone_does_no_harm_to_newer_timestamps(tmp_path: pathlib.Path) -> None:
    folder = written(tmp_path, {**LEGACY, ZONE: "Nowhere/Town"}, stored=[(0, -2208988800000000), (None, None)])
    assert [row[1] for row in numbers(folder)] == [-2208988800000000, None]
