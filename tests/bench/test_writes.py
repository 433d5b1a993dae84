"""The bench of writes: both writers' tables must hold equal rows, and the report has medians and ratios."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.writes import line
from bench.writing.memory import Peaks
from bench.writing.memory import line as memory_line
from bench.writing.parts import PARTS, Part, hudis_options, hudis_service_options, sources
from bench.writing.writers import Figures, Penstock, check_equal


def rows(count: int, version: int) -> pa.Table:
    return pa.table(
        {
            "l_id": [f"line-{number}" for number in range(count)],
            "l_version": [version] * count,
            "l_shipmode": ["AIR", "SHIP"] * (count // 2),
        }
    )


@pytest.mark.parametrize("part", [PARTS[2], PARTS[-1]], ids=lambda part: part.name)
@pytest.mark.sampled(1)
def test_penstock_writes_a_part_and_different_rows_are_an_error(tmp_path: pathlib.Path, part: Part) -> None:
    files = {}
    for name, table in {"all": rows(20, 0), "some": rows(4, 1), "other": rows(4, 2)}.items():
        files[name] = tmp_path / f"rows-{name}"
        files[name].mkdir()
        pq.write_table(table, files[name] / "part.parquet")
    for table, newer in {"a": "some", "b": "some", "c": "other"}.items():
        first = Penstock().write(tmp_path / table, files["all"], part, "bulk_insert")
        second = Penstock().write(tmp_path / table, files[newer], part, "upsert")
        assert second.size_bytes > 0 and first.cpu_s > 0
    assert check_equal(tmp_path / "a", tmp_path / "b") == 20
    with pytest.raises(AssertionError, match="rows differ"):
        check_equal(tmp_path / "a", tmp_path / "c")


def test_report_has_medians_and_ratios() -> None:
    rounds = [(Figures(1.0, 2.0, 100), Figures(cpu, 4.0, 200)) for cpu in (2.0, 3.0, 9.0)]
    expected = "| bulk insert | 1.00 | 3.00 | 3.00 (2.00 to 9.00) | 2.00 (2.00 to 2.00) | 0.0001 | 0.50 |"
    assert line(PARTS[0], rounds) == expected


def test_hudis_writer_has_the_index_and_partitions_of_the_part() -> None:
    options = hudis_options(PARTS[2], "insert")
    assert options["hoodie.datasource.write.partitionpath.field"] == "l_shipmode"
    assert options["hoodie.bucket.index.num.buckets"] == "1" and options["hoodie.index.type"] == "BUCKET"


def test_each_part_has_its_rows_and_settings() -> None:
    named = dict(sources(100, PARTS))
    for part in PARTS:
        assert {part.rows, *(rows for rows, _ in part.rows_before)} <= named.keys(), part
    assert [rows for rows, _ in PARTS[-1].rows_before] == [f"quarter-{number}" for number in range(4)]
    quarters = [named[f"quarter-{number}"].rpartition("range")[2] for number in range(4)]
    assert quarters == ["(0, 25, 1, 1)", "(25, 50, 1, 1)", "(50, 75, 1, 1)", "(75, 100, 1, 1)"]
    codecs = [hudis_options(part, "upsert").get("hoodie.parquet.compression.codec") for part in PARTS[:2]]
    assert codecs == [None, "zstd"]
    assert hudis_service_options(PARTS[-1])["hoodie.index.type"] == "SIMPLE"


def test_report_of_memory_has_medians() -> None:
    samples = [Peaks(100.0, 110.0), Peaks(90.0, 400.0), Peaks(120.0, 120.0)]
    assert memory_line(PARTS[0], samples) == "| bulk insert | 100 | 120 | 1.20 |"
