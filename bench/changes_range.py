"""Processor seconds of a range of changes over many commits of one file group.

    python -m bench.changes_range [--rows 1000000] [--commits 1 10 50] [--share 0.001] [--runs 3] [--type merge_on_read]

Penstock writes a table of one file group: the rows, and then commits that each update a random share of them. The
changes of the last N commits are read, with all columns. A line has the changed rows, the median of the processor
seconds of this process after one warm-up run, and the base file's rows that were decoded, as a multiple of its rows.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import tempfile
import time

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import penstock
from penstock.reader.base.file import BaseFile


def rows_of(ids: np.ndarray, commit: int) -> pa.Table:
    """Rows of seven columns as a commit writes them."""
    words = pa.array([f"customer {number}" for number in range(1000)])
    return pa.table(
        {
            "id": pa.array([f"key-{number:010}" for number in ids.tolist()]),
            "ts": pa.array(np.full(len(ids), commit, np.int64)),
            "name": words.take(pa.array(ids % 1000)),
            "price": pa.array(ids * 0.25 + commit),
            "quantity": pa.array((ids * 7 + commit) % 50),
            "note": pa.array([f"a note of row {number * 2654435761 % 2**32}" for number in ids.tolist()]),
            "paid": pa.array(ids % 3 == 0),
        }
    )


def write_table(path: str, rows: int, commits: int, share: float, table_type: str) -> None:
    """The table: its rows, then the commits."""
    whole = rows_of(np.arange(rows), 0)
    penstock.create_table(path, whole.schema, record_key="id", ordering="ts", buckets=1, table_type=table_type)
    penstock.write(path, whole)
    random = np.random.default_rng(1)
    for commit in range(1, commits + 1):
        ids = np.sort(random.choice(rows, max(1, int(rows * share)), replace=False))
        penstock.write(path, rows_of(ids, commit))


def completion_times(path: str) -> list[str]:
    """The completion times of the table's commits, in order."""
    folder = pathlib.Path(path, ".hoodie", "timeline")
    return sorted(file.stem.partition("_")[2] for file in folder.glob("*_*.*commit"))


def read_range(path: str, after: str) -> tuple[int, float]:
    """(Changed rows, processor seconds) of a range of changes."""
    began = time.process_time()
    changed = sum(batch.num_rows for batch in penstock.read(path, query="cdc", after=after, threads=1))
    return changed, time.process_time() - began


def decoded_rows(path: str, after: str) -> int:
    """The rows that base files return while the range is read."""
    rows, read = 0, BaseFile.read

    def counted(self: BaseFile, *args: object) -> object:
        nonlocal rows
        for batch in read(self, *args):  # type: ignore[arg-type]
            rows += batch.num_rows if ": base file " in self.where else 0  # a block of a log is a Parquet file too
            yield batch

    BaseFile.read = counted  # type: ignore[method-assign,assignment]
    try:
        read_range(path, after)
    finally:
        BaseFile.read = read  # type: ignore[method-assign]
    return rows


def main() -> None:
    """Writes the table, and reads the ranges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, nargs="+", default=[1, 10, 50])
    parser.add_argument("--share", type=float, default=0.001)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--type", choices=["merge_on_read", "copy_on_write"], default="merge_on_read")
    parser.add_argument("--table", type=pathlib.Path, help="keep the table here; it is not written again")
    args = parser.parse_args()
    report = Table("commits", "changed rows", "CPU seconds", "base rows decoded / rows")
    with tempfile.TemporaryDirectory(prefix="bench-changes-") as scratch:
        path = str(args.table or pathlib.Path(scratch, "table"))
        if not pathlib.Path(path).exists():
            write_table(path, args.rows, max(args.commits), args.share, args.type)
        times = completion_times(path)
        for commits in args.commits:
            after = times[-commits - 1]
            runs = [read_range(path, after) for _ in range(args.runs + 1)]
            seconds = statistics.median(cpu for _, cpu in runs[1:])
            decoded = decoded_rows(path, after) / args.rows
            report.add_row(str(commits), f"{runs[0][0]:,}", f"{seconds:.2f}", f"{decoded:.1f}")
    Console().print(report)


if __name__ == "__main__":
    main()
