"""A Spark driver of a standalone cluster. A test sends it streams, and the fault of each, on stdin.

Arguments: the master's URL, `true` or `false` for speculation. It prints `ready`, then reads one JSON line per stream
(`StreamRequest`) and prints `done`, or `failed` and the reason. Each micro-batch passes a UDF on the executors, which
records the attempt's rows byte for byte before the fault. The sink writes Parquet, one folder per micro-batch, which a
repetition overwrites.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypedDict

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark import register

HARM_S = 600.0


class StreamRequest(TypedDict):
    """`harm`: '' | 'fail' (once) | 'stay' (the first attempt waits) | 'stay all', in the first slot of micro-batch
    `harmed`, until the file `go` is in `folder`; 'plan': the driver waits before a task is started."""

    server: str
    table: str
    folder: str
    harm: str
    harmed: int
    options: dict[str, str]


def watched(folder: str, batch_id: int, harm: str) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    """The UDF of a micro-batch: rows in as structs, a flag per row out. Runs on executors, so it has no imports of this
    module."""

    def watch(rows: Iterator[pa.Array]) -> Iterator[pa.Array]:
        import contextlib
        import hashlib
        import json
        import os
        import pathlib
        import time

        import pyarrow as pa
        import pyspark
        from pyspark import TaskContext

        actual = list(rows)
        context: Any = TaskContext.get()
        slot = context.partitionId()
        digest = hashlib.sha256()
        if actual:
            table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(array) for array in actual])
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table.combine_chunks())
            digest.update(sink.getvalue())
        observed = {
            "batch": batch_id,
            "slot": slot,
            "executor": f"{pathlib.Path.cwd().parent.name}/{pathlib.Path.cwd().name}",
            "attempt": context.attemptNumber(),
            "rows": sum(len(array) for array in actual),
            "digest": digest.hexdigest(),
            "pyspark": pyspark.__file__,
        }
        notes = pathlib.Path(folder) / "attempts"
        note = notes / f"{batch_id}-{slot}-{context.taskAttemptId()}-{os.getpid()}.json"
        note.with_suffix(".partial").write_text(json.dumps(observed))
        note.with_suffix(".partial").rename(note)
        if harm and slot == 0:
            harmed = pathlib.Path(folder) / "harmed"
            is_first = False
            with contextlib.suppress(FileExistsError):
                harmed.touch(exist_ok=False)
                is_first = True
            if is_first and harm == "fail":
                raise RuntimeError("a task fails on purpose")
            give_up = time.monotonic() + HARM_S
            while (is_first and harm == "stay") or harm == "stay all":
                if (harmed.with_name("go")).exists():
                    break
                if time.monotonic() > give_up:
                    raise RuntimeError("the task was not killed in time")
                time.sleep(0.05)
        for array in actual:
            yield pa.array([True] * len(array))

    return watch


def stay(folder: pathlib.Path) -> None:
    """Creates the file `harmed`, and waits for the file `go`."""
    (folder / "harmed").touch()
    give_up = time.monotonic() + HARM_S
    while not (folder / "go").exists():
        if time.monotonic() > give_up:
            raise RuntimeError("the file go did not appear in time")
        time.sleep(0.05)


def run(spark: SparkSession, requested: StreamRequest) -> None:
    """A stream over the current commits, one per micro-batch."""
    folder = requested["folder"]

    def write(frame: DataFrame, batch_id: int) -> None:
        harm = requested["harm"] if batch_id == requested["harmed"] else ""
        if harm == "plan":
            stay(pathlib.Path(folder))
        watch = F.arrow_udf(watched(folder, batch_id, harm), "boolean", F.ArrowUDFType.SCALAR_ITER)
        rows = frame.filter(watch.asNondeterministic()(F.struct("*")))
        rows.write.mode("overwrite").parquet(f"{folder}/out/{batch_id}")

    options = {"server": requested["server"], "maxCommitsPerTrigger": "1", "slots": "2", **requested["options"]}
    frame = spark.readStream.format("penstock").options(**options).load(requested["table"])
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def main(master: str, speculation: str) -> None:
    """Runs streams one after the other, until stdin ends."""
    small = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {
        "spark.driver.extraJavaOptions": small,
        "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", small),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.speculation": speculation,
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.minTaskRuntime": "500ms",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.Builder().master(master).appName("penstock-cluster")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    register(spark)
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            run(spark, json.loads(line))
        except PySparkException as error:
            print("failed " + " ".join(str(error).split()), flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
