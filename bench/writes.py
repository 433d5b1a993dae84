"""Writes and table services of Penstock beside those of Hudi's Spark bundle: CPU seconds, wall seconds, bytes, memory.

    python -m bench.writes [--rows 1000000] [--rounds 3] [--only PART …] [--memory SAMPLES] [--out FILE.md]

Both write the same Parquet files with rows of TPC-H's lineitem into their own tables of version 9, with a bucket index
(for clustering a simple one) and without the metadata table. Each round of an upsert or a service starts from a fresh
copy of the table before it. The tables must hold equal rows after the first round of each part. The first rounds warm
both (the JVM, the kernels) and do not count; the table has medians, and ratios Hudi / Penstock. Hudi's CPU is that of
its process tree, Penstock's that of this process.

Both have their default settings, except in parts that name Hudi's. The goal for bytes is at most 1.05 of Hudi's; fewer
are better. Hudi's base files have the codec gzip, and its decimals no dictionary; Penstock's have zstd. Hudi's log
blocks are Avro without compression; Penstock's are Parquet.

`--memory` measures Penstock's peak memory with this many samples, instead of the comparison; `bench.writing.memory`
says how.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import pathlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from rich.console import Console

from bench.compare import hudi_command, run_details
from bench.compared.processes import Worker
from bench.writing.memory import LARGER, MEASURED, TINY_ROWS, peaks_of
from bench.writing.memory import line as memory_line
from bench.writing.parts import PARTS, Part, sources
from bench.writing.writers import Figures, Hudi, Penstock, Writer, check_equal

HEAD: Final = """\
| write | CPU s | CPU s, Hudi | CPU, Hudi / Penstock | wall, Hudi / Penstock | MB | bytes, Penstock / Hudi |
|---|---|---|---|---|---|---|"""
MEMORY_HEAD: Final = f"""| write | MiB | MiB, {LARGER} times the rows and file groups | ratio |
|---|---|---|---|"""


def rounds_of(
    part: Part, hudi: Hudi, scratch: pathlib.Path, rows: pathlib.Path, rounds: int, warm: int
) -> Iterator[tuple[Figures, Figures]]:
    """(Penstock, Hudi) of each round after the warm ones. rows: a folder with the rows of `sources`."""
    writers: dict[str, Writer] = {"penstock": Penstock(), "hudi": hudi}
    for name, writer in writers.items():
        for source, operation in part.rows_before:
            writer.write(scratch / f"{name}-before", rows / source, part, operation)
    for number in range(warm + rounds):
        figures = []
        for name, writer in writers.items():
            table = scratch / name
            shutil.rmtree(table, ignore_errors=True)
            if part.has_table:
                shutil.copytree(scratch / f"{name}-before", table)
            if part.service:
                figures.append(writer.serve(table, part))
            else:
                figures.append(writer.write(table, rows / part.rows, part, part.operation))
        if number == 0:
            check_equal(scratch / "penstock", scratch / "hudi")
        if number >= warm:
            yield figures[0], figures[1]


def line(part: Part, rounds: Sequence[tuple[Figures, Figures]]) -> str:
    """A row of the report."""

    def median(name: str, place: int) -> float:
        return statistics.median(float(getattr(figures[place], name)) for figures in rounds)

    def ratio(name: str) -> str:
        ratios = sorted(getattr(hudis, name) / max(1e-9, getattr(ours, name)) for ours, hudis in rounds)
        return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"

    seconds = f"{median('cpu_s', 0):.2f} | {median('cpu_s', 1):.2f} | {ratio('cpu_s')} | {ratio('wall_s')}"
    size = median("size_bytes", 0)
    return f"| {part.name} | {seconds} | {size / 1e6:.3g} | {size / max(1, median('size_bytes', 1)):.2f} |"


def compare(args: argparse.Namespace, parts: Sequence[Part], tell: Callable[[str], None]) -> None:
    """Measures the parts beside Hudi."""
    tell(HEAD)
    with tempfile.TemporaryDirectory(prefix="bench-writes-") as folder, Worker(hudi_command()) as worker:
        hudi = Hudi(worker)
        for name, query in sources(args.rows, parts):
            hudi.rows(pathlib.Path(folder, name), query)
        for part in parts:
            with tempfile.TemporaryDirectory(dir=folder) as tables:
                scratch = pathlib.Path(tables)
                tell(line(part, list(rounds_of(part, hudi, scratch, pathlib.Path(folder), args.rounds, args.warm))))


def measure_memory(args: argparse.Namespace, parts: Sequence[Part], tell: Callable[[str], None]) -> None:
    """Measures the peak memory of the parts."""
    measured = [part for part in parts if part in MEASURED]
    tell(MEMORY_HEAD)
    with tempfile.TemporaryDirectory(prefix="bench-writes-") as name:
        folder = pathlib.Path(name)
        with Worker(hudi_command()) as worker:
            for size, rows in (("tiny", TINY_ROWS), ("small", args.rows), ("large", LARGER * args.rows)):
                for source, query in sources(rows, measured):
                    Hudi(worker).rows(folder / size / source, query)
        for part in measured:
            tell(memory_line(part, list(peaks_of(part, folder, args.memory))))


def main() -> None:
    """Runs the parts and prints the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds")
    parser.add_argument("--warm", type=int, default=1, help="rounds before, of each part")
    parser.add_argument("--only", action="append", metavar="PART", help="a name, or a pattern with *; in this order")
    parser.add_argument("--memory", type=int, default=0, metavar="SAMPLES")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    parts = [part for only in args.only or ["*"] for part in PARTS if fnmatch.fnmatch(part.name, only)]
    if not parts:
        parser.error(f"no such part; parts are {', '.join(part.name for part in PARTS)}")
    pa.set_cpu_count(2)
    console, lines = Console(highlight=False, soft_wrap=True), list[str]()

    def tell(text: str) -> None:
        lines.append(text)
        console.print(text, markup=False)

    began, load = time.perf_counter(), os.getloadavg()[0]
    (measure_memory if args.memory else compare)(args, parts, tell)
    if args.out:
        minutes = (time.perf_counter() - began) / 60
        rounds = f"{args.memory} samples" if args.memory else f"{args.rounds} rounds after {args.warm} of warm-up"
        about = run_details(minutes, load, f"{args.rows:,} rows of lineitem; {rounds}", args.only)
        head = [f"# Writes, measured on {about['date']}", "", *(f"* {name}: {value}" for name, value in about.items())]
        args.out.write_text("\n".join([*head, "", *lines, ""]))


if __name__ == "__main__":
    main()
