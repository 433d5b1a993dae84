"""The Spark driver of an endurance run that is never killed: four streams through a server, and what its JVM uses.

Arguments: the server's address, the folder, which has the files of `soak_driver`, the interval of micro-batches.
`rows` and `changes` read table `t`, `windows` has its windows, and `joined` joins its windows with those of table `u`.
The heap has a fixed size and is touched at the start, so that the process can only grow outside of it. `jvm.jsonl` gets
a line each JVM_EVERY_S: the live heap after a collection, the JVM's native memory by category, and its resident memory
before and after malloc returns what it keeps of freed memory (glibc keeps it in arenas of threads; the JVM does not
report it).
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import time
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark import with_source_watermark
from tests.interop import soak_driver

JVM_EVERY_S = 30.0
HEAP = "640m"
JAVA = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms{HEAP} -XX:+AlwaysPreTouch -XX:NativeMemoryTracking=summary"
SETTINGS = {
    "spark__driver__extraJavaOptions": JAVA,
    "spark__driver__memory": HEAP,
    "spark__sql__streaming__minBatchesToRetain": "10",
}
CATEGORY = re.compile(r"^-\s+(.+?) \(reserved=\d+KB, committed=(\d+)KB\)$", re.MULTILINE)
TOTAL = re.compile(r"^Total: reserved=\d+KB, committed=(\d+)KB$", re.MULTILINE)


def main(server: str, place: str, every: str) -> None:
    """Runs until the file `stop` exists, with micro-batches at most `every` so often."""
    folder = pathlib.Path(place)
    os.environ.pop(
        "SPARK_SUBMIT_OPTS", None
    )  # with an archive of classes, tracking ends the JVM (virtualMemoryTracker.cpp)
    spark = soak_driver.session(folder, **SETTINGS)
    frames = {
        "rows": rows(spark, server, "t"),
        "changes": soak_driver.changes(spark, server),
        "windows": soak_driver.windows(spark, server),
        "joined": joined(spark, server),
    }
    started = {
        name: lambda name=name, frame=frame: soak_driver.start(frame, folder, name, every)
        for name, frame in frames.items()
    }
    next_s = time.monotonic()

    def meanwhile() -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + JVM_EVERY_S
            soak_driver.note(folder / "jvm.jsonl", {"at": time.time(), **jvm_memory(spark)})

    soak_driver.run(folder, started, meanwhile)
    spark.stop()


def rows(spark: SparkSession, server: str, table: str) -> DataFrame:
    """The rows of each commit of a table."""
    return soak_driver.load(spark, server, table, maxCommitsPerTrigger="1", eventTime="et", maxOutOfOrderness="61s")


def joined(spark: SparkSession, server: str) -> DataFrame:
    """The rows of both tables with the same key in the same window of a minute."""
    sides = []
    for table, n in (("t", "n"), ("u", "m")):
        frame = with_source_watermark(rows(spark, server, table), "et")
        sides.append(frame.select(F.window("et", "1 minute").alias("w"), "id", F.col("n").alias(n)))
    return sides[0].join(sides[1], ["w", "id"]).select("w.start", "id", "n", "m")


def jvm_memory(spark: SparkSession) -> dict[str, Any]:
    """Bytes of the live heap after a collection, the committed bytes of each category of native memory, and of resident
    memory `before` and after (`resident`) malloc returns freed memory."""
    jvm: Any = spark.sparkContext._jvm
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    live = runtime.totalMemory() - runtime.freeMemory()
    process = psutil.Process(jvm.java.lang.ProcessHandle.current().pid())
    before = process.memory_info().rss
    _jcmd(process.pid, "System.trim_native_heap")
    resident = process.memory_info().rss
    report = _jcmd(process.pid, "VM.native_memory", "summary")
    return {"live": live, "before": before, "resident": resident, **native(report)}


def _jcmd(pid: int, *command: str) -> str:
    return subprocess.run(["jcmd", str(pid), *command], capture_output=True, text=True, timeout=60).stdout


def native(report: str) -> dict[str, Any]:
    """The committed bytes of a report of the JVM: `total`, and `native` by category. ValueError: it has none."""
    total = TOTAL.search(report)
    if total is None:
        raise ValueError(f"no report of native memory: {report[:200]}")
    sizes = {name: 1024 * int(size) for name, size in CATEGORY.findall(report)}
    return {"total": 1024 * int(total[1]), "native": sizes}


if __name__ == "__main__":
    main(*sys.argv[1:])
