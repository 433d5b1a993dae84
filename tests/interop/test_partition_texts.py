"""Partition columns of dates and timestamps whose paths contain arbitrary text: Penstock reads the same values as
Hudi."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

NUMBERS = ("0", "7", "-7", "12", "123", "-123", "999", "12345678", "1600000000", "1600000000000", "1600000000000000")
YEARS = ("1000", "2020", "-2020", "002020", "12345", "-12345", "123456", "202001", "-202001", "-290307", "-0000")
EDGES = ("294248", "-290308", "999999", "-999995", "1234567", "5881580", "5881581", "9999999", "16000000000000000")
DAYS = ("2020-1", "2020-13", "20200-1", "2020-1-5", "2020-02-30", "10000-01-01", "999-01-01", "2020-", "abc")
MOMENTS = ("2020-01-01%2005%3A06%3A07.123456789", "2020-01-01T05%3A06%3A07Z", "2020-01-01%205")
TYPES = {
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
}


@pytest.fixture(scope="module")
def answers(hudi: Any) -> Iterator[Any]:
    """Hudi's rows, which may contain dates before 1582."""
    hudi.call("set spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED")
    yield hudi
    hudi.call("reset spark.sql.parquet.datetimeRebaseModeInWrite")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "version", "texts"),
    [
        ("timestamp", "6", NUMBERS + YEARS),
        ("timestamp", "9", YEARS + EDGES + DAYS + MOMENTS),
        ("date", "8", NUMBERS + YEARS + EDGES + DAYS),
    ],
)
def test_partition_values_of_any_path_equal_hudis(
    answers: Any, tmp_path: pathlib.Path, kind: str, version: str, texts: tuple[str, ...]
) -> None:
    """The Java client writes rows into the given partitions."""
    hudi, path = answers, tmp_path / "t"
    field = {"name": "p", "type": ["null", TYPES[kind]], "default": None}
    schema = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "string"}, field]}
    created = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": version,
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "p",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    if version != "6":
        created["hoodie.record.merge.mode"] = "COMMIT_TIME_ORDERING"
    hudi.write_records(
        path,
        schema=json.dumps(schema),
        operation="insert",
        rows=[{"id": text, "p": None} for text in texts],
        keys=[[text, f"p={text}"] for text in texts],
        properties=created,
        options={
            "hoodie.table.name": "t",
            "hoodie.write.table.version": version,
            "hoodie.write.auto.upgrade": "false",
            "hoodie.metadata.enable": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.datasource.write.recordkey.field": "id",
        },
    )
    expected = numbers(hudi.read(path))
    assert len(expected) == len(texts)
    assert None in expected.values()
    assert numbers(penstock.read(str(path)).read_all()) == expected


def numbers(rows: pa.Table) -> dict[str, int | None]:
    """The partition column as days or microseconds since 1970, because Python has no dates outside of years 1 to
    9999."""
    kind = rows.schema.field("p").type
    values = (
        rows["p"].cast(pa.int32()) if pa.types.is_date32(kind) else rows["p"].cast(pa.timestamp("us")).cast("int64")
    )
    return dict(zip(rows["id"].to_pylist(), values.to_pylist(), strict=True))
