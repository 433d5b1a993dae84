"""A Spark driver that reads a hybrid stream, which tests kill at any time; run as a process.

Its argument is JSON: `target`, `options`, `folder`. In the folder: `checkpoint`, `out/BATCH.parquet`, one JSON line for
each failure in `failed.jsonl`. It reads nothing before a file `begin` exists, no micro-batch ends while a file `hold`
exists, and the file `stop` ends the process. A failed stream is restarted; the test decides which failures are excused.
A repeated micro-batch must have equal rows.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.spark import register

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.codegen.wholeStage": "false",
}


def main(text: str) -> None:
    """Runs until the file `stop` exists."""
    arguments = json.loads(text)
    folder = pathlib.Path(arguments["folder"])
    builder = SparkSession.Builder().master("local[2,4]").appName("hybrid")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    while not (folder / "begin").exists():
        time.sleep(0.02)

    def write(frame: DataFrame, batch_id: int) -> None:
        keep(folder, batch_id, frame.toArrow())
        while (folder / "hold").exists():
            time.sleep(0.01)

    query = None
    while not (folder / "stop").exists():
        try:
            if query is None:
                frame = spark.readStream.format("penstock").options(**arguments["options"]).load(arguments["target"])
                writer = frame.writeStream.foreachBatch(write).trigger(processingTime="100 milliseconds")
                query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
            query.awaitTermination(0.1)
        except PySparkException as error:
            query = None
            note(folder, " ".join(str(error).split()))
            time.sleep(0.2)
    if query is not None:
        query.stop()
    spark.stop()


def keep(folder: pathlib.Path, batch_id: int, rows: pa.Table) -> None:
    """Writes a micro-batch as a file; a repeated micro-batch must have equal rows."""
    path = folder / "out" / f"{batch_id}.parquet"
    if path.exists() and (before := counted(pq.read_table(path))) != (now := counted(rows)):
        note(folder, f"NOT REPEATED: micro-batch {batch_id} has the new rows {now - before} and lacks {before - now}")
    partial = path.with_suffix(".partial")
    pq.write_table(rows, partial)
    partial.replace(path)


def counted(rows: pa.Table) -> Counter[str]:
    """Counts of the rows as text."""
    return Counter(json.dumps(row, default=str, sort_keys=True) for row in rows.to_pylist())


def note(folder: pathlib.Path, text: str) -> None:
    """Appends one line to `failed.jsonl`."""
    with (folder / "failed.jsonl").open("a") as file:
        file.write(json.dumps(text) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
