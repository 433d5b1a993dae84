"""The table-valued functions in SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.enumerator.server.run import serve
from penstock.spark import register_functions

RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]
CASE = "B_v9_cdc_mor_data_before"


def test_changes_have_the_rows_of_the_source(session: SparkSession, golden: Any, rows_of: RowsOf) -> None:
    """`penstock.read`'s changes are compared with Hudi's by the golden suite."""
    path = str(golden.table(CASE))
    register_functions(session)
    instants = [row["completion_time"] for row in table_rows(session, f"penstock_timeline('{path}')")]
    middle = sorted(filter(None, instants))[len(instants) // 2]
    for after, upto in (("earliest", None), ("earliest", middle), (middle, None)):
        expected = penstock.read(path, query="cdc", after=after, upto=upto).read_all()
        assert expected.num_rows > 1
        end = "" if upto is None else f", '{upto}'"
        frame = session.sql(f"SELECT * FROM penstock_changes('{path}', '{after}'{end})")
        assert frame.columns == expected.column_names
        assert rows_of(frame) == rows_of(expected)
    by_kind = (
        f"SELECT _change_type, id FROM penstock_changes('{path}', after => 'earliest', where => 'v > 20') ORDER BY id"
    )
    kept = penstock.read(path, query="cdc", after="earliest", where="v > 20", columns=["_change_type", "id"]).read_all()
    assert rows_of(session.sql(by_kind)) == rows_of(kept)


def table_rows(session: SparkSession, function: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = session.sql(f"SELECT * FROM {function}").toArrow().to_pylist()
    return rows


@pytest.mark.exhaustive
def test_every_type_of_a_table_passes_a_function(spark: SparkSession, golden: Any, rows_of: RowsOf) -> None:
    path = str(golden.table("B_v9_cdc_types_mor"))
    register_functions(spark)
    source = spark.read.format("penstock").options(query="cdc", after="earliest").load(path)
    frame = spark.sql(f"SELECT * FROM penstock_changes('{path}', 'earliest')")
    assert [field.dataType for field in frame.schema] == [field.dataType for field in source.schema]
    assert rows_of(frame) == rows_of(source)


@pytest.mark.exhaustive
@pytest.mark.parametrize("session", ["classic"], indirect=True)
def test_functions_resolve_names_on_a_server(session: SparkSession, golden: Any) -> None:
    path = str(golden.table(CASE))
    with serve({"orders": path}, "127.0.0.1:0") as server:
        register_functions(session, server=server.address)
        count = session.sql("SELECT count(*) AS n FROM penstock_changes('orders', 'earliest')").first()
        assert count is not None
        assert count.n == penstock.read(path, query="cdc", after="earliest").read_all().num_rows
        assert len(table_rows(session, "penstock_timeline('orders')")) > 3
        sizes = session.sql(
            "SELECT sum(size_bytes) AS n, count(DISTINCT file_group) AS g FROM penstock_splits('orders')"
        )
        (row,) = sizes.collect()
        assert row.n > 0
        assert row.g > 0


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("penstock_changes('/no/such/table', 'earliest')", "TableNotFound"),
        ("penstock_changes('{path}')", "query=cdc needs the option after"),
        ("penstock_changes('{path}', 'earliest', colums => 'id')", "colums"),
        ("penstock_timeline(rand())", "is not a constant"),
        ("penstock_timeline(NULL)", "the argument table is NULL"),
        ("penstock_splits('{path}', current_timestamp())", "expected STRING"),
    ],
)
def test_bad_argument_fails_at_analysis(spark: SparkSession, golden: Any, call: str, error: str) -> None:
    register_functions(spark)
    with pytest.raises(PySparkException, match=error):
        spark.sql(f"SELECT * FROM {call.format(path=golden.table(CASE))}")
