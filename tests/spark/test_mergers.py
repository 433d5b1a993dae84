"""Spark's executors merge by a registered function, with and without a server; real Hudi gives the rows."""

from __future__ import annotations

import json
import pathlib
import zipfile
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.enumerator.server.run import serve

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
(CASE,) = (one for one in json.loads((GOLDEN / "mergers.json").read_text()) if one["name"] == "G_payload_v9_h120")
MERGERS = f"{CASE['merger']}=tests.golden.merge_functions:counting"
RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]


@pytest.fixture
def table(tmp_path: pathlib.Path) -> str:
    with zipfile.ZipFile(GOLDEN / "tables" / f"{CASE['name']}.zip") as archive:
        archive.extractall(tmp_path)
    return str(tmp_path)


def expected(query: str) -> pa.Table:
    return pq.read_table(GOLDEN / "expected" / CASE["name"] / f"{query}.parquet")


@pytest.mark.parametrize("through_a_server", [False, True])
def test_rows_equal_hudis(spark: SparkSession, table: str, rows_of: RowsOf, through_a_server: bool) -> None:
    (begin, requested), state = (CASE["instants"][1][1], CASE["instants"][2][0]), expected("asof_2")
    whole = rows_of(expected("snapshot"))
    part = rows_of(state.filter(pc.equal(state["_hoodie_commit_time"], requested)))
    ranged = {"query": "incremental", "after": begin, "upto": CASE["instants"][2][1]}
    if not through_a_server:
        reader = spark.read.format("penstock").option("mergers", MERGERS)
        assert rows_of(reader.load(table)) == whole
        assert rows_of(reader.options(**ranged).load(table)) == part
        return
    with serve({"counted": table}, "127.0.0.1:0") as server:
        reader = spark.read.format("penstock").options(mergers=MERGERS, server=server.address)
        assert rows_of(reader.load("counted")) == whole
        assert rows_of(reader.options(**ranged).load("counted")) == part


def test_table_function_passes_the_option_on(spark: SparkSession, table: str, rows_of: RowsOf) -> None:
    import penstock.spark

    frame = penstock.spark.table(spark, table, mergers=MERGERS)
    assert rows_of(frame) == rows_of(expected("snapshot"))


def test_without_a_function_the_read_fails(spark: SparkSession, table: str) -> None:
    with pytest.raises(PySparkException, match=r"no function is registered for it"):
        spark.read.format("penstock").load(table).count()
