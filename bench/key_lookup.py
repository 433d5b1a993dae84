"""Bytes and processor time of a snapshot by record key: without an index, by the bucket hash, and by the record index.

    python -m bench.key_lookup [--partitions 100] [--buckets 100] [--rows 100] [--keys 1000] [--runs 3]

`penstock.write` writes a copy-on-write table of partitions × buckets file groups with so many rows each on average, and
this program adds a record index in Hudi's format. A table is read with the properties of one index at a time. The keys
are one, the last ones (of one partition, in its groups), or spread over the table. Bytes are those that the process
read (`/proc/self/io`), after one warm-up read; the time is the lowest of the runs.
"""

from __future__ import annotations

import argparse
import io
import json
import pathlib
import tempfile
import time
import uuid

import fastavro
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import penstock
from penstock.table.config.java_properties import format_properties, parse_properties
from penstock.table.hfile.encoder import encode_hfile
from penstock.table.hudi_table import open_table
from penstock.table.metadata.key_groups import group_number
from penstock.table.metadata.record_index import RECORD_INDEX
from penstock.table.metadata.record_schema import RECORD_SCHEMA, block_schema

GROUPS = 10
"""File groups of the record index: Hudi's least number."""
PROPERTIES = ".hoodie/hoodie.properties"
INDEX_TIME = "00000000000000001"
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("n", pa.int64()), ("text", pa.string())])


def key(number: int) -> str:
    """The key of a row."""
    return f"key-{number:012}"


def write_table(path: pathlib.Path, partitions: int, buckets: int, rows: int) -> None:
    """The table, with the partition `files` of the metadata table."""
    penstock.create_table(
        str(path),
        SCHEMA,
        record_key="id",
        partition_by="p",
        table_type="copy_on_write",
        buckets=buckets,
        key_generator="SIMPLE",
        metadata_table=True,
    )
    count, of_partition = partitions * buckets * rows, buckets * rows
    numbers = range(count)
    columns = [
        pa.array([key(number) for number in numbers]),
        pa.array([f"p{number // of_partition:04}" for number in numbers]),
        pa.array(numbers, pa.int64()),
        pa.array([f"text {number * 2654435761 % (1 << 40)} of a row" for number in numbers]),
    ]
    penstock.write(str(path), pa.table(columns, schema=SCHEMA))


def add_record_index(path: pathlib.Path) -> None:
    """A record index of all rows, as an instant that completed after all others."""
    found = penstock.read(str(path), columns=["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"])
    rows = found.read_all().to_pydict()
    schema_json = block_schema(RECORD_SCHEMA, "bench")
    schema = fastavro.parse_schema(json.loads(schema_json))
    cells: list[list[tuple[bytes, bytes]]] = [[] for _ in range(GROUPS)]
    for name, partition, file_name in zip(*rows.values(), strict=True):
        file_id = file_name.partition("_")[0]
        bits, index = uuid.UUID(file_id[:36]).int, int(file_id[37:])
        high, low = (part - (1 << 64) if part >> 63 else part for part in (bits >> 64, bits & (1 << 64) - 1))
        location = {"partitionName": partition, "fileIdHighBits": high, "fileIdLowBits": low, "fileIndex": index}
        record = {"key": "", "type": 5, "recordIndexMetadata": {**location, "fileId": "", "instantTime": 0}}
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, record)
        cells[group_number(name, GROUPS)].append((name.encode(), out.getvalue()))
    metadata = path / ".hoodie/metadata"
    (metadata / RECORD_INDEX).mkdir()
    stats = []
    for number, of_group in enumerate(cells):
        file = f"record-index-{number:04}-0_0-0-0_{INDEX_TIME}.hfile"
        (metadata / RECORD_INDEX / file).write_bytes(encode_hfile(sorted(of_group), {"schema": schema_json.encode()}))
        stats.append({"fileId": f"record-index-{number:04}-0", "path": f"{RECORD_INDEX}/{file}", "numWrites": 1})
    commit = {"partitionToWriteStats": {RECORD_INDEX: stats}, "operationType": "BULK_INSERT_PREPPED"}
    newest = max(item.completion_time or "" for item in open_table(str(path)).timeline().instants)
    file = f"{INDEX_TIME}_{int(newest) + 1}.deltacommit"
    (metadata / ".hoodie/timeline" / file).write_text(json.dumps(commit))


def use(path: pathlib.Path, index: str) -> None:
    """Changes the properties so that the table has this index only."""
    file = path / PROPERTIES
    properties = parse_properties(file.read_bytes())
    properties |= {
        "hoodie.index.type": "BUCKET" if index == "bucket hash" else "SIMPLE",
        "hoodie.table.metadata.partitions": f"files,{RECORD_INDEX}" if index == "record index" else "files",
    }
    file.write_bytes(format_properties(properties, ("bench",)))


def read_bytes() -> int:
    """Bytes that this process has read so far."""
    lines = pathlib.Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).partition(":")[2])


def measured(path: pathlib.Path, where: str, runs: int) -> tuple[int, float, int]:
    """(rows, lowest processor seconds, bytes read)."""
    count, seconds, size = 0, float("inf"), 0
    for run in range(runs + 1):
        started, before = time.process_time(), read_bytes()
        count = sum(batch.num_rows for batch in penstock.read(str(path), where=where, record_index="on"))
        if run:
            seconds, size = min(seconds, time.process_time() - started), read_bytes() - before
    return count, seconds, size


def main() -> None:
    """Writes the table, reads it with each index in turn, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("partitions", 100), ("buckets", 100), ("rows", 100), ("keys", 1000), ("runs", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    report = Table("index", "keys", "rows", "seconds", "bytes", "% of the scan")
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch, "table")
        write_table(path, args.partitions, args.buckets, args.rows)
        add_record_index(path)
        total = args.partitions * args.buckets * args.rows
        spread = [key(number) for number in range(0, total, max(1, total // args.keys))][: args.keys]
        newest = [key(number) for number in range(max(0, total - args.keys), total)]
        chosen = {"1": [key(total // 2)], f"{args.keys} newest": newest, f"{args.keys} spread": spread}
        for what, keys in chosen.items():
            where = f"id IN ({', '.join(map(repr, keys))})"
            use(path, "none")
            scan = measured(path, where, args.runs)
            for index in ("none", "bucket hash", "record index"):
                use(path, index)
                count, seconds, size = scan if index == "none" else measured(path, where, args.runs)
                share = f"{100 * size / scan[2]:.2f}"
                report.add_row(index, what, f"{count:,}", f"{seconds:.2f}", f"{size:,}", share)
    Console(width=120).print(report)


if __name__ == "__main__":
    main()
