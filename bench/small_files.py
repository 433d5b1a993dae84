"""Processor time of a snapshot of a table of many small files, beside pyarrow's dataset of the same files.

    python -m bench.small_files [--files 10000] [--partitions 5000] [--commits 1000] [--rows 100] [--runs 5] [--spark]

A copy-on-write table of `--files` base files of `--rows` rows each, without a metadata table. Both read all columns of
all files to Arrow, from a newly opened table or dataset: listings are part of it. Only Penstock reads the timeline and
selects the file slices. Runs take turns after one of warm-up; a ratio is that of one turn. The last line is the first
batch of one partition.

`--spark` instead: `count` of the table in Spark, beside Spark's own scan of the same files (their folder, with its
partition columns). All take turns in one warm session of two cores, each with a new `load()`, after two turns of
warm-up. Processor time is that of the session's process tree; `penstock.spark.sql` reads one column, the others all
that Spark asks for. `--slots` adds a read in so many tasks.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table

import penstock
from bench.compared.contestants import Cast, Contestant
from bench.compared.processes import Cost
from bench.filtered import rows, write_table

CACHE: Final = pathlib.Path(__file__).resolve().parent.parent / ".cache" / "bench"
SPARK_WARM_UP: Final = 2
"""Turns that are not counted: the JVM compiles its code."""


def make_table(files: int, partitions: int, commits: int, in_a_file: int) -> str:
    """The path of the table, written unless it is there."""
    folder = CACHE / f"small-files-{files}-{partitions}-{commits}-{in_a_file}"

    def tables() -> Iterator[tuple[str, pa.Table]]:
        for number in range(files):
            partition = f"dt={number % partitions:05}"
            yield partition, rows(number * in_a_file, in_a_file, partition)

    if not (folder / "ready").exists():
        write_table(folder, tables(), "dt", in_a_file, commits)
        (folder / "ready").touch()
    return str(folder)


def by_penstock(path: str) -> int:
    """The rows of the snapshot."""
    return sum(batch.num_rows for batch in penstock.read(path))


def by_dataset(path: str) -> int:
    """The rows of pyarrow's dataset of the folder."""
    files = ds.dataset(path, format="parquet", ignore_prefixes=[".", "ready"])
    return sum(batch.num_rows for batch in files.to_batches())


def spent(read: Callable[[str], object], path: str) -> float:
    """Processor seconds of this process."""
    began = time.process_time()
    read(path)
    return time.process_time() - began


def first_batch(path: str) -> None:
    """Reads the first batch of one partition."""
    next(iter(penstock.read(path, where="dt = '00003'")))


def counts_in_spark(path: str, slots: int) -> dict[str, dict[str, object]]:
    """The request of each count, by its title; the first is Spark's own scan."""
    asked: dict[str, object] = {"do": "query", "path": path, "options": {}, "ask": "count"}
    counts = {
        "Spark's own scan": {**asked, "format": "parquet", "options": {"pathGlobFilter": "*.parquet"}},
        "load().count()": {**asked, "format": "penstock"},
        "penstock.spark.sql": {**asked, "format": "penstock.spark.sql", "ask": ["sql", "SELECT count(*) FROM t"]},
    }
    if slots:
        counts[f"load().count(), {slots} tasks"] = {**asked, "format": "penstock", "options": {"slots": str(slots)}}
    return counts


def in_spark(path: str, expected: int, runs: int, slots: int) -> None:
    """Prints a line for each count in Spark."""
    counts = counts_in_spark(path, slots)
    turns: list[list[Cost]] = []
    session = Cast([]).fresh(Contestant.SPARK)
    try:
        for _ in range(SPARK_WARM_UP + runs):
            answers = [session.costed(request) for request in counts.values()]
            if any(answer["values"] != [str(expected)] for answer, _ in answers):
                raise SystemExit(f"expected {expected} rows of each: {[answer['values'] for answer, _ in answers]}")
            turns.append([cost for _, cost in answers])
    finally:
        session.stop()
    report = Table("count", "CPU s (spread)", "of it Python", "wall s (spread)", "CPU to Spark's own scan (spread)")
    for place, title in enumerate(counts):
        costs = [turn[place] for turn in turns[SPARK_WARM_UP:]]
        ratios = [turn[place].cpu_s / turn[0].cpu_s for turn in turns[SPARK_WARM_UP:]]
        figures = ([c.cpu_s for c in costs], [c.python_s for c in costs], [c.wall_s for c in costs], ratios)
        report.add_row(title, *map(_spread, figures))
    Console(width=130).print(report)


def main() -> None:
    """Prints a line for each reader."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=5_000)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--spark", action="store_true", help="measure count in Spark")
    parser.add_argument("--slots", type=int, default=0, help="with --spark: also read in so many tasks")
    args = parser.parse_args()
    path = make_table(args.files, args.partitions, args.commits, args.rows)
    if args.spark:
        in_spark(path, args.files * args.rows, args.runs, args.slots)
        return
    if by_penstock(path) != by_dataset(path):
        raise SystemExit("the readers return different numbers of rows")
    turns = [tuple(spent(read, path) for read in (by_penstock, by_dataset, first_batch)) for _ in range(args.runs)]
    report = Table("read", "CPU s (spread)", "to pyarrow's dataset (spread)")
    for place, title in enumerate(("Penstock", "pyarrow's dataset", "first batch of one partition")):
        ratios = [turn[place] / turn[1] for turn in turns]
        report.add_row(title, _spread([turn[place] for turn in turns]), _spread(ratios))
    Console(width=110).print(report)


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


if __name__ == "__main__":
    main()
