"""A Spark driver to be killed: one commit per micro-batch through a server, each written to a file named by its id.

Arguments: server's address, table, checkpoint, output folder. It prints its step on stdout and continues after a line
on stdin: `planned N` (the plan is open, no row is read), `written N` (the file exists, Spark's commit does not),
`failed` and the reason (then it starts the query again), at the end `done`.
"""

from __future__ import annotations

import pathlib
import sys

import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.spark import register


def say(text: str) -> None:
    """Sends one line to the test."""
    print(text, flush=True)


def report_and_wait(text: str) -> None:
    """Sends one line to the test, and waits for a line to continue."""
    say(text)
    if not sys.stdin.readline():
        raise SystemExit("the test ended")


def main(server: str, table: str, checkpoint: str, output: str) -> None:
    """Runs the stream to its end."""
    folder = pathlib.Path(output)

    def write(frame: DataFrame, batch_id: int) -> None:
        report_and_wait(f"planned {batch_id}")
        partial = folder / f"{batch_id}.partial"
        pq.write_table(frame.toArrow(), partial)
        partial.replace(folder / f"{batch_id}.parquet")
        report_and_wait(f"written {batch_id}")

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
    register(spark)
    frame = (
        spark.readStream.format("penstock")
        .options(server=server, after="earliest", maxCommitsPerTrigger="1", slots="2")
        .load(table)
    )
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    while True:
        try:
            writer.start().awaitTermination()
        except PySparkException as error:
            report_and_wait("failed " + " ".join(str(error).split()))
        else:
            say("done")
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
