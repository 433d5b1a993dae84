"""The Spark driver of a soak: two streams through a server. A process that is killed and started again.

Arguments: the server's address, the folder, the interval of micro-batches. In the folder: `checkpoint/NAME`,
`out/NAME/BATCH.parquet`, one JSON line per event in `progress.jsonl` and `failed.jsonl`; the file `stop` ends it. A
failed stream is started again; the test decides which failures are allowed. A repeated micro-batch must have the same
rows.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from penstock.spark import register, with_source_watermark

TABLE = "t"
AGAIN_S = 1.0


def main(server: str, place: str, every: str) -> None:
    """Runs until the file `stop` exists, with micro-batches at most `every` so often."""
    folder = pathlib.Path(place)
    spark = session(folder)
    started: dict[str, Callable[[], StreamingQuery]] = {
        name: lambda name=name, frame=frame: start(frame, folder, name, every)
        for name, frame in (("changes", changes(spark, server)), ("windows", windows(spark, server)))
    }
    run(folder, started)
    spark.stop()


def run(
    folder: pathlib.Path,
    started: Mapping[str, Callable[[], StreamingQuery]],
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Runs these streams until the file `stop` exists, and starts those again that fail. Calls `meanwhile` several
    times a second."""
    running: dict[str, StreamingQuery] = {}
    again_at = dict.fromkeys(started, 0.0)
    logged: dict[str, str] = dict.fromkeys(started, "")
    while not (folder / "stop").exists():
        for name, begin in started.items():
            query = running.get(name)
            if query is not None:
                logged[name] = log_progress(folder, name, query, logged[name])
            if (query is None or not query.isActive) and time.monotonic() >= again_at[name]:
                try:
                    if query is not None:
                        query.awaitTermination()
                    running[name] = begin()
                except PySparkException as error:
                    running.pop(name, None)
                    note(folder / "failed.jsonl", {"query": name, "text": " ".join(str(error).split())})
                    again_at[name] = time.monotonic() + AGAIN_S
        meanwhile()
        time.sleep(0.2)
    for name, query in running.items():
        query.stop()
        log_progress(folder, name, query, logged[name])


def session(folder: pathlib.Path, **more: str) -> SparkSession:
    """A session with two threads. A task may fail three times, because its worker may be killed. `more`: settings
    that replace these, with `__` for a dot."""
    settings = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    builder = SparkSession.Builder().master("local[2,4]").appName("penstock-soak")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def load(spark: SparkSession, server: str, table: str = TABLE, **options: str) -> DataFrame:
    """The stream from the earliest commit of the table."""
    settings = {"server": server, "after": "earliest", "slots": "2", **options}
    return spark.readStream.format("penstock").options(**settings).load(table)


def changes(spark: SparkSession, server: str) -> DataFrame:
    """Every change of every commit."""
    return load(spark, server, query="cdc", cdcFormat="rows")


def windows(spark: SparkSession, server: str) -> DataFrame:
    """The rows of each commit, in windows of a minute of their event time."""
    rows = load(spark, server, maxCommitsPerTrigger="1", eventTime="et", maxOutOfOrderness="61s")
    grouped = with_source_watermark(rows, "et").groupBy(F.window("et", "1 minute"))
    return grouped.agg(F.sort_array(F.collect_list("n")).alias("rows")).select("window.start", "rows")


def start(frame: DataFrame, folder: pathlib.Path, name: str, every: str) -> StreamingQuery:
    """Starts a query, which continues from its checkpoint, with a micro-batch at most `every` so often."""
    out = folder / "out" / name
    out.mkdir(parents=True, exist_ok=True)

    def write(batch: DataFrame, batch_id: int) -> None:
        rows, path = batch.toArrow(), out / f"{batch_id}.parquet"
        if path.exists() and (before := _counted(pq.read_table(path))) != (now := _counted(rows)):
            text = f"micro-batch {batch_id} was repeated with {now - before} added and {before - now} missing"
            note(folder / "failed.jsonl", {"query": name, "text": f"NOT REPEATED: {text}"})
        partial = path.with_suffix(".partial")
        pq.write_table(rows, partial)
        partial.replace(path)

    writer = frame.writeStream.queryName(name).foreachBatch(write).trigger(processingTime=every)
    return writer.option("checkpointLocation", str(folder / "checkpoint" / name)).start()


def _counted(rows: pa.Table) -> Counter[str]:
    return Counter(json.dumps(row, default=str, sort_keys=True) for row in rows.to_pylist())


def log_progress(folder: pathlib.Path, name: str, query: StreamingQuery, last: str) -> str:
    """Writes each progress after the timestamp `last` to the file; the timestamp of the newest."""
    for progress in query.recentProgress:
        if progress["timestamp"] > last:
            last = progress["timestamp"]
            note(folder / "progress.jsonl", _noted(name, progress))
    return last


def _noted(name: str, progress: Any) -> dict[str, object]:
    operators = progress["stateOperators"]
    return {
        "at": time.time(),
        "query": name,
        "batch": progress["batchId"],
        "rows": progress["numInputRows"],
        "ms": dict(progress["durationMs"]),
        "state_rows": sum(one["numRowsTotal"] for one in operators),
        "state_bytes": sum(one["memoryUsedBytes"] for one in operators),
        "dropped": sum(one["numRowsDroppedByWatermark"] for one in operators),
    }


def note(path: pathlib.Path, event: dict[str, object]) -> None:
    """Appends one line."""
    with path.open("a") as file:
        file.write(json.dumps(event) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
