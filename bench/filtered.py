"""Seconds of a snapshot with and without a filter: row groups and partitions that are not read.

    python -m bench.filtered [--rows 1000000] [--partitions 500] [--runs 5]

Two tables of version 6, written here by pyarrow in a scratch folder: one file of 100 row groups, sorted by its key; and
one base file in each of many partitions. Best of the runs, after one that warms up; rows are counted, not kept.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import tempfile
import time
from collections.abc import Mapping

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


def write_table(folder: pathlib.Path, files: Mapping[str, pa.Table], fields: str, row_group_size: int) -> None:
    """A copy-on-write table of one commit: a base file in each partition."""
    timeline = folder / ".hoodie"
    timeline.mkdir(parents=True)
    keygen = "SimpleKeyGenerator" if fields else "NonpartitionedKeyGenerator"
    (timeline / "hoodie.properties").write_text(
        "hoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=6\n"
        f"hoodie.timeline.layout.version=1\nhoodie.table.partition.fields={fields}\n"
        f"hoodie.table.recordkey.fields=id\nhoodie.table.keygenerator.class=org.apache.hudi.keygen.{keygen}\n"
    )
    stats = {}
    for number, (partition, held) in enumerate(files.items()):
        (folder / partition).mkdir(exist_ok=True)
        (folder / partition / ".hoodie_partition_metadata").write_text(f"commitTime={INSTANT}\npartitionDepth=1\n")
        name = f"group{number}-0_0-1-1_{INSTANT}.parquet"
        pq.write_table(held, folder / partition / name, row_group_size=row_group_size)
        path = f"{partition}/{name}" if partition else name
        stats[partition] = [{"fileId": f"group{number}-0", "path": path, "numWrites": len(held)}]
    schema = {"type": "record", "name": "t", "fields": [{"name": n, "type": ["null", t]} for n, t in AVRO]}
    commit = {"partitionToWriteStats": stats, "extraMetadata": {"schema": json.dumps(schema)}}
    (timeline / f"{INSTANT}.commit").write_text(json.dumps({**commit, "operationType": "BULK_INSERT"}))


def best(table: pathlib.Path, where: str, runs: int) -> tuple[int, float]:
    """(rows, seconds of the fastest run), after one run that warms up."""
    found, fastest = 0, float("inf")
    for run in range(runs + 1):
        started = time.perf_counter()
        found = sum(batch.num_rows for batch in penstock.read(str(table), where=where))
        if run:
            fastest = min(fastest, time.perf_counter() - started)
    return found, fastest


def main() -> None:
    """Makes the tables, reads each in turn, prints a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    shown = Table("table", "filter", "rows", "seconds", "times faster")
    with tempfile.TemporaryDirectory() as scratch:
        grouped, parted = pathlib.Path(scratch, "grouped"), pathlib.Path(scratch, "parted")
        write_table(grouped, {"": rows(0, given.rows, "")}, "", -(-given.rows // ROW_GROUPS))
        names = [f"dt={number:05}" for number in range(given.partitions)]
        each = given.rows // given.partitions
        write_table(parted, {name: rows(at * each, each, name) for at, name in enumerate(names)}, "dt", each)
        middle = given.rows // 2
        questions = {
            grouped: [f"id = 'key-{middle:012}'", f"n < {given.rows // 10}", "x < 0", "name = 'name 7'"],
            parted: [f"dt = '{given.partitions // 2:05}'", f"n = {middle}", "name = 'name 7'"],
        }
        for table, filters in questions.items():
            _, whole = best(table, "", given.runs)
            for where in ("", *filters):
                found, seconds = best(table, where, given.runs)
                shown.add_row(table.name, where, f"{found:,}", f"{seconds:.3f}", f"{whole / seconds:.1f}")
    Console().print(shown)


if __name__ == "__main__":
    main()
