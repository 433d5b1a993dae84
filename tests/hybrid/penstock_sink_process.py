"""Spark with `penstock.spark.sink` in a process that stays: each round is a streaming query from a topic into a table.

Run by a Python with Penstock and PySpark:
    python -m tests.hybrid.penstock_sink_process JAR,JAR,…        the jars of Spark's Kafka source

Requests on stdin, one answer on stdout each, `{"ok": null}` or `{"error": text}`:
    {"do": "run_sink", …}     a query up to the end of the topic, as `hudi_topics.run_sink`, and how `sink` writes
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

from pyspark.sql import SparkSession

import penstock.spark
from tests.hybrid.spark_reader import SETTINGS
from tests.interop.hudi_topics import connection, shaped


def run_sink(spark: SparkSession, request: dict[str, Any]) -> None:
    """A streaming query from the topic into the table, from its checkpoint, or `starting`, to the current end of the
    topic."""
    raw = spark.readStream.format("kafka").options(**connection(request)).option("subscribe", request["topic"])
    raw = raw.option("startingOffsets", request.get("starting", "earliest"))
    raw = raw.option("maxOffsetsPerTrigger", request["at_most"])
    write = penstock.spark.sink(request["path"], checkpoint=request["checkpoint"], **request["sink"])
    query = shaped(raw.load(), request).writeStream.foreachBatch(write).trigger(availableNow=True)
    query.option("checkpointLocation", request["checkpoint"]).start().awaitTermination()


def main() -> None:
    """Answers until stdin ends. Spark's output goes to stderr: stdout carries only answers."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    builder = SparkSession.Builder().master("local[2]").appName("sink").config("spark.jars", sys.argv[1])
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print(json.dumps({"ok": spark.version}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            result: dict[str, Any] = {"ok": run_sink(spark, json.loads(line))}
        except Exception:  # noqa: BLE001 - reported to the test that asked
            result = {"error": traceback.format_exc()[-6000:]}
        print(json.dumps(result), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
