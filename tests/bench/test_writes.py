"""The bench of writes: both writers' tables must hold equal rows, and the report has medians and ratios."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.writes import PARTS, Figures, Part, Penstock, check_equal, hudis_options, line


def rows(count: int, version: int) -> pa.Table:
    return pa.table(
        {
            "l_id": [f"line-{number}" for number in range(count)],
            "l_version": [version] * count,
            "l_shipmode": ["AIR", "SHIP"] * (count // 2),
        }
    )


@pytest.mark.parametrize("part", [PARTS[1], PARTS[-1]], ids=lambda part: part.name)
@pytest.mark.sampled(1)
def test_penstock_writes_a_part_and_different_rows_are_an_error(tmp_path: pathlib.Path, part: Part) -> None:
    files = {}
    for name, table in {"all": rows(20, 0), "some": rows(4, 1), "other": rows(4, 2)}.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
        files[name] = tmp_path / f"{name}.parquet"
    for table, newer in {"a": "some", "b": "some", "c": "other"}.items():
        first = Penstock().write(tmp_path / table, files["all"], part, "bulk_insert")
        second = Penstock().write(tmp_path / table, files[newer], part, "upsert")
        assert second.size_bytes > 0 and first.cpu_s > 0
    assert check_equal(tmp_path / "a", tmp_path / "b") == 20
    with pytest.raises(AssertionError, match="rows differ"):
        check_equal(tmp_path / "a", tmp_path / "c")


def test_report_has_medians_and_ratios() -> None:
    rounds = [(Figures(1.0, 2.0, 100), Figures(cpu, 4.0, 200)) for cpu in (2.0, 3.0, 9.0)]
    expected = "| bulk insert | 1.00 | 3.00 | 3.00 (2.00 to 9.00) | 2.00 (2.00 to 2.00) | 0.0 | 0.50 |"
    assert line(PARTS[0], rounds) == expected


def test_hudis_writer_has_the_index_and_partitions_of_the_part() -> None:
    options = hudis_options(PARTS[1], "insert")
    assert options["hoodie.datasource.write.partitionpath.field"] == "l_shipmode"
    assert options["hoodie.bucket.index.num.buckets"] == "1" and options["hoodie.index.type"] == "BUCKET"
