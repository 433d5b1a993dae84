"""Writes of TPC-H's lineitem from Spark: Penstock, the same with an object a record, and Hudi's bundle.

    python -m bench.spark_writes [--scale 0.2] [--rounds 3] [--warm 2] [--only PART …] [--batches 40] [--out FILE.md]

All load the same Parquet files of `tpchgen-cli` into a table of version 9 with a bucket index and no metadata table,
and upsert a tenth of as many rows, half of them new (TPC-H's RF1, with more rows). Each round of an upsert starts from
a fresh copy of the loaded table. The tables must hold equal rows after the first round of each part. Each contestant
has a session of its own, local[2], and they take turns. The first round of all is cold: in it a fresh session loads
the table. The warm-up rounds do not count; the table has medians, and ratios with their spread.

CPU is that of the process tree: the JVM with its compilers and collector, and Spark's Python processes. Bytes shuffled
are those that Spark's stages wrote for shuffles.

Then a stream of micro-batches of 10,000 rows, each a file with upserts of random keys, is written by the sink into a
merge-on-read table: seconds of each call of the sink.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from bench.compare import hudi_command, run_details
from bench.compared.contestants import HERE
from bench.compared.processes import Worker
from bench.tpch.data import generate, read
from bench.tpch.refresh import REFRESHED
from bench.writing.spark_parts import PARTS, Contestant, SparkFigures, SparkPart, SparkWriter, check_equal
from penstock.engine.spark import interpreter

HEAD: Final = """\
| write | contestant | CPU s | rows/s per core | MB shuffled | MB written | CPU / Penstock | wall / Penstock |
|---|---|---|---|---|---|---|---|"""
SINK_HEAD: Final = """\
| micro-batches of {rows:,} rows | seconds, median | p95 | maximum |
|---|---|---|---|"""
BATCH_ROWS: Final = 10_000
UPSERTED: Final = 20
"""RF1 copies one order of so many, and changes one."""
Figures = Mapping[Contestant, SparkFigures]


def prepare(folder: pathlib.Path, scale: float, batches: int) -> dict[str, int]:
    """Writes the rows of all writes as Parquet files into folders below `folder`: name -> number of rows."""
    generate(folder / "all", scale, "lineitem")
    rows = read(folder / "all" / "lineitem.parquet")
    refresh = next(table for table in REFRESHED if table.name == "lineitem")
    rf1 = refresh.rf1(rows, UPSERTED)
    for name in ("rf1", "batches"):
        (folder / name).mkdir()
    pq.write_table(rf1, folder / "rf1" / "lineitem.parquet")
    drawn = np.random.default_rng(26)
    for number in range(batches):
        chosen = rows.take(pa.array(drawn.choice(rows.num_rows, BATCH_ROWS, replace=False)))
        pq.write_table(chosen, folder / "batches" / f"{number:04}.parquet")
    return {"all": rows.num_rows, "rf1": rf1.num_rows}


def rounds_of(
    part: SparkPart, writers: Sequence[SparkWriter], scratch: pathlib.Path, rows: pathlib.Path, rounds: int
) -> Iterator[Figures]:
    """The figures of each round. rows: the folder of `prepare`."""
    loaded = {writer.contestant: scratch / f"loaded-{number}" for number, writer in enumerate(writers)}
    if part.rows != "all":
        for writer in writers:
            writer.write(loaded[writer.contestant], rows / "all", part, "bulk_insert")
    for number in range(rounds):
        figures, tables = {}, []
        for writer in writers:
            table = scratch / writer.contestant.name
            shutil.rmtree(table, ignore_errors=True)
            if part.rows != "all":
                shutil.copytree(loaded[writer.contestant], table)
            figures[writer.contestant] = writer.write(table, rows / part.rows, part, part.operation)
            tables.append(table)
        if number == 0:
            check_equal(tables)
        yield figures


def lines(part: str, rounds: Sequence[Figures], rows: int) -> Iterator[str]:
    """The rows of the report: one for each contestant."""
    for contestant in rounds[0]:
        own = [figures[contestant] for figures in rounds]
        cpu = statistics.median(one.cpu_s for one in own)
        shuffled, written = (
            statistics.median(getattr(one, name) for one in own) / 1e6 for name in ("shuffled_bytes", "size_bytes")
        )
        yield (
            f"| {part} | {contestant} | {cpu:.2f} | {rows / cpu:,.0f} | {shuffled:.1f} | {written:.1f} "
            f"| {ratio(rounds, contestant, 'cpu_s')} | {ratio(rounds, contestant, 'wall_s')} |"
        )


def ratio(rounds: Sequence[Figures], contestant: Contestant, name: str) -> str:
    """The median of the rounds' ratios to Penstock, and their spread."""
    ratios = sorted(getattr(one[contestant], name) / getattr(one[Contestant.PENSTOCK], name) for one in rounds)
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def seconds_line(name: str, seconds: Sequence[float]) -> str:
    """A row of the report about micro-batches."""
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return f"| {name} | {statistics.median(ordered):.2f} | {p95:.2f} | {ordered[-1]:.2f} |"


def stream(
    writer: SparkWriter, folder: pathlib.Path, rows: pathlib.Path, warm: int, tell: Callable[[str], None]
) -> None:
    """Streams the batches into a loaded table. The first `warm` ones do not count."""
    part = PARTS[-1]
    writer.write(folder / "sink", rows / "all", part, "bulk_insert")
    request = {"do": "stream_penstock", "path": str(folder / "sink"), "rows": str(rows / "batches")}
    answer = writer.worker.ask({**request, "operation": "upsert"})
    tell(SINK_HEAD.format(rows=BATCH_ROWS))
    for name, seconds in answer.items():
        tell(seconds_line(name, seconds[warm:]))


def compare(args: argparse.Namespace, parts: Sequence[SparkPart], tell: Callable[[str], None]) -> None:
    """Measures the parts, then the sink."""
    with contextlib.ExitStack() as stack:
        rows = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-spark-writes-")))
        sizes = prepare(rows, args.scale, args.batches)
        penstocks = [sys.executable, "-P", HERE / "spark_worker.py", "--penstock"]
        environment = {"PYSPARK_PYTHON": interpreter.command()}
        chosen = [one for one in Contestant if not args.contestants or one.name.lower() in args.contestants]
        writers = [
            SparkWriter(
                one,
                stack.enter_context(
                    Worker(hudi_command()) if one is Contestant.HUDI else Worker(penstocks, environment=environment)
                ),
            )
            for one in chosen
        ]
        tell(HEAD)
        for number, part in enumerate(parts):
            with tempfile.TemporaryDirectory(dir=rows) as tables:
                rounds = list(rounds_of(part, writers, pathlib.Path(tables), rows, args.warm + args.rounds))
            if number == 0:
                tell("\n".join(lines(f"{part.name}, cold", rounds[:1], sizes[part.rows])))
            tell("\n".join(lines(part.name, rounds[args.warm :], sizes[part.rows])))
        if args.batches:
            tell("")
            stream(writers[0], rows, rows, args.batches // 4, tell)


def main() -> None:
    """Runs the parts and prints the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.2, help="TPC-H's scale factor: 6,000,000 rows for 1")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds")
    parser.add_argument("--warm", type=int, default=2, help="rounds before, of each part")
    parser.add_argument("--only", action="append", metavar="PART", help="a name, or a pattern with *; in this order")
    parser.add_argument("--contestants", nargs="*", help="; ".join(one.name.lower() for one in Contestant))
    parser.add_argument("--batches", type=int, default=40, help="micro-batches of the stream, a quarter is warm-up")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    parts = [part for only in args.only or ["*"] for part in PARTS if fnmatch.fnmatch(part.name, only)]
    console, text_lines = Console(highlight=False, soft_wrap=True), list[str]()

    def tell(text: str) -> None:
        text_lines.append(text)
        console.print(text, markup=False)

    began, load = time.perf_counter(), os.getloadavg()[0]
    compare(args, parts, tell)
    if args.out:
        rounds = f"{args.rounds} rounds after {args.warm} of warm-up, {args.batches} micro-batches"
        about = run_details((time.perf_counter() - began) / 60, load, f"scale {args.scale}; {rounds}", args.only)
        head = [f"# Writes from Spark, measured on {about['date']}", ""]
        head += [f"* {name}: {value}" for name, value in about.items()]
        args.out.write_text("\n".join([*head, "", *text_lines]) + "\n")


if __name__ == "__main__":
    main()
