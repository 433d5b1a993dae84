"""A Spark driver that reads a hybrid stream, to be killed at any time; run as a process.

Its argument is JSON: `target`, `options`, `folder`. In the folder: `checkpoint`, `out/BATCH.parquet`, one JSON line a
failure in `failed.jsonl`. Nothing is read before there is a file `begin`, a micro-batch is not done while there is a
file `hold`, and the file `stop` ends the process. A failed stream is restarted; the test decides which
failures are excused. A micro-batch that is repeated must bring what it brought before.
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
    """Until the file `stop` is there."""
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
    """A micro-batch as a file; again, its rows must be the same."""
    path = folder / "out" / f"{batch_id}.parquet"
    if path.exists() and (before := counted(pq.read_table(path))) != (now := counted(rows)):
        note(folder, f"NOT REPEATED: micro-batch {batch_id} brought {now - before} anew, and {before - now} no more")
    partial = path.with_suffix(".partial")
    pq.write_table(rows, partial)
    partial.replace(path)


def counted(rows: pa.Table) -> Counter[str]:
    """Rows as texts."""
    return Counter(json.dumps(row, default=str, sort_keys=True) for row in rows.to_pylist())


def note(folder: pathlib.Path, text: str) -> None:
    """One line."""
    with (folder / "failed.jsonl").open("a") as file:
        file.write(json.dumps(text) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
