"""Rows a second of a snapshot: one file group, a base file and log files of updates, written by real Hudi.

    python bench/read_slice.py [--rows 1000000] [--updated 0.1] [--runs 5]

The table is made once and kept under `.cache/bench`. Beside Penstock: pyarrow on the base file alone (what no reader of
merged rows can beat), and hudi-rs. Best of the runs, after one that warms up; rows are counted, not kept.
"""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
from hudi import HudiTableBuilder
from rich.console import Console
from rich.table import Table

import penstock

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent

OPTIONS = {
    "hoodie.table.name": "bench",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.parquet.max.file.size": str(4 << 30),
    **{f"hoodie.{step}.shuffle.parallelism": "1" for step in ("insert", "upsert", "bulkinsert")},
}


def select(first: int, end: int, step: int, ts: int) -> str:
    """Rows of ids first..end-1: a key, an ordering value, and seven columns of common types."""
    return (
        f"SELECT concat('key-', lpad(id, 12, '0')) AS id, {ts}L + id % 7 AS ts, id * 3 AS n, "
        "cast(id % 1000 AS int) AS k, "
        "id * 0.5D AS x, cast(id AS decimal(18, 2)) AS amount, concat('name ', id % 5000) AS name, id % 2 = 0 AS even, "
        f"timestamp_micros(1760000000000000 + id * 1000) AS at FROM range({first}, {end}, {step})"
    )


def make_table(rows: int, updated: float) -> pathlib.Path:
    """The table, made if it is not there."""
    folder = REPOSITORY / ".cache" / "bench" / f"rows-{rows}-updated-{updated:g}"
    if (folder / "ready").exists():
        return folder / "table"
    spec = importlib.util.spec_from_file_location("interop_conftest", REPOSITORY / "tests" / "interop" / "conftest.py")
    assert spec and spec.loader
    suite: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = suite
    spec.loader.exec_module(suite)
    folder.mkdir(parents=True, exist_ok=True)
    hudi = suite.Hudi(suite.make_environment(), folder)
    try:
        hudi.started()
        bulk = OPTIONS | {"hoodie.datasource.write.operation": "bulk_insert"}
        hudi.write_query(folder / "table", select(0, rows, 1, 0), bulk)
        upsert = OPTIONS | {"hoodie.datasource.write.operation": "upsert"}
        hudi.write_query(folder / "table", select(0, rows, max(1, round(1 / updated)), 100), upsert)
    finally:
        hudi.stop()
    (folder / "ready").touch()
    return folder / "table"


def read_penstock(table: pathlib.Path) -> int:
    """Merged rows by Penstock."""
    return sum(batch.num_rows for batch in penstock.read(str(table)))


def read_hudi_rs(table: pathlib.Path) -> int:
    """Merged rows by hudi-rs."""
    return sum(batch.num_rows for batch in HudiTableBuilder.from_base_uri(str(table)).build().read())


def read_base_files(table: pathlib.Path) -> int:
    """Unmerged rows of the base files by pyarrow."""
    files = (pq.ParquetFile(path) for path in table.glob("*.parquet"))
    return sum(batch.num_rows for file in files for batch in file.iter_batches(32768))


def best_seconds(read: Callable[[pathlib.Path], int], table: pathlib.Path, runs: int) -> tuple[int, float]:
    """(rows, seconds of the fastest run), after one run that warms up."""
    rows, fastest = read(table), float("inf")
    for _ in range(runs):
        started = time.perf_counter()
        if read(table) != rows:
            raise SystemExit(f"{read.__name__} did not return the same number of rows twice")
        fastest = min(fastest, time.perf_counter() - started)
    return rows, fastest


def main() -> None:
    """Makes the table, reads it in turn, prints a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--updated", type=float, default=0.1, help="share of the rows updated in log files")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    table = make_table(given.rows, given.updated)
    shown = Table(
        "reader", "rows", "seconds", "rows/s", title=f"snapshot, {given.updated:.0%} of the rows in log files"
    )
    readers = {"penstock": read_penstock, "hudi-rs": read_hudi_rs, "pyarrow, base file alone": read_base_files}
    for name, read in readers.items():
        rows, seconds = best_seconds(read, table, given.runs)
        shown.add_row(name, f"{rows:,}", f"{seconds:.3f}", f"{rows / seconds:,.0f}")
    Console().print(shown)


if __name__ == "__main__":
    main()
