"""Options, declared schemas and SQL views of a batch read; errors a user can act on."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]
META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]


def test_columns_have_the_requested_order(either: Any, golden: Any, rows_of: RowsOf) -> None:
    frame = either.read(columns="ts, _HOODIE_record_key")
    assert frame.columns == ["ts", "_hoodie_record_key"]
    assert rows_of(frame) == rows_of(golden.expected(either.case, "snapshot").select(frame.columns))


def test_every_column_is_nullable_and_meta_columns_come_first(either: Any) -> None:
    schema = either.read().schema
    assert schema.fieldNames()[:5] == META
    assert all(field.nullable for field in schema)


def test_where_filters_rows_of_the_merged_table(either: Any, golden: Any, rows_of: RowsOf) -> None:
    expected = golden.expected(either.case, "snapshot")
    low = sorted(expected["ts"].to_pylist())[expected.num_rows // 2]
    remaining = expected.filter(pa.compute.greater_equal(expected["ts"], low))
    assert 0 < remaining.num_rows < expected.num_rows
    assert rows_of(either.read(where=f"ts >= {low}")) == rows_of(remaining)


def test_limit_stops_each_split(either: Any, golden: Any, rows_of: RowsOf) -> None:
    everything = rows_of(golden.expected(either.case, "snapshot"))
    limited = rows_of(either.read(limit="1"))
    assert 1 <= limited.total() < everything.total()
    assert limited <= everything
    assert rows_of(either.read(limit="0")).total() == 0
    assert rows_of(either.read(limit="100000")) == everything


@pytest.mark.parametrize("batch_rows", ["1", "7"])
def test_small_batches_give_the_same_rows(either: Any, golden: Any, rows_of: RowsOf, batch_rows: str) -> None:
    assert rows_of(either.read(batchRows=batch_rows)) == rows_of(golden.expected(either.case, "snapshot"))


@pytest.mark.parametrize(
    "case", ["A_types_v9_h120", "A_types_v6_h0150", "A_part_special_v9_h120", "A_part_special_v6_h0150"]
)
def test_types_and_partition_values_arrive_exactly(
    spark: SparkSession, golden: Any, rows_of: RowsOf, case: str
) -> None:
    """Decimals, both timestamps, binary, arrays, maps and structs in structs; partition values of odd characters."""
    frame = spark.read.format("penstock").load(str(golden.table(case)))
    assert rows_of(frame) == rows_of(golden.expected(case, "snapshot"))


def test_batch_read_optimized_returns_base_files(either: Any, golden: Any, rows_of: RowsOf) -> None:
    assert rows_of(either.read(query="read_optimized")) == rows_of(golden.expected(either.case, "read_optimized"))


def test_batch_as_of_returns_the_earlier_state(either: Any, golden: Any, rows_of: RowsOf) -> None:
    query = next(q for q in golden.case(either.case)["queries"] if q["as_of"] and not q["error"])
    assert rows_of(either.read(asOf=query["as_of"])) == rows_of(golden.expected(either.case, query["id"]))


def test_batch_incremental_returns_the_range(spark: SparkSession, golden: Any, rows_of: RowsOf) -> None:
    table = str(golden.table("B_v9_inc_mor"))
    for query in golden.case("B_v9_inc_mor")["queries"]:
        if query["id"] in ("inc_01", "inc_03", "inc_04", "inc_2_to_last1"):
            frame = (
                spark.read.format("penstock")
                .options(query="incremental", after=query["begin"], upto=query["end"])
                .load(table)
            )
            assert rows_of(frame) == rows_of(golden.expected("B_v9_inc_mor", query["id"])), query["id"]


def test_declared_schema_reads_only_its_columns(either: Any, spark: SparkSession, golden: Any, rows_of: RowsOf) -> None:
    declared = st.StructType(
        [st.StructField("TS", st.LongType()), st.StructField("_hoodie_record_key", st.StringType(), False)]
    )
    frame = spark.read.format("penstock").schema(declared).options(**either.options).load(either.target)
    assert frame.columns == ["TS", "_hoodie_record_key"]
    expected = golden.expected(either.case, "snapshot").select(["ts", "_hoodie_record_key"])
    assert rows_of(frame) == rows_of(expected.rename_columns(frame.columns))


def test_declared_type_that_differs_from_the_tables_is_refused(either: Any, spark: SparkSession) -> None:
    frame = spark.read.format("penstock").schema("ts string").options(**either.options).load(either.target)
    with pytest.raises(PySparkException, match="column ts: the table's type is bigint, but the DataFrame's is string"):
        frame.count()


def test_temporary_view_reads_the_table(either: Any, spark: SparkSession, golden: Any, rows_of: RowsOf) -> None:
    options = {"path": either.target, "columns": "_hoodie_record_key,ts", **either.options}
    listed = ", ".join(f"{name} '{value}'" for name, value in options.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING penstock OPTIONS ({listed})")
    expected = golden.expected(either.case, "snapshot").select(["_hoodie_record_key", "ts"])
    assert rows_of(spark.table("v")) == rows_of(expected)
    one = expected["_hoodie_record_key"][0].as_py()
    assert spark.sql(f"SELECT * FROM v WHERE _hoodie_record_key = '{one}'").count() == 1
    assert spark.sql("SELECT count(*) FROM v").head() == (expected.num_rows,)
    spark.catalog.dropTempView("v")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"colums": "ts"}, "unknown option 'colums'.*did you mean columns"),
        ({"columns": "nosuch"}, "no column 'nosuch'"),
        ({"query": "incremental"}, "query=incremental needs the option after"),
        ({"query": "cdc"}, "query=cdc needs the option after"),
        ({"cdcFormat": "rows"}, "option cdcFormat is the format of changes: give query=cdc"),
        ({"limit": "-1"}, "option limit: got -1, expected a whole number"),
        ({"upto": "latest"}, "upto bounds a range of instants, but query=snapshot"),
    ],
)
def test_wrong_option_is_an_error_that_names_it(
    spark: SparkSession, golden: Any, options: dict[str, str], text: str
) -> None:
    table = str(golden.table("A_fuzz_event_long_s1_v9_h120"))
    with pytest.raises(PySparkException, match=f"(?s){text}"):
        spark.read.format("penstock").options(**options).load(table).count()


def test_bad_filter_is_an_error(either: Any) -> None:
    with pytest.raises(PySparkException, match="nosuch"):
        either.read(where="nosuch = 3").count()


def test_path_without_a_table_is_an_error(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    with pytest.raises(PySparkException, match=r"(?s)TableNotFound.*nothing_here"):
        spark.read.format("penstock").load(str(tmp_path / "nothing_here"))


def test_table_unknown_to_the_server_is_an_error(spark: SparkSession, server: Any) -> None:
    with pytest.raises(PySparkException, match="no table 'other' is registered"):
        spark.read.format("penstock").option("server", server.address).load("other")


def test_empty_range_has_no_rows(either: Any, golden: Any) -> None:
    frame = either.read(query="incremental", after="99990101000000000")
    assert frame.count() == 0
    assert frame.columns[:5] == META


def test_source_can_be_registered_explicitly(spark: SparkSession, golden: Any) -> None:
    from penstock.spark import register

    register(spark)
    register(spark)
    assert spark.read.format("PENSTOCK").load(str(golden.table("B_v6_inc_mor"))).count() == 7
