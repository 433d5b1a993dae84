"""How soon a Spark stream has a commit's rows, and what a micro-batch costs, embedded and with a server.

    python -m bench.streaming [--commits 60] [--rows 1000] [--before 200] [--road ROAD …]

A table of merge-on-read whose commits are written beforehand, each a base file of its own; a commit becomes visible
when its completed instant is renamed into the timeline. Measured from before the rename until `foreachBatch` holds its
rows as Arrow, at processingTime 0, and what Spark says of each micro-batch. The next commit is revealed at a random
time behind the delivery of the one before, so that the stream is idle. The server is a process of its own, on loopback.
Beside it Spark's own file source (road `files`) with the same base files, and what Penstock's part of a micro-batch
takes in this process, without Spark (the last lines).
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

from penstock.engine.spark.source import PenstockDataSource
from penstock.spark import register

FIRST: Final = 20260101000000000
WARM: Final = 10
"""Commits that are delivered before it counts."""
ROADS: Final = ("embedded", "server", "files")
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
    """A table with so many commits that can be revealed, behind so many that are there."""

    path: pathlib.Path
    rows: int
    hidden: list[tuple[pathlib.Path, pathlib.Path]] = field(default_factory=list)
    base_files: list[pathlib.Path] = field(default_factory=list)

    @classmethod
    def make(cls, folder: pathlib.Path, before: int, commits: int, rows: int) -> PreparedTable:
        """Writes all of it."""
        made = cls(folder / "table", rows)
        timeline, aside = made.path / ".hoodie" / "timeline", folder / "aside"
        timeline.mkdir(parents=True)
        aside.mkdir()
        (made.path / ".hoodie" / "hoodie.properties").write_text(
            "hoodie.table.name=b\nhoodie.table.type=MERGE_ON_READ\nhoodie.table.version=9\n"
            "hoodie.timeline.layout.version=2\nhoodie.timeline.path=timeline\nhoodie.table.recordkey.fields=id\n"
            "hoodie.table.timeline.timezone=UTC\nhoodie.record.merge.mode=COMMIT_TIME_ORDERING\n"
        )
        (made.path / ".hoodie_partition_metadata").touch()
        for number in range(before + commits):
            instant = FIRST + number * 10
            stats = made._base_file(number, instant, rows if number >= before else 1)
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
                made.hidden.append((place, timeline / name))
        return made

    def without_table(self, folder: pathlib.Path) -> list[tuple[pathlib.Path, pathlib.Path]]:
        """The same rows as bare files that come into `folder` one by one."""
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
        own = {"id": keys, "number": pa.array([number] * rows, pa.int64()), "value": np.arange(rows, dtype=float)}
        pq.write_table(pa.table(meta | own), self.path / name)
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


class Sink:
    """When each commit's rows were there."""

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
        """When that commit was there; waits for it."""
        with self._news:
            if not self._news.wait_for(lambda: number in self.at, 120):
                raise SystemExit(f"commit {number} did not come within 120 s")
            return self.at[number]


@contextlib.contextmanager
def target(road: str, table: pathlib.Path) -> Iterator[tuple[str, dict[str, str]]]:
    """What is loaded, and the options that a road needs."""
    if road == "embedded":
        yield str(table), {}
        return
    command = [sys.executable, "-m", "penstock", "serve", "--table", f"t={table}", "--listen", "127.0.0.1:0"]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout
            yield "t", {"server": server.stdout.readline().strip()}
        finally:
            server.terminate()
            server.wait(60)


def measure(spark: SparkSession, given: argparse.Namespace, road: str) -> dict[str, list[float]]:
    """Milliseconds: `visible` of each commit, each of STEPS of its micro-batch; each of ALONE, without Spark."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        table = PreparedTable.make(folder, given.before, WARM + given.commits, given.rows)
        if road == "files":
            bare = table.without_table(folder)
            source = spark.readStream.schema("id string, number long, value double").parquet(str(folder / "bare"))
            return streamed(source, folder, given, bare)
        with target(road, table.path) as (name, options):
            options["after"] = str(FIRST + (given.before - 1) * 10 + 5)
            source = spark.readStream.format("penstock").options(**options).load(name)
            return streamed(source, folder, given, table.hidden) | alone(name, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def streamed(
    source: DataFrame,
    folder: pathlib.Path,
    given: argparse.Namespace,
    hidden: list[tuple[pathlib.Path, pathlib.Path]],
) -> dict[str, list[float]]:
    """What comes of revealing one after the other to a stream."""
    rng, sink = random.Random(1), Sink()
    writer = source.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(processingTime="0 seconds").start()
    spent: dict[str, list[float]] = defaultdict(list)
    try:
        for number, (place, target) in enumerate(hidden):
            time.sleep(rng.uniform(0.2, 0.7))
            began = time.perf_counter()
            place.rename(target)
            there = sink.wait(given.before + number)
            if number >= WARM:
                spent["visible"].append((there - began) * 1000)
        query.processAllAvailable()
        time.sleep(1)  # the last progress is told behind its micro-batch
        for progress in query.recentProgress:
            if progress["numInputRows"] and progress["batchId"] >= WARM:
                for step in STEPS:
                    spent[step].append(progress["durationMs"].get(step, 0))
    finally:
        query.stop()
    if sink.rows != len(hidden) * given.rows:
        raise SystemExit(f"{sink.rows} rows came, expected {len(hidden) * given.rows}")
    return spent


def alone(name: str, options: dict[str, str]) -> dict[str, list[float]]:
    """The calls that Spark makes for a micro-batch of one commit, made here."""
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


def session(folder: str) -> SparkSession:
    """As a user would have it, on one machine."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.sql.warehouse.dir": folder,
    }
    builder = SparkSession.Builder().master(MASTER).appName("penstock-bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    register(made)
    return made


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--rows", type=int, default=1000, help="of a commit")
    parser.add_argument("--before", type=int, default=200, help="commits on the timeline when the stream starts")
    parser.add_argument("--road", choices=ROADS, action="append")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = session(folder)
        found = {road: measure(spark, given, road) for road in given.road or ROADS}
        spark.stop()
    print(
        f"\n{given.commits} commits of {given.rows} rows behind {given.before}, {WARM} to warm up; milliseconds, "
        f"p50 / p95; {MASTER}, PySpark {re.sub('[^0-9.].*', '', spark_version())}\n"
    )
    print("| | " + " | ".join(found) + " |")
    print("|---|" + "---|" * len(found))
    labels = {"visible": "visible → rows in foreachBatch"}
    labels |= {step: f"micro-batch: {step}" for step in STEPS}
    labels |= {f"alone {step}": f"of it Penstock's {step}, without Spark" for step in ALONE}
    for step, label in labels.items():
        cells = [_shown(spent.get(step)) for spent in found.values()]
        print(f"| {label} | " + " | ".join(cells) + " |")


def _shown(spent: list[float] | None) -> str:
    return f"{np.percentile(spent, 50):.0f} / {np.percentile(spent, 95):.0f}" if spent else ""


def spark_version() -> str:
    """Of PySpark."""
    import pyspark

    return str(pyspark.__version__)


if __name__ == "__main__":
    main()
