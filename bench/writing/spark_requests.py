"""Requests of `compared.spark_worker` for writes from Spark by Penstock, and for the bytes that Spark shuffled."""

from __future__ import annotations

import pathlib
import tempfile
import time
from typing import TYPE_CHECKING, Any

import penstock.spark
from bench.writing.object_rows import write_objects

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write(spark: SparkSession, request: dict[str, Any]) -> None:
    """One write of a query's rows, with one object per record on request."""
    rows = spark.sql(request["select"])
    if request["objects"]:
        write_objects(rows, request["path"], request["operation"])
    else:
        penstock.spark.write(rows, request["path"], request["operation"])


def stream(spark: SparkSession, request: dict[str, Any]) -> dict[str, list[float]]:
    """Streams a folder of Parquet files, one file in each micro-batch, into the table by the sink. Returns the seconds
    that the sink took for each of them, and those of the whole micro-batch."""
    sinks: list[float] = []
    with tempfile.TemporaryDirectory() as checkpoint:
        sink = penstock.spark.sink(request["path"], request["operation"], checkpoint=checkpoint)

        def timed(df: DataFrame, batch_id: int) -> None:
            began = time.perf_counter()
            sink(df, batch_id)
            sinks.append(time.perf_counter() - began)

        rows = spark.readStream.schema(spark.read.parquet(request["rows"]).schema).option("maxFilesPerTrigger", 1)
        query = (
            rows.parquet(request["rows"])
            .writeStream.foreachBatch(timed)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        whole = [progress["durationMs"]["triggerExecution"] / 1000 for progress in query.recentProgress]
    files = len(list(pathlib.Path(request["rows"]).glob("*.parquet")))
    assert len(sinks) == files, f"{len(sinks)} micro-batches of {files} files"
    return {"sink": sinks, "micro-batch": whole}
