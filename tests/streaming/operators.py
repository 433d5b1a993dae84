"""Each operator in Spark, as a user writes it, and its model.

A stream's rows are converted to the model's form: window's start in microseconds, `g`, the sorted `n` of the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark import with_source_watermark
from tests.streaming import reference_model as model

S = 1_000_000
HORIZON_S = 20
BEFORE_US, AFTER_US = 5_600_000, 3_600_000


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator over `sources` streams, and its model."""

    sources: int
    built: Callable[..., DataFrame]
    expected: Callable[[Sequence[model.Step]], model.Emitted]
    delay_s: int = 0

    def on(self, spark: SparkSession, *streams: DataFrame) -> DataFrame:
        """The query over the results of `load()`."""
        watermarked = [with_source_watermark(df, "ts", self.delay_s * 1000) for df in streams]
        return self.built(spark, *watermarked)


def _windows(df: DataFrame, *window: str) -> DataFrame:
    return df.groupBy(F.window("ts", *window).alias("w"), "g").agg(F.sort_array(F.collect_list("n")).alias("n"))


def tumbling(spark: SparkSession, df: DataFrame) -> DataFrame:
    return _windows(df, "10 seconds").select(F.unix_micros("w.start"), "g", "n")


def sliding(spark: SparkSession, df: DataFrame) -> DataFrame:
    return _windows(df, "10 seconds", "5 seconds").select(F.unix_micros("w.start"), "g", "n")


def session(spark: SparkSession, df: DataFrame) -> DataFrame:
    grouped = df.groupBy(F.session_window("ts", "5 seconds").alias("w"), "g")
    windowed = grouped.agg(F.sort_array(F.collect_list("n")).alias("n"))
    return windowed.select(F.unix_micros("w.start"), F.unix_micros("w.end"), "g", "n")


def window_join(spark: SparkSession, left: DataFrame, right: DataFrame) -> DataFrame:
    one, other = _windows(left, "10 seconds").alias("l"), _windows(right, "10 seconds").alias("r")
    joined = one.join(other, (F.col("l.w") == F.col("r.w")) & (F.col("l.g") == F.col("r.g")))
    return joined.select(F.unix_micros("l.w.start"), "l.g", "l.n", "r.n")


def tumbling_sql(spark: SparkSession, df: DataFrame) -> DataFrame:
    df.createOrReplaceTempView("events")
    return spark.sql(
        "SELECT unix_micros(window.start), g, sort_array(collect_list(n)) FROM events "
        "GROUP BY window(ts, '10 seconds'), g"
    )


def window_join_sql(spark: SparkSession, left: DataFrame, right: DataFrame) -> DataFrame:
    left.createOrReplaceTempView("orders")
    right.createOrReplaceTempView("payments")
    return spark.sql(
        """
        WITH o AS (
          SELECT window, g, sort_array(collect_list(n)) AS n FROM orders GROUP BY window(ts, '10 seconds'), g
        ), p AS (
          SELECT window, g, sort_array(collect_list(n)) AS n FROM payments GROUP BY window(ts, '10 seconds'), g
        )
        SELECT unix_micros(o.window.start), o.g, o.n, p.n FROM o JOIN p ON o.window = p.window AND o.g = p.g
        """
    )


def interval_inner(spark: SparkSession, left: DataFrame, right: DataFrame) -> DataFrame:
    return _interval(left, right, "inner")


def interval_left(spark: SparkSession, left: DataFrame, right: DataFrame) -> DataFrame:
    return _interval(left.where("ts IS NOT NULL"), right, "left")


def _interval(left: DataFrame, right: DataFrame, how: str) -> DataFrame:
    one = left.select("ts", "g", "n")
    other = right.select(F.col("ts").alias("ts2"), F.col("g").alias("g2"), F.col("n").alias("n2"))
    near = F.expr("g = g2 AND ts2 >= ts - INTERVAL 5600 MILLISECONDS AND ts2 <= ts + INTERVAL 3600 MILLISECONDS")
    return one.join(other, near, how).select("n", "n2")


def deduplicated(spark: SparkSession, df: DataFrame) -> DataFrame:
    return df.dropDuplicatesWithinWatermark(["id"]).select("n")


def _tumbled(steps: Sequence[model.Step]) -> model.Emitted:
    return model.windows(steps, 10 * S, 10 * S)


def _joined(steps: Sequence[model.Step]) -> model.Emitted:
    return model.window_join(steps, 10 * S)


OPERATORS = {
    "tumbling": Operator(1, tumbling, _tumbled),
    "tumbling_sql": Operator(1, tumbling_sql, _tumbled),
    "sliding": Operator(1, sliding, lambda steps: model.windows(steps, 10 * S, 5 * S)),
    "session": Operator(1, session, lambda steps: model.sessions(steps, 5 * S)),
    "window_join": Operator(2, window_join, _joined),
    "window_join_sql": Operator(2, window_join_sql, _joined),
    "interval_inner": Operator(2, interval_inner, lambda s: model.interval_join(s, BEFORE_US, AFTER_US, outer=False)),
    "interval_left": Operator(2, interval_left, lambda s: model.interval_join(s, BEFORE_US, AFTER_US, outer=True)),
    "deduplicated": Operator(1, deduplicated, lambda s: model.deduplicated(s, HORIZON_S * S), HORIZON_S),
}


def as_rows(table: pa.Table) -> Counter[Hashable]:
    """Spark's rows in the model's form."""
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    rows = zip(*columns, strict=True)
    return Counter(row[0] if len(row) == 1 else row for row in rows)


def _plain(value: object) -> Hashable:
    return tuple(value) if isinstance(value, list) else value  # type: ignore[return-value]
