"""A Spark driver that writes a table through a server, to be killed with it: a stream of Parquet files, one a batch.

Arguments: the server's address, the way (`upsert`, `insert` or `format`), the folder of the files, the checkpoint. For
each batch it prints a step on stdout, and goes on after a line on stdin: `planned N` before the write, `written N`
after it and before Spark's checkpoint; from inside a write `files N`, once the files of the batch are on the disk and
before the commit. At the end `done`, or `failed` and the reason.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.engine.write.service.remote_transaction import RemoteTransaction

COLUMNS = (
    "id string, seq long, name string, qty int, price decimal(10, 2), at timestamp, day date, tags array<string>, "
    "city string, _hoodie_is_deleted boolean"
)
"""`tests.interop.test_writes.SCHEMA`."""


def report_and_wait(text: str) -> None:
    """Sends one line to the test, and waits for a line to go on."""
    print(text, flush=True)
    if not sys.stdin.readline():
        raise SystemExit("the test ended")


def main(server: str, way: str, files: str, checkpoint: str) -> None:
    """Runs the stream to its end."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    penstock.spark.register(spark)
    number = 0
    complete = RemoteTransaction.complete

    def completed(self: RemoteTransaction, *arguments: Any, **named: Any) -> Any:
        report_and_wait(f"files {number}")
        return complete(self, *arguments, **named)

    RemoteTransaction.complete = completed  # type: ignore[method-assign]
    writer = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(files).coalesce(1).writeStream
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    if way == "format":
        writer = writer.format("penstock").option("server", server).option("path", "trip")
    else:
        sink = penstock.spark.sink("trip", way, checkpoint=checkpoint, server=server)

        def write(frame: DataFrame, batch_id: int) -> None:
            nonlocal number
            number = batch_id
            report_and_wait(f"planned {batch_id}")
            sink(frame, batch_id)
            report_and_wait(f"written {batch_id}")

        writer = writer.foreachBatch(write)
    try:
        writer.start().awaitTermination()
    except PySparkException as error:
        report_and_wait("failed " + " ".join(str(error).split()))
    else:
        print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
