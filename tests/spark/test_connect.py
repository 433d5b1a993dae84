"""Spark Connect: a client has the rows, streams, watermarks and errors of a classic session."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock.spark
from penstock.enumerator.server.run import RunningServer
from penstock.errors import ConfigurationError
from penstock.spark import await_end, with_source_watermark
from tests.progress import PROGRESS_S

RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]
CASES = {"v9": "A_fuzz_event_long_s1_v9_h120", "v6": "B_v6_inc_mor"}
"""Tables that the fixture `server` serves."""
TIMED = "A_merge_event_timestamp_v9_h120"
"""Six commits with event times from 5 to 9 o'clock."""
LAST = "20261120213117962"


@pytest.mark.parametrize(("version", "deployment"), [("v9", "server"), ("v6", "embedded")])
def test_client_reads_the_rows_of_hudi(
    connect: SparkSession, golden: Any, server: RunningServer, version: str, deployment: str, rows_of: RowsOf
) -> None:
    case = CASES[version]
    reader = connect.read.format("penstock")
    if deployment == "server":
        frame = reader.options(server=server.address, slots="3").load(case)
    else:
        frame = reader.load(str(golden.table(case)))
    expected = golden.expected(case, "snapshot")
    assert rows_of(frame) == rows_of(expected)
    keys = expected["_hoodie_record_key"].to_pylist()
    above = frame.where(F.col("_hoodie_record_key") > min(keys)).select("_hoodie_record_key")
    assert above.count() == len([key for key in keys if key > min(keys)]) < len(keys)


def test_client_pushes_columns_and_filters_down(connect: SparkSession, golden: Any, rows_of: RowsOf) -> None:
    path, expected = str(golden.table(CASES["v9"])), golden.expected(CASES["v9"], "snapshot")
    kept = expected.filter(pc.greater(expected["id"], "id-020")).select(["id", "ts"])
    assert 0 < kept.num_rows < expected.num_rows
    for where in ("id > 'id-020'", F.col("id") > "id-020"):
        frame = penstock.spark.table(connect, path, columns=["id", "ts"], where=where)
        assert frame.columns == ["id", "ts"]
        assert rows_of(frame) == rows_of(kept)
    with pytest.raises(ConfigurationError, match="expected a list of names"):
        penstock.spark.table(connect, path, columns="id")


QUERY = """
WITH late AS (SELECT id, ts, p FROM orders WHERE id > 'id-020')
SELECT late.id, count(*) AS n, max(other.ts) AS newest FROM late JOIN orders other ON late.p = other.p AND other.ts >= 0
GROUP BY late.id"""


def test_client_runs_queries_of_its_own_text(
    connect: SparkSession, spark: SparkSession, golden: Any, rows_of: RowsOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of plain Spark over the materialized table; each occurrence of the table has its own scan."""
    case = CASES["v9"]
    frame = penstock.spark.sql(connect, QUERY, {"orders": str(golden.table(case))})
    rows, scans = rows_of(frame), penstock.spark.explain(frame)
    with monkeypatch.context() as classic:
        classic.delenv("SPARK_CONNECT_MODE_ENABLED")
        expected = golden.expected(case, "snapshot").select(["id", "ts", "p"])
        spark.createDataFrame(expected).createOrReplaceTempView("orders")
        assert rows == rows_of(spark.sql(QUERY))
        spark.catalog.dropTempView("orders")
    assert sum(rows.values()) > 5
    assert scans.count("  columns: ") == 2
    assert "`id` > 'id-020'" in scans
    with pytest.raises(PySparkException, match="UNRESOLVED_COLUMN"):
        penstock.spark.sql(connect, "SELECT nothing FROM orders", {"orders": str(golden.table(case))}).collect()


def timed(session: SparkSession, golden: Any) -> DataFrame:
    options = {"eventTime": "ts", "maxOutOfOrderness": "0s", "after": "earliest", "upto": LAST}
    stream = session.readStream.format("penstock").options(**options)
    return stream.load(str(golden.table(TIMED)))


def test_windows_close_by_the_watermark_of_the_source(
    connect: SparkSession, golden: Any, tmp_path: pathlib.Path
) -> None:
    """Every hour's window is emitted, with the row counts of the range, and the query ends at `upto`."""
    hours = with_source_watermark(timed(connect, golden), "ts").groupBy(F.window("ts", "1 hour")).count()
    writer = hours.writeStream.format("memory").queryName("hours").outputMode("append")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        await_end(query, PROGRESS_S)
    finally:
        query.stop()
    path = str(golden.table(TIMED))
    seen = penstock.read(path, query="incremental", after="earliest", upto=LAST, columns=["ts"]).read_all()
    emitted = {row["window"]["start"].hour: row["count"] for row in connect.table("hours").toArrow().to_pylist()}
    assert len(emitted) > 2
    assert emitted.keys() == {ts.hour for ts in seen["ts"].to_pylist()}
    assert sum(emitted.values()) >= seen.num_rows


def test_error_is_its_sentence(connect: SparkSession, tmp_path: pathlib.Path) -> None:
    with pytest.raises(PySparkException) as failed:
        connect.read.format("penstock").load(str(tmp_path / "nothing")).count()
    assert "TableNotFound: no table at" in str(failed.value)
    assert "Traceback" not in str(failed.value).partition("JVM stacktrace")[0]


def test_client_registers_the_format(connect: SparkSession, golden: Any) -> None:
    penstock.spark.register(connect)
    case = CASES["v6"]
    frame = connect.read.format("penstock").load(str(golden.table(case)))
    assert frame.count() == golden.expected(case, "snapshot").num_rows
