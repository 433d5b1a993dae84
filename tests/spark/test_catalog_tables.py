"""`CREATE TABLE … USING penstock`: rows, options, freshness, and statements that must not change the lake."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.enumerator.server.run import serve

RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]
CASE = "A_fuzz_event_long_s1_v9_h120"
WHERE = "\"id > 'id-020'\""
"""A condition as a string of Spark's SQL."""


def files(table: pathlib.Path) -> dict[str, int]:
    return {str(file.relative_to(table)): file.stat().st_mtime_ns for file in table.rglob("*") if file.is_file()}


def test_table_has_the_rows_of_hudi_and_its_options(session: SparkSession, golden: Any, rows_of: RowsOf) -> None:
    path = golden.table(CASE)
    (as_of,) = (query["as_of"] for query in golden.case(CASE)["queries"] if query["id"] == "time_travel_1")
    session.sql(f"CREATE TABLE t USING penstock OPTIONS (path '{path}')")
    assert rows_of(session.table("t")) == rows_of(golden.expected(CASE, "snapshot"))
    session.sql(f"CREATE TABLE earlier USING penstock OPTIONS (asOf '{as_of}') LOCATION '{path}'")
    earlier = rows_of(session.table("earlier"))
    assert earlier == rows_of(golden.expected(CASE, "time_travel_1")) != rows_of(session.table("t"))
    both = session.sql("SELECT * FROM t UNION ALL SELECT * FROM earlier UNION ALL SELECT * FROM t")
    assert rows_of(both) == earlier + rows_of(session.table("t")) + rows_of(session.table("t"))

    session.sql(f"CREATE TABLE narrow USING penstock OPTIONS (columns 'id', where {WHERE}) LOCATION '{path}'")
    expected = Counter(row for row in golden.expected(CASE, "snapshot")["id"].to_pylist() if row > "id-020")
    assert session.table("narrow").columns == ["id"]
    assert Counter(row.id for row in session.table("narrow").collect()) == expected


@pytest.mark.exhaustive
@pytest.mark.parametrize("session", ["classic"], indirect=True)
def test_each_query_reads_the_newest_snapshot(session: SparkSession, golden: Any, enumerator_log: Any) -> None:
    """A view keeps the plan of its first query; a table of the catalog does not."""
    with serve({"orders": str(golden.table(CASE))}, "127.0.0.1:0", poll_interval_ms=200) as server:
        session.sql(f"CREATE TABLE t USING penstock OPTIONS (path 'orders', server '{server.address}')")
        counts = [session.sql("SELECT count(*) AS n FROM t").first().n for _ in range(2)]  # type: ignore[union-attr]
        assert counts == [golden.expected(CASE, "snapshot").num_rows] * 2
        assert len({plan["plan"] for plan in enumerator_log.events("plan opened")}) == 2


def test_options_of_one_reference_are_refused(spark: SparkSession, golden: Any) -> None:
    """Spark would apply them to the other reference too: a wrong result."""
    spark.sql(f"CREATE TABLE t USING penstock OPTIONS (path '{golden.table(CASE)}', columns 'id')")
    try:
        with pytest.raises(PySparkException, match=r"read with options \(where\).*every reference of the table"):
            spark.sql(f"SELECT * FROM t WITH (where = {WHERE}) UNION ALL SELECT * FROM t").collect()
    finally:
        spark.sql("DROP TABLE t")


@pytest.mark.parametrize("session", ["connect"], indirect=True)
def test_stream_reads_a_table_of_the_catalog(session: SparkSession, golden: Any, tmp_path: pathlib.Path) -> None:
    session.sql(f"CREATE TABLE t USING penstock OPTIONS (path '{golden.table(CASE)}', columns 'id')")
    writer = session.readStream.table("t").writeStream.format("memory").queryName("seen").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    assert query.awaitTermination(120)
    expected = golden.expected(CASE, "snapshot")["id"].to_pylist()
    assert Counter(row.id for row in session.table("seen").collect()) == Counter(expected)


def test_no_statement_changes_the_lake(spark: SparkSession, golden: Any, tmp_path: pathlib.Path) -> None:
    path = golden.copy(CASE, tmp_path)
    before = files(path)
    assert len(before) > 10
    spark.sql(f"CREATE TABLE t USING penstock OPTIONS (path '{path}', columns 'id')")
    for statement in (
        "INSERT INTO t VALUES (1)",
        "INSERT OVERWRITE t VALUES (1)",
        "TRUNCATE TABLE t",
        "DELETE FROM t WHERE id = 1",
        f"CREATE TABLE u USING penstock LOCATION '{path}' AS SELECT 1 AS id",
    ):
        with pytest.raises(PySparkException):
            spark.sql(statement)
    spark.sql("DROP TABLE t PURGE")
    assert files(path) == before


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("statement", "error"),
    [
        (
            "CREATE TABLE t (id INT) USING penstock OPTIONS (path '{path}')",
            "created with a list of columns cannot work",
        ),
        ("CREATE TABLE t USING penstock", "no path: give LOCATION"),
        ("CREATE TABLE t USING penstock OPTIONS (path '{path}', colums 'id')", "did you mean columns"),
        ("CREATE TABLE t USING penstock OPTIONS (path '/no/such/table')", "TableNotFound"),
        ("CREATE TABLE t USING penstock OPTIONS (path '{path}') TBLPROPERTIES ('asOf' = '2026')", "no effect there"),
    ],
)
def test_statement_that_cannot_work_says_why(spark: SparkSession, golden: Any, statement: str, error: str) -> None:
    try:
        with pytest.raises(PySparkException, match=error):
            spark.sql(statement.format(path=golden.table(CASE)))
            spark.table("t").collect()
    finally:
        spark.sql("DROP TABLE IF EXISTS t")


@pytest.mark.exhaustive
def test_location_with_blanks_and_signs_is_read(spark: SparkSession, golden: Any, tmp_path: pathlib.Path) -> None:
    path = golden.copy(CASE, tmp_path).rename(tmp_path / "my table#1%20ä")
    spark.sql(f"CREATE TABLE t USING penstock LOCATION '{path}'")
    try:
        assert spark.table("t").count() == golden.expected(CASE, "snapshot").num_rows
    finally:
        spark.sql("DROP TABLE t")
