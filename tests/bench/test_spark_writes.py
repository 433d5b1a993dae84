"""The bench of writes from Spark and TPC-H's rows: refresh functions, queries, equal rows, and the report."""

from __future__ import annotations

import pathlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import penstock
from bench.spark_writes import lines, seconds_line
from bench.tpch.data import TABLES, generate, queries, read
from bench.tpch.refresh import REFRESHED
from bench.writing.spark_parts import PARTS, Contestant, SparkFigures, check_equal, create, hudis_options

ORDERS = REFRESHED[0]


def orders(count: int) -> pa.Table:
    """Generated orders: of 32 keys in a row the first eight."""
    numbers = np.arange(count)
    prices = [Decimal(f"{number}.50") for number in range(count)]
    keys = pa.array(numbers // 8 * 32 + numbers % 8)
    return pa.table({"o_orderkey": keys, "o_totalprice": pa.array(prices, pa.decimal128(15, 2))})


def test_refresh_functions_insert_change_and_delete() -> None:
    generated = orders(64)
    before = {row["o_orderkey"]: row["o_totalprice"] for row in generated.to_pylist()}
    upserted = {row["o_orderkey"]: row["o_totalprice"] for row in ORDERS.rf1(generated, 8).to_pylist()}
    deleted = {row["o_orderkey"] for row in ORDERS.rf2(generated, 8).to_pylist()}
    assert len(upserted) == 16 and len(deleted) == 8 and not deleted & upserted.keys()
    assert len(upserted.keys() - before.keys()) == 8
    assert all(upserted[key] > before[key] for key in upserted.keys() & before.keys())
    model = {key: price for key, price in {**before, **upserted}.items() if key not in deleted}
    assert {row["o_orderkey"]: row["o_totalprice"] for row in ORDERS.refreshed(generated, 8).to_pylist()} == model
    assert model != before, "the control: the refresh functions change rows"


def test_generated_tables_have_the_keys_that_refresh_functions_leave_free(tmp_path: pathlib.Path) -> None:
    generate(tmp_path, 0.01)
    rows = {table.name: read(tmp_path / f"{table.name}.parquet") for table in TABLES}
    assert rows["orders"].num_rows == 15_000 and rows["nation"].num_rows == 25
    for table in TABLES:
        assert rows[table.name].group_by(list(table.key)).aggregate([]).num_rows == rows[table.name].num_rows
    for refresh in REFRESHED:
        assert np.unique(rows[refresh.name][refresh.order_key].to_numpy() % 32).tolist() == list(range(8))


def test_queries_are_those_of_tpch() -> None:
    named = dict(queries(0.5))
    assert list(named) == [f"Q{number}" for number in range(1, 23)]
    assert "0.0002" in named["Q11"] and not any(":" in text or "--" in text for text in named.values())


def test_report_has_medians_and_ratios_to_penstock() -> None:
    rounds = [
        {
            Contestant.PENSTOCK: SparkFigures(2.0, 1.0, 3_000_000, 1_000_000),
            Contestant.HUDI: SparkFigures(cpu, 4.0, 6_000_000, 2_000_000),
        }
        for cpu in (4.0, 6.0, 9.0)
    ]
    penstock_line, hudi_line = lines("load", rounds, 6000)
    same = "1.00 (1.00 to 1.00)"
    assert penstock_line == f"| load | Penstock | 2.00 | 3,000 | 3.0 | 1.0 | {same} | {same} |"
    ratios = "3.00 (2.00 to 4.50) | 4.00 (4.00 to 4.00)"
    assert hudi_line == f"| load | Hudi's bundle | 6.00 | 1,000 | 6.0 | 2.0 | {ratios} |"


def test_report_of_micro_batches_has_the_95th_percentile() -> None:
    assert seconds_line("sink", [number / 10 for number in range(100, 0, -1)]) == "| sink | 5.05 | 9.60 | 10.00 |"


def test_different_rows_are_an_error(tmp_path: pathlib.Path) -> None:
    generate(tmp_path / "rows", 0.001, "lineitem")
    rows = read(tmp_path / "rows" / "lineitem.parquet").slice(0, 50)
    for name, data in {"a": rows, "b": rows, "c": rows.slice(1)}.items():
        create(tmp_path / name, tmp_path / "rows", PARTS[0])
        penstock.write(str(tmp_path / name), data, "bulk_insert")
    assert check_equal([tmp_path / "a", tmp_path / "b"]) == 50
    with pytest.raises(AssertionError, match="c: 49 rows"):
        check_equal([tmp_path / "a", tmp_path / "c"])
    upserted = REFRESHED[1].rf1(rows, 4)
    changed = upserted.filter(pa.array(upserted["l_orderkey"].to_numpy() % 32 < 8))
    assert penstock.write(str(tmp_path / "b"), changed, "upsert").updated > 0
    with pytest.raises(AssertionError, match="b: rows differ"):
        check_equal([tmp_path / "a", tmp_path / "b"])


def test_hudis_writer_has_the_key_and_index_of_the_table() -> None:
    options = hudis_options(PARTS[2], "upsert")
    assert options["hoodie.datasource.write.recordkey.field"] == "l_orderkey,l_linenumber"
    assert options["hoodie.datasource.write.table.type"] == "MERGE_ON_READ"
    assert options["hoodie.index.type"] == "BUCKET" and options["hoodie.bucket.index.num.buckets"] == "4"
