"""`penstock.spark.table`: the rows of a plain load with the same filter, from a scan that has the filter too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as classic

from penstock import spark as penstock_spark
from penstock.engine.spark.query.column_tree import expression_of
from penstock.engine.spark.query.expressions import conjuncts
from penstock.engine.spark.query.narrowing import where_of_all
from penstock.engine.spark.query.session import rules_of
from penstock.errors import ConfigurationError
from tests.unit.engine.spark.query.column_filters import FILTERS

RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]
CASE = "A_types_v9_h120"


def test_column_of_a_classic_session_reaches_the_scan(spark: SparkSession, golden: Any) -> None:
    schema = spark.read.format("penstock").load(str(golden.table(CASE))).schema
    read = [where_of_all(list(conjuncts(expression_of(of(classic)))), schema, rules_of(spark)) for of, _ in FILTERS]
    assert read == [where for _, where in FILTERS]


def test_filter_gives_the_rows_of_spark(spark: SparkSession, golden: Any, rows_of: RowsOf) -> None:
    path = str(golden.table(CASE))
    plain = spark.read.format("penstock").load(path).cache()
    texts = [
        "i > 5 AND upper(p) = 'X'",
        "ts * 2 >= 10",
        "st.a IN (SELECT 1)",
        "p LIKE 'x%' -- i > 5",
        "NOT bo OR d > 0",
        "identifier('p') = 'x'",
    ]
    for where in [*texts, *(filter_of(classic) for filter_of, _ in FILTERS[::5])]:
        frame = penstock_spark.table(spark, path, ["i", "id"], where)
        assert frame.columns == ["i", "id"]
        assert rows_of(frame) == rows_of(plain.where(where).select("i", "id")), str(where)
    plain.unpersist()


def test_table_of_a_server_and_a_time(either: Any, golden: Any, rows_of: RowsOf) -> None:
    query = next(q for q in golden.case(either.case)["queries"] if q["as_of"] and not q["error"])
    options = {"server": either.options.get("server"), "asOf": query["as_of"]}
    expected = golden.expected(either.case, query["id"])
    assert rows_of(penstock_spark.table(either.spark, either.target, **options)) == rows_of(expected)
    narrow = penstock_spark.table(either.spark, either.target, ["ts"], **options)
    assert rows_of(narrow) == rows_of(expected.select(["ts"]))
    low = sorted(expected["ts"].to_pylist())[expected.num_rows // 2]
    filtered = penstock_spark.table(either.spark, either.target, where=f"ts >= {low}", **options)
    assert rows_of(filtered) == rows_of(expected.filter(pc.greater_equal(expected["ts"], low)))


def test_errors_name_what_is_wrong(spark: SparkSession, golden: Any) -> None:
    path = str(golden.table(CASE))
    with pytest.raises(ConfigurationError, match="no column 'nosuch'"):
        penstock_spark.table(spark, path, ["nosuch"], "i > 5")
    with pytest.raises(ConfigurationError, match="no column 'nosuch'"):
        penstock_spark.table(spark, path, ["nosuch"])
    with pytest.raises(PySparkException, match=r"UNRESOLVED_COLUMN.*nosuch"):
        penstock_spark.table(spark, path, ["i"], "nosuch > 5")
    with pytest.raises(PySparkException, match=r"UNRESOLVED_ROUTINE.*nosuch"):
        penstock_spark.table(spark, path, ["i"], "nosuch(i) > 5")
    with pytest.raises(ConfigurationError, match="columns='i': expected a list"):
        penstock_spark.table(spark, path, "i")
    with pytest.raises(ConfigurationError, match="option Where: give the argument where"):
        penstock_spark.table(spark, path, Where="i > 5")
    with pytest.raises(ConfigurationError, match="option limit with a where"):
        penstock_spark.table(spark, path, where="i > 5", limit=3)
