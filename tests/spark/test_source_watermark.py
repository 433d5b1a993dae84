"""The enumerator's watermark in Spark: the columns, the helper, windows that close, a stream that ends."""

from __future__ import annotations

import datetime as dt
import pathlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.proto.errors import ConfigurationError
from penstock.spark import await_end, with_source_watermark
from tests.progress import PROGRESS_S
from tests.streaming.trail import carried_us

RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]
CASE = "A_merge_event_timestamp_v9_h120"
"""Six commits with event times from 5 to 9 o'clock, unordered; the last one holds the lowest and a middle one. A later
commit replaces all rows of the third and of the fifth."""
LAST = "20261120213117962"
COLUMNS = ["_penstock_watermark", "_penstock_marker"]
LOWEST_US = int(dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC).timestamp()) * 1_000_000 + 5
"""The lowest event time, of the last commit."""
END_US = int(dt.datetime(9999, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000
"""The watermark of a stream that ended."""


class MicroBatches:
    """Collects the rows of each micro-batch by its id."""

    def __init__(self) -> None:
        self.tables: dict[int, pa.Table] = {}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.tables[batch_id] = frame.toArrow()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All of them, in order."""
        return [row for table in self.tables.values() for row in table.to_pylist()]


def timed(spark: SparkSession, golden: Any, **options: str) -> DataFrame:
    """A stream by event time with an end."""
    arguments = {
        "eventTime": "ts",
        "maxOutOfOrderness": "0s",
        "after": "earliest",
        "upto": LAST,
        "maxCommitsPerTrigger": "1",
    }
    return spark.readStream.format("penstock").options(**{**arguments, **options}).load(str(golden.table(CASE)))


def to_its_end(frame: DataFrame, folder: pathlib.Path, mode: str = "append") -> tuple[MicroBatches, list[Any]]:
    """Runs a query until it ends: its micro-batches and their progress."""
    batches = MicroBatches()
    writer = frame.writeStream.foreachBatch(batches).outputMode(mode)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        await_end(query, PROGRESS_S)
    finally:
        query.stop()
    return batches, query.recentProgress


def test_every_row_carries_its_watermark_and_the_end_a_marker(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    frame = timed(spark, golden)
    assert frame.columns[-2:] == COLUMNS
    batches, _ = to_its_end(frame, tmp_path)
    markers = [row for row in batches.rows if row["_penstock_marker"]]
    assert [(row["id"], row["ts"] is None) for row in markers] == [(None, False)]
    *before, last = [set(marks) for table in batches.tables.values() if (marks := carried_us(table))]
    assert before == [{LOWEST_US - 1}] * 3, "the last commit, which is known, still brings the lowest event time"
    assert last == {END_US}
    plain = spark.read.format("penstock").options(query="incremental", after="earliest").load(str(golden.table(CASE)))
    ids = Counter(row["id"] for row in batches.rows if not row["_penstock_marker"])
    assert set(plain.columns).isdisjoint(COLUMNS)
    assert set(ids) >= {row["id"] for row in plain.collect()}


def test_tumbling_window_holds_every_row(spark: SparkSession, golden: Any, tmp_path: pathlib.Path) -> None:
    """A query that ends emits all windows, and no row was late."""
    frame = with_source_watermark(timed(spark, golden), "ts")
    assert set(frame.columns).isdisjoint(COLUMNS)
    counts = frame.groupBy(F.window("ts", "1 hour")).count().select(F.hour("window.start").alias("hour"), "count")
    batches, progress = to_its_end(counts, tmp_path)
    plain = spark.readStream.format("penstock").options(after="earliest", maxCommitsPerTrigger="1")
    rows = MicroBatches()
    query = plain.load(str(golden.table(CASE))).writeStream.foreachBatch(rows)
    assert (
        query.option("checkpointLocation", str(tmp_path / "plain"))
        .trigger(availableNow=True)
        .start()
        .awaitTermination(PROGRESS_S)
    )
    expected = Counter(row["ts"].hour for row in rows.rows)
    assert len(expected) == 5
    assert {row["hour"]: row["count"] for row in batches.rows} == expected
    assert len(batches.rows) == len(expected), "each window once"
    assert sum(op["numRowsDroppedByWatermark"] for p in progress for op in p["stateOperators"]) == 0


def test_finite_end_lets_a_window_stay_open(spark: SparkSession, golden: Any, tmp_path: pathlib.Path) -> None:
    frame = with_source_watermark(timed(spark, golden, endWatermark="30 minutes"), "ts")
    counts = frame.groupBy(F.window("ts", "1 hour")).count().select(F.hour("window.start").alias("hour"))
    batches, _ = to_its_end(counts, tmp_path)
    assert sorted(row["hour"] for row in batches.rows) == [5, 6, 7, 8], (
        "the hour of 9 ends at 10:00, the watermark 09:30"
    )


def test_last_window_of_an_idle_table_closes_by_the_clock(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path
) -> None:
    """Without new rows the watermark stays at the highest row, in the last window of a second. After one more second
    this window is emitted too. No marker row is counted."""
    options = {"eventTime": "ts", "maxOutOfOrderness": "0s", "after": "earliest", "idleTimeout": "1s"}
    load = spark.readStream.format("penstock").options(**options).load(str(golden.table(CASE)))
    counts = with_source_watermark(load, "ts").groupBy(F.window("ts", "1 second")).count()
    batches = MicroBatches()
    writer = counts.select(F.hour("window.start").alias("hour"), "count").writeStream.foreachBatch(batches)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        waits, expected = 0, Counter(time.hour for time in golden.expected(CASE, "snapshot")["ts"].to_pylist())
        while len(batches.rows) < len(expected) and waits < 10 * PROGRESS_S:
            assert not query.awaitTermination(0.1)
            waits += 1
        assert {row["hour"]: row["count"] for row in batches.rows} == expected
        assert max(expected) == 9
    finally:
        query.stop()


def test_sql_over_a_view_whose_filter_does_not_hold_the_watermark_back(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path
) -> None:
    """The last micro-batch has neither a row nor a marker of that hour; its watermark still counts."""
    with_source_watermark(timed(spark, golden), "TS").createOrReplaceTempView("timed_rows")
    frame = spark.sql("select count(*) as n from timed_rows where hour(ts) = 6 group by window(ts, '1 hour')")
    batches, _ = to_its_end(frame, tmp_path)
    assert batches.rows == [{"n": 1}]


def test_batch_has_the_columns_and_takes_the_helper(spark: SparkSession, golden: Any, rows_of: RowsOf) -> None:
    load = spark.read.format("penstock").option("eventTime", "ts").load(str(golden.table(CASE)))
    assert {(row[COLUMNS[0]], row[COLUMNS[1]]) for row in load.collect()} == {(None, False)}
    expected = rows_of(golden.expected(CASE, "snapshot"))
    assert rows_of(with_source_watermark(load, "ts")) == expected
    assert rows_of(load.drop(*COLUMNS)) == expected


def test_declared_schema_holds_the_columns(spark: SparkSession, golden: Any, tmp_path: pathlib.Path) -> None:
    options = {"eventTime": "ts", "maxOutOfOrderness": "0s", "upto": LAST}
    reader = spark.readStream.format("penstock").options(**options)
    declared = "_penstock_marker boolean, ts timestamp, _penstock_watermark timestamp"
    batches, _ = to_its_end(reader.schema(declared).load(str(golden.table(CASE))), tmp_path)
    assert [row["_penstock_marker"] for row in batches.rows].count(True) == 1
    assert len(batches.rows) == golden.expected(CASE, "snapshot").num_rows + 1
    bare = reader.schema("ts timestamp, id string").load(str(golden.table(CASE)))
    with pytest.raises(Exception, match=r"(?s)ConfigurationError.*_penstock_watermark"):
        to_its_end(bare, tmp_path / "bare")


def test_helper_refuses_invalid_arguments(spark: SparkSession, golden: Any) -> None:
    plain = spark.read.format("penstock").load(str(golden.table(CASE)))
    with pytest.raises(ConfigurationError, match="no column _penstock_watermark: load it with the option eventTime"):
        with_source_watermark(plain, "ts")
    frame = timed(spark, golden)
    for name, text in (("id", "column id is a string"), ("when", "when"), (COLUMNS[0], "the source's own column")):
        with pytest.raises(ConfigurationError, match=text):
            with_source_watermark(frame, name)
    with pytest.raises(ConfigurationError, match="delay_ms=-1"):
        with_source_watermark(frame, "ts", -1)
    as_long = frame.withColumn("ts", F.unix_millis("ts"))
    with pytest.raises(ConfigurationError, match=r"column ts is a bigint.*timestamp_millis"):
        with_source_watermark(as_long, "ts")
    again = with_source_watermark(as_long.withColumn("ts", F.timestamp_millis("ts")), "ts")
    assert again.schema["ts"].metadata == {"spark.watermarkDelayMs": 0}


def test_await_end_gives_up(spark: SparkSession, golden: Any, tmp_path: pathlib.Path) -> None:
    endless = spark.readStream.format("penstock").load(str(golden.table(CASE))).writeStream.foreachBatch(MicroBatches())
    query = endless.option("checkpointLocation", str(tmp_path)).start()
    try:
        with pytest.raises(TimeoutError, match="did not end within"):
            await_end(query, 0.5)
        assert query.isActive
    finally:
        query.stop()
