"""The driver of streams that write a topic into tables through Penstock, on a standalone cluster; tests kill it.

`python -P -m tests.interop.sink_driver REQUEST`, with the repository on the path of modules. The request is JSON
(`Request`). In its folder: the tables `upserts`, which the server has too, and `inserts`, `checkpoint/NAME`, one JSON
line per event in `progress.jsonl` and `failed.jsonl`, the notes of failpoints; the file `stop` ends the process. A
failed stream is started again; the test decides which failures are allowed.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import sys
from typing import Any, Final, TypedDict

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import penstock.spark
from penstock.engine.spark.write import rows as spark_rows
from penstock.engine.spark.write.written_batches import Batch
from tests.hybrid.lake_rounds import APPEND_COLUMNS, FIELDS, UPSERT_COLUMNS
from tests.interop.hudi_topics import connection, shaped
from tests.interop.sink_failpoints import Failpoint, HarmedWriter, harmed_rows
from tests.interop.soak_driver import run

DIES: Final = 0.06
"""The share of micro-batches after whose commit the driver is killed, before Spark's checkpoint has their end."""


SHAPES: Final = {
    "upserts": (UPSERT_COLUMNS, "true"),
    "inserts": (APPEND_COLUMNS, "NOT coalesce(v._hoodie_is_deleted, NOT has_value)"),
}
"""The columns of each table, and which records have a row there."""


class Request(TypedDict):
    """What a driver does. `dies_at`: it is killed after the commit of this micro-batch; -1: of random ones. `forgets`:
    its sink does not recognise batches that are in the table."""

    master: str
    jars: str
    bootstrap: str
    topic: str
    server: str
    folder: str
    seed: int
    every: str
    speculates: bool
    dies_at: int
    forgets: bool


def session(request: Request) -> SparkSession:
    """The session of the cluster."""
    small = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {
        "spark.jars": request["jars"],
        "spark.driver.extraJavaOptions": small,
        "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", small),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.speculation": str(request["speculates"]).lower(),
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.minTaskRuntime": "500ms",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.minBatchesToRetain": "1000000",
        "spark.sql.warehouse.dir": str(pathlib.Path(request["folder"]) / "warehouse"),
    }
    builder = SparkSession.Builder().master(request["master"]).appName("penstock-sinks")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    penstock.spark.register(spark)
    return spark


def records(spark: SparkSession, request: Request, name: str) -> DataFrame:
    """The stream of the topic for a table, with failpoints in its tasks."""
    columns, where = SHAPES[name]
    raw = spark.readStream.format("kafka").options(**connection(request)).option("subscribe", request["topic"])
    raw = raw.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 2000)
    data: DataFrame = shaped(raw.load(), {"fields": FIELDS, "where": where, "columns": columns})
    places = (f"{name} task begins", f"{name} task ends")
    begins, ends = (Failpoint(request["folder"], request["seed"], place) for place in places)
    return data.mapInArrow(harmed_rows(begins, ends), data.schema)


def started(spark: SparkSession, request: Request, name: str) -> StreamingQuery:
    """The stream of a table, which goes on from its checkpoint."""
    folder = pathlib.Path(request["folder"])
    checkpoint = str(folder / "checkpoint" / name)
    writer = records(spark, request, name).writeStream
    writer = writer.queryName(name).trigger(processingTime=request["every"]).option("checkpointLocation", checkpoint)
    if name == "upserts":
        sink = penstock.spark.sink(name, checkpoint=checkpoint, server=request["server"])
        return writer.foreachBatch(dying(sink, request)).start()
    return writer.format("penstock").start(str(folder / name))


def dying(write: Any, request: Request) -> Any:
    """The sink, after whose commit the driver is killed now and then, once for each micro-batch."""

    def written(df: DataFrame, batch_id: int) -> None:
        write(df, batch_id)
        died = pathlib.Path(request["folder"]) / f"died-{batch_id}"
        drawn = random.Random(f"{request['seed']} {batch_id}").random() < DIES and batch_id > 1
        if (drawn if request["dies_at"] < 0 else batch_id == request["dies_at"]) and not died.exists():
            died.touch()
            os.killpg(0, signal.SIGKILL)

    return written


def main(text: str) -> None:
    """Runs the streams until the file `stop` exists."""
    request: Request = json.loads(text)
    spark_rows.GroupWriter = HarmedWriter  # type: ignore[misc]
    if request["forgets"]:
        Batch.is_in = lambda self, table, newest: False  # type: ignore[method-assign]
    spark = session(request)
    run(pathlib.Path(request["folder"]), {name: lambda name=name: started(spark, request, name) for name in SHAPES})
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
