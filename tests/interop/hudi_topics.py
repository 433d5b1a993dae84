"""Writes of Hudi from a topic: one range of it as one commit, or the micro-batches of a streaming query.

Runs in the process of `hudi_writer`, with the Python of the peer environment; never imported by the suite. Combines
Spark's Kafka source with Hudi's two writers. tests/hybrid decides the ranges.
"""

import json
import pathlib


def write_range(spark, request):
    """Exactly the offsets [begin, end) of each partition, with `options`, in one Hudi write."""
    path = pathlib.Path(request["path"])
    raw = (
        spark.read.format("kafka")
        .options(**connection(request))
        .option("subscribe", request["topic"])
        .option("startingOffsets", json.dumps({request["topic"]: request["begin"]}))
        .option("endingOffsets", json.dumps({request["topic"]: request["end"]}))
        .load()
    )
    mode = "append" if (path / ".hoodie").is_dir() else "overwrite"
    shaped(raw, request).coalesce(1).write.format("hudi").options(**request["options"]).mode(mode).save(str(path))


def run_sink(spark, request):
    """A streaming query from the topic to Hudi, from its checkpoint to the current end of the topic."""
    raw = (
        spark.readStream.format("kafka")
        .options(**connection(request))
        .option("subscribe", request["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", request["at_most"])
        .load()
    )
    query = (
        shaped(raw, request)
        .coalesce(1)
        .writeStream.format("hudi")
        .options(**request["options"])
        .option("checkpointLocation", request["checkpoint"])
        .outputMode("append")
        .trigger(availableNow=True)
        .start(request["path"])
    )
    query.awaitTermination()


def connection(request):
    """Reads only committed records; lost data is an error."""
    return {"kafka.bootstrap.servers": request["bootstrap"], "kafka.isolation.level": "read_committed"}


def shaped(raw, request):
    """`columns` are SQL expressions over `k` (the key as text), `v` (the value, a struct of `fields`), `has_value` and
    `at_ms` (the record's time)."""
    return (
        raw.selectExpr(
            "CAST(key AS STRING) AS k",
            f"from_json(CAST(value AS STRING), '{request['fields']}') AS v",
            "value IS NOT NULL AS has_value",
            "unix_millis(timestamp) AS at_ms",
        )
        .where(request["where"])
        .selectExpr(*request["columns"])
    )
