"""Seconds of a read with 1, 2 and 4 threads, ordered and not: one large file, many small files, slices with logs.

    python -m bench.parallel_reads [--files 10000] [--rows 4000000] [--logs TABLE] [--processes 2] [--runs 3]

Writes copy-on-write tables with pyarrow: one file of `--rows` rows in 40 row groups, read as one split and as splits of
two row groups; and `--files` files of 100 rows in 100 partitions. `--logs TABLE` is a merge-on-read table that Hudi
wrote, such as those of `bench.compare` (`.cache/bench`). Runs take turns; reports the best of `--runs` after a warm-up
run, wall clock and processor time of the process. `--processes` also reads the tasks in that many processes, which send
their batches back as Arrow streams.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Final

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import penstock
from bench.filtered import rows, write_table
from penstock.engine.read_tasks import ReadTask, plan_read
from penstock.proto.options.registry import EntryPoint, parse_options

ROW_GROUPS: Final = 40
IN_A_FILE: Final = 100
PARTITIONS: Final = 100
TASKS_A_CALL: Final = 50


def write_files(folder: pathlib.Path, files: int) -> pathlib.Path:
    """`files` files of IN_A_FILE rows, by partition."""
    in_partition = -(-files // PARTITIONS)

    def tables() -> Iterator[tuple[str, pa.Table]]:
        for number in range(files):
            partition = f"dt={number // in_partition:05}"
            yield partition, rows(number * IN_A_FILE, IN_A_FILE, partition)

    write_table(folder, tables(), "dt", IN_A_FILE)
    return folder


def write_file(folder: pathlib.Path, count: int) -> pathlib.Path:
    """One file of `count` rows."""
    write_table(folder, [("", rows(0, count, ""))], "", -(-count // ROW_GROUPS))
    return folder


def in_threads(table: pathlib.Path, threads: int, **options: Any) -> int:
    """The number of rows, read with threads."""
    return sum(batch.num_rows for batch in penstock.read(table, threads=threads, **options))


def in_processes(table: pathlib.Path, pool: ProcessPoolExecutor, **options: Any) -> int:
    """The number of rows, read by a pool of processes, each of which sends its batches."""
    planned = plan_read(str(table), parse_options(options, entry_point=EntryPoint.ARROW, environment={}))
    tasks = planned.tasks
    calls = [tasks[at : at + TASKS_A_CALL] for at in range(0, len(tasks), TASKS_A_CALL)]
    return sum(pa.ipc.open_stream(data).read_all().num_rows for data in pool.map(serialized, calls))


def serialized(tasks: tuple[ReadTask, ...]) -> bytes:
    """The rows of tasks as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tasks[0].shared.schema) as writer:
        for task in tasks:
            for batch in task.batches():
                writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def measure(reads: dict[str, Callable[[], int]], runs: int) -> dict[str, tuple[int, float, float]]:
    """name -> (rows, best wall seconds, least processor seconds of this process). Reads take turns."""
    best = {name: (0, float("inf"), float("inf")) for name in reads}
    for run in range(runs + 1):
        for name, read in reads.items():
            wall, processor = time.perf_counter(), time.process_time()
            count = read()
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            if run:
                best[name] = (count, min(best[name][1], wall), min(best[name][2], processor))
    return best


def ways(table: pathlib.Path, pool: ProcessPoolExecutor | None, **options: Any) -> dict[str, Callable[[], int]]:
    """The reads to compare."""
    reads: dict[str, Callable[[], int]] = {}
    for threads in (1, 2, 4):
        for ordered in (True, False) if threads > 1 else (True,):
            name = f"{threads} threads{'' if ordered else ', unordered'}"
            reads[name] = lambda threads=threads, ordered=ordered: in_threads(  # type: ignore[misc]
                table, threads, ordered=ordered, **options
            )
    if pool is not None:
        reads["processes"] = lambda: in_processes(table, pool, **options)
    return reads


def main() -> None:
    """Writes the tables, reads each in all ways, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--logs", type=pathlib.Path)
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    report = Table("table", "read", "rows", "seconds", "CPU seconds")
    spawning = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(args.processes, mp_context=spawning) if args.processes else None
    with tempfile.TemporaryDirectory() as scratch:
        tables: dict[str, tuple[pathlib.Path, dict[str, Any]]] = {}
        if args.rows:
            large = write_file(pathlib.Path(scratch, "large"), args.rows)
            size = sum(file.stat().st_size for file in large.glob("*.parquet"))
            tables["one file, one split"] = large, {"split_bytes": size}
            tables["one file, 20 splits"] = large, {"split_bytes": size // 20 + 1}
        if args.files:
            tables[f"{args.files} files"] = write_files(pathlib.Path(scratch, "small"), args.files), {}
        if args.logs:
            tables["slices with logs"] = args.logs, {}
        for what, (table, options) in tables.items():
            for name, (count, seconds, processor) in measure(ways(table, pool, **options), args.runs).items():
                report.add_row(what, name, f"{count:,}", f"{seconds:.2f}", f"{processor:.2f}")
    if pool is not None:
        pool.shutdown()
    Console().print(report)


if __name__ == "__main__":
    main()
