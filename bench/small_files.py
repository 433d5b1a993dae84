"""Processor time of a snapshot of a table of many small files, beside pyarrow's dataset of the same files.

    python -m bench.small_files [--files 10000] [--partitions 5000] [--commits 1000] [--rows 100] [--runs 5]

A copy-on-write table of `--files` base files of `--rows` rows each, without a metadata table. Both read all columns of
all files to Arrow, from a newly opened table or dataset: listings are part of it. Only Penstock reads the timeline and
selects the file slices. Runs take turns after one of warm-up; a ratio is that of one turn. `--partition` instead: the
seconds to the first batch of one partition.
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
from bench.filtered import rows, write_table

CACHE: Final = pathlib.Path(__file__).resolve().parent.parent / ".cache" / "bench"


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


def main() -> None:
    """Prints a line for each reader."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=5_000)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    path = make_table(args.files, args.partitions, args.commits, args.rows)
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
