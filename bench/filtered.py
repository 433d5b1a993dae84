"""Seconds of a snapshot with and without a filter: the effect of skipped row groups and partitions.

    python -m bench.filtered [--rows 1000000] [--partitions 500] [--runs 5]

Writes two tables of version 6 with pyarrow into a temporary folder: one file of 100 row groups, sorted by its key; and
one base file in each of many partitions. Reports the best run after a warm-up run; rows are counted and dropped.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import tempfile
import time
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import penstock

INSTANT = "20260101000000000"
ROW_GROUPS = 100
AVRO = [("id", "string"), ("n", "long"), ("x", "double"), ("name", "string"), ("dt", "string")]
META = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path")


def rows(first: int, count: int, partition: str) -> pa.Table:
    """Rows first..first+count-1, sorted by key."""
    keys = [f"key-{number:012}" for number in range(first, first + count)]
    columns: dict[str, pa.Array] = {name: pa.repeat(INSTANT, count) for name in META}
    columns["_hoodie_record_key"] = columns["id"] = pa.array(keys)
    columns["_hoodie_partition_path"] = pa.repeat(partition, count)
    columns["_hoodie_file_name"] = pa.repeat("f", count)
    columns["n"] = pa.array(range(first, first + count), pa.int64())
    columns["x"] = pa.array([number * 0.5 for number in range(first, first + count)])
    columns["name"] = pa.array([f"name {number % 5000}" for number in range(first, first + count)])
    columns["dt"] = pa.repeat(partition.rpartition("=")[2], count)
    return pa.table(columns)


def write_table(
    folder: pathlib.Path, files: Iterable[tuple[str, pa.Table]], fields: str, row_group_size: int, commits: int = 1
) -> None:
    """A copy-on-write table with these base files, each with its partition. Commits write them in turn."""
    timeline = folder / ".hoodie"
    timeline.mkdir(parents=True)
    keygen = "SimpleKeyGenerator" if fields else "NonpartitionedKeyGenerator"
    (timeline / "hoodie.properties").write_text(
        "hoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=6\n"
        f"hoodie.timeline.layout.version=1\nhoodie.table.partition.fields={fields}\n"
        f"hoodie.table.recordkey.fields=id\nhoodie.table.keygenerator.class=org.apache.hudi.keygen.{keygen}\n"
    )
    stats: list[dict[str, list[dict[str, object]]]] = [{} for _ in range(commits)]
    for number, (partition, data) in enumerate(files):
        commit = number % commits
        instant = int(INSTANT) + commit
        (folder / partition).mkdir(exist_ok=True)
        (folder / partition / ".hoodie_partition_metadata").write_text(f"commitTime={instant}\npartitionDepth=1\n")
        name = f"group{number}-0_0-1-1_{instant}.parquet"
        pq.write_table(data, folder / partition / name, row_group_size=row_group_size)
        path = f"{partition}/{name}" if partition else name
        stats[commit].setdefault(partition, []).append(
            {"fileId": f"group{number}-0", "path": path, "numWrites": len(data)}
        )
    schema = {"type": "record", "name": "t", "fields": [{"name": n, "type": ["null", t]} for n, t in AVRO]}
    for commit, of_commit in enumerate(stats):
        metadata = {"partitionToWriteStats": of_commit, "extraMetadata": {"schema": json.dumps(schema)}}
        name = f"{int(INSTANT) + commit}.commit"
        (timeline / name).write_text(json.dumps({**metadata, "operationType": "BULK_INSERT"}))


def best(table: pathlib.Path, where: str, runs: int) -> tuple[int, float]:
    """(rows, seconds of the fastest run), after one warm-up run."""
    count, fastest = 0, float("inf")
    for run in range(runs + 1):
        started = time.perf_counter()
        count = sum(batch.num_rows for batch in penstock.read(str(table), where=where))
        if run:
            fastest = min(fastest, time.perf_counter() - started)
    return count, fastest


def main() -> None:
    """Writes the tables, reads each in turn and prints a line for each filter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    report = Table("table", "filter", "rows", "seconds", "times faster")
    with tempfile.TemporaryDirectory() as scratch:
        grouped, parted = pathlib.Path(scratch, "grouped"), pathlib.Path(scratch, "parted")
        write_table(grouped, [("", rows(0, args.rows, ""))], "", -(-args.rows // ROW_GROUPS))
        names = [f"dt={number:05}" for number in range(args.partitions)]
        rows_per_partition = args.rows // args.partitions
        write_table(
            parted,
            ((name, rows(at * rows_per_partition, rows_per_partition, name)) for at, name in enumerate(names)),
            "dt",
            rows_per_partition,
        )
        middle = args.rows // 2
        questions = {
            grouped: [f"id = 'key-{middle:012}'", f"n < {args.rows // 10}", "x < 0", "name = 'name 7'"],
            parted: [f"dt = '{args.partitions // 2:05}'", f"n = {middle}", "name = 'name 7'"],
        }
        for table, filters in questions.items():
            _, unfiltered = best(table, "", args.runs)
            for where in ("", *filters):
                count, seconds = best(table, where, args.runs)
                report.add_row(table.name, where, f"{count:,}", f"{seconds:.3f}", f"{unfiltered / seconds:.1f}")
    Console().print(report)


if __name__ == "__main__":
    main()
