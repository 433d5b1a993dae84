"""Latency of a commit's rows in a Spark stream and in a plain consumer, and cost of a micro-batch.

    python -m bench.streaming [--commits 60] [--rows 1000] [--before 200] [--poll-interval 1s] [--mode MODE …]
        [--conf NAME=VALUE …]

The commits of a merge-on-read table are written in advance, each with its own base file; a commit becomes visible when
its completed instant is renamed into the timeline. The bench measures from before the rename until `foreachBatch` has
the rows as Arrow, with processingTime 0, and reads the durations of each micro-batch from Spark's progress. The next
commit becomes visible at a random time after the delivery of the previous one, so that the stream is idle. The server
is a separate process on loopback. For comparison: Spark's own file source (mode `files`) with the same base files, and
Penstock's share of a micro-batch in this process, without Spark (the last lines). Mode `consumer` measures until a
`penstock.Consumer` of that server returns the rows, without Spark.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.engine.spark import interpreter
from penstock.engine.spark.source import PenstockDataSource
from penstock.spark import register

FIRST: Final = 20260101000000000
WARM: Final = 10
"""Warm-up commits, which are not counted."""
MODES: Final = ("embedded", "server", "files", "consumer")
SCHEMA: Final = (
    '{"type":"record","name":"r","fields":['
    '{"name":"id","type":["null","string"],"default":null},'
    '{"name":"number","type":["null","long"],"default":null},'
    '{"name":"value","type":["null","double"],"default":null}]}'
)
STEPS: Final = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "triggerExecution")
ALONE: Final = ("latestOffset", "partitions", "read")
MASTER: Final = "local[2]"


@dataclass
class PreparedTable:
    """A table with visible commits and hidden ones that the bench completes one by one."""

    path: pathlib.Path
    rows: int
    hidden: list[tuple[pathlib.Path, pathlib.Path]] = field(default_factory=list)
    base_files: list[pathlib.Path] = field(default_factory=list)

    @classmethod
    def make(cls, folder: pathlib.Path, before: int, commits: int, rows: int) -> PreparedTable:
        """Writes `before` visible and `commits` hidden commits; each hidden one has `rows` rows."""
        table = cls(folder / "table", rows)
        timeline, aside = table.path / ".hoodie" / "timeline", folder / "aside"
        timeline.mkdir(parents=True)
        aside.mkdir()
        (table.path / ".hoodie" / "hoodie.properties").write_text(
            "hoodie.table.name=b\nhoodie.table.type=MERGE_ON_READ\nhoodie.table.version=9\n"
            "hoodie.timeline.layout.version=2\nhoodie.timeline.path=timeline\nhoodie.table.recordkey.fields=id\n"
            "hoodie.table.timeline.timezone=UTC\nhoodie.record.merge.mode=COMMIT_TIME_ORDERING\n"
        )
        (table.path / ".hoodie_partition_metadata").touch()
        for number in range(before + commits):
            instant = FIRST + number * 10
            stats = table._base_file(number, instant, rows if number >= before else 1)
            metadata = {
                "partitionToWriteStats": {"": [stats]},
                "compacted": False,
                "extraMetadata": {"schema": SCHEMA},
                "operationType": "INSERT",
            }
            for state in ("requested", "inflight"):
                (timeline / f"{instant}.deltacommit.{state}").touch()
            name = f"{instant}_{instant + 5}.deltacommit"
            place = (timeline if number < before else aside) / name
            place.write_text(json.dumps(metadata))
            if number >= before:
                table.hidden.append((place, timeline / name))
        return table

    def without_table(self, folder: pathlib.Path) -> list[tuple[pathlib.Path, pathlib.Path]]:
        """The same rows as plain Parquet files, to be renamed into a folder one by one."""
        (folder / "bare").mkdir()
        files = self.base_files[-len(self.hidden) :]
        return [(file, folder / "bare" / file.name) for file in files]

    def _base_file(self, number: int, instant: int, rows: int) -> dict[str, Any]:
        file_id = f"{number:08d}-0000-0000-0000-000000000000-0"
        name = f"{file_id}_0-1-1_{instant}.parquet"
        keys = [f"k{number:05d}-{row:06d}" for row in range(rows)]
        meta = {
            "_hoodie_commit_time": [str(instant)] * rows,
            "_hoodie_commit_seqno": [f"{instant}_0_{row}" for row in range(rows)],
            "_hoodie_record_key": keys,
            "_hoodie_partition_path": [""] * rows,
            "_hoodie_file_name": [name] * rows,
        }
        columns = {"id": keys, "number": pa.array([number] * rows, pa.int64()), "value": np.arange(rows, dtype=float)}
        pq.write_table(pa.table(meta | columns), self.path / name)
        self.base_files.append(self.path / name)
        size = (self.path / name).stat().st_size
        return {
            "fileId": file_id,
            "path": name,
            "prevCommit": "null",
            "numWrites": rows,
            "numInserts": rows,
            "numDeletes": 0,
            "numUpdateWrites": 0,
            "partitionPath": "",
            "totalWriteBytes": size,
            "fileSizeInBytes": size,
        }


class ArrivalTimes:
    """A `foreachBatch` function that records the arrival time of each commit's rows."""

    def __init__(self) -> None:
        self.at: dict[int, float] = {}
        self.rows = 0
        self._news = threading.Condition()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        numbers = frame.toArrow()["number"]
        now = time.perf_counter()
        with self._news:
            self.rows += len(numbers)
            self.at.update(dict.fromkeys(numbers.unique().to_pylist(), now))
            self._news.notify_all()

    def wait(self, number: int) -> float:
        """Waits for a commit's rows and returns their arrival time."""
        with self._news:
            if not self._news.wait_for(lambda: number in self.at, 120):
                raise SystemExit(f"commit {number} did not arrive within 120 s")
            return self.at[number]


@contextlib.contextmanager
def target(mode: str, table: pathlib.Path, interval: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the argument of load() and the options of a mode; starts a server if the mode has one."""
    if mode == "embedded":
        yield str(table), {}
        return
    command = [
        sys.executable,
        "-m",
        "penstock",
        "serve",
        "--table",
        f"t={table}",
        "--listen",
        "127.0.0.1:0",
        "--poll-interval",
        interval,
    ]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout
            yield "t", {"server": server.stdout.readline().strip()}
        finally:
            server.terminate()
            server.wait(60)


def measure(spark: SparkSession | None, args: argparse.Namespace, mode: str) -> dict[str, list[float]]:
    """Milliseconds by step: `visible` of each commit, STEPS of its micro-batch, and ALONE without Spark."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        table = PreparedTable.make(folder, args.before, WARM + args.commits, args.rows)
        if spark is None:
            with target(mode, table.path, args.poll_interval) as (name, options):
                return {"visible": with_consumer(name, options["server"], args, table)}
        if mode == "files":
            bare = table.without_table(folder)
            source = spark.readStream.schema("id string, number long, value double").parquet(str(folder / "bare"))
            return with_spark(source, folder, args, bare)
        with target(mode, table.path, args.poll_interval) as (name, options):
            options["after"] = str(FIRST + (args.before - 1) * 10 + 5)
            source = spark.readStream.format("penstock").options(**options).load(name)
            return with_spark(source, folder, args, table.hidden) | without_spark(name, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def with_consumer(name: str, server: str, args: argparse.Namespace, table: PreparedTable) -> list[float]:
    """Completes the commits one after another while a consumer polls; returns milliseconds to the rows."""
    rng, spent = random.Random(1), []
    after = str(FIRST + (args.before - 1) * 10 + 5)
    with penstock.Consumer(server, name, group="bench", after=after) as consumer:
        consumer.poll(1000)
        for number, (place, target) in enumerate(table.hidden):
            began: list[float] = []

            threading.Timer(rng.uniform(0.2, 0.7), _complete, (place, target, began)).start()
            batch = consumer.poll(120_000)
            arrived = time.perf_counter()
            if batch is None or set(batch.batch["number"].to_pylist()) != {args.before + number}:
                raise SystemExit(f"commit {number} did not arrive whole")
            if number >= WARM:
                spent.append((arrived - began[0]) * 1000)
            consumer.commit()
    return spent


def _complete(place: pathlib.Path, target: pathlib.Path, began: list[float]) -> None:
    """Completes a commit, and notes when."""
    began.append(time.perf_counter())
    place.rename(target)


def with_spark(
    source: DataFrame,
    folder: pathlib.Path,
    args: argparse.Namespace,
    hidden: list[tuple[pathlib.Path, pathlib.Path]],
) -> dict[str, list[float]]:
    """Completes the commits one after another under a running stream; returns milliseconds by step."""
    rng, sink = random.Random(1), ArrivalTimes()
    writer = source.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(processingTime="0 seconds").start()
    spent: dict[str, list[float]] = defaultdict(list)
    try:
        for number, (place, target) in enumerate(hidden):
            time.sleep(rng.uniform(0.2, 0.7))
            began = time.perf_counter()
            place.rename(target)
            arrived = sink.wait(args.before + number)
            if number >= WARM:
                spent["visible"].append((arrived - began) * 1000)
        query.processAllAvailable()
        time.sleep(1)  # Spark reports the last progress after its micro-batch
        for progress in query.recentProgress:
            if progress["numInputRows"] and progress["batchId"] >= WARM:
                for step in STEPS:
                    spent[step].append(progress["durationMs"].get(step, 0))
    finally:
        query.stop()
    if sink.rows != len(hidden) * args.rows:
        raise SystemExit(f"{sink.rows} rows arrived, expected {len(hidden) * args.rows}")
    return spent


def without_spark(name: str, options: dict[str, str]) -> dict[str, list[float]]:
    """The calls that Spark makes for a micro-batch of one commit, made in this process."""
    data = PenstockDataSource({**options, "path": name, "maxcommitspertrigger": "1"})
    reader = data.streamReader(data.schema())
    spent: dict[str, list[float]] = defaultdict(list)
    at, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    while True:
        times = [time.perf_counter()]
        end = reader.latestOffset(at, limit)
        times.append(time.perf_counter())
        if end == at:
            return {step: values[WARM:] for step, values in spent.items()}
        slots = reader.partitions(at, end)
        times.append(time.perf_counter())
        rows = sum(batch.num_rows for slot in slots for batch in reader.read(slot))
        times.append(time.perf_counter())
        if not rows:
            raise SystemExit("a micro-batch without rows")
        for step, (before, after) in zip(ALONE, itertools.pairwise(times), strict=True):
            spent[f"alone {step}"].append((after - before) * 1000)
        at = end


def session(folder: str, given: list[str]) -> SparkSession:
    """A session with default settings and the given ones (NAME=VALUE), on one machine."""
    os.environ["PYSPARK_PYTHON"] = interpreter.command()
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.sql.warehouse.dir": folder,
    } | dict(setting.split("=", 1) for setting in given)
    builder = SparkSession.Builder().master(MASTER).appName("penstock-bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    created = builder.getOrCreate()
    created.sparkContext.setLogLevel("ERROR")
    register(created)
    return created


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--rows", type=int, default=1000, help="rows of a commit")
    parser.add_argument("--before", type=int, default=200, help="commits on the timeline when the stream starts")
    parser.add_argument("--poll-interval", default="1s", help="interval of the server's looks at the table")
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--conf", action="append", default=[], help="NAME=VALUE: a setting of the Spark session")
    args = parser.parse_args()
    modes = args.mode or MODES
    times_by_mode = {mode: measure(None, args, mode) for mode in modes if mode == "consumer"}
    with_session = [mode for mode in modes if mode != "consumer"]
    if with_session:
        with tempfile.TemporaryDirectory() as folder:
            spark = session(folder, args.conf)
            times_by_mode |= {mode: measure(spark, args, mode) for mode in with_session}
            spark.stop()
    print(
        f"\n{args.commits} commits of {args.rows} rows after {args.before}, {WARM} to warm up; milliseconds, "
        f"p50 / p95; {MASTER}, PySpark {re.sub('[^0-9.].*', '', spark_version())}\n"
    )
    print("| | " + " | ".join(times_by_mode) + " |")
    print("|---|" + "---|" * len(times_by_mode))
    labels = {"visible": "visible → rows in foreachBatch, or of the consumer"}
    labels |= {step: f"micro-batch: {step}" for step in STEPS}
    labels |= {f"alone {step}": f"Penstock's {step}, without Spark" for step in ALONE}
    for step, label in labels.items():
        cells = [percentiles(spent.get(step)) for spent in times_by_mode.values()]
        print(f"| {label} | " + " | ".join(cells) + " |")


def percentiles(spent: list[float] | None) -> str:
    return f"{np.percentile(spent, 50):.0f} / {np.percentile(spent, 95):.0f}" if spent else ""


def spark_version() -> str:
    """PySpark's version."""
    import pyspark

    return str(pyspark.__version__)


if __name__ == "__main__":
    main()
