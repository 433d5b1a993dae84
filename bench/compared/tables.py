"""The bench's tables: definitions, written once by Hudi 1.2.0 and cached; checks of their files."""

from __future__ import annotations

import hashlib
import json
import pathlib
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass

from bench.compared.columns import LINEITEM, META, NARROW, PLAIN, WIDE, Column, select
from bench.compared.processes import Worker
from penstock.table.files.names import BaseName, LogName, parse_file_name
from penstock.table.hudi_table import open_table
from penstock.table.log.blocks import BlockKind, LogBlock, read_blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTable:
    """A merge-on-read table of version 9: a bulk insert, then an upsert into the logs. Every upserted row wins its
    merge."""

    name: str
    """Name of the table."""
    rows: int
    """Rows of the bulk insert."""
    updated_rows: int
    """Rows of the upsert, evenly distributed; 0 for no upsert."""
    columns: tuple[Column, ...] = PLAIN
    """Data columns."""
    file_groups: int = 1
    """Number of file groups."""
    logged_groups: int = 0
    """The number of file groups that the upsert writes into; 0: into all. Other rows of the upsert are left out."""
    log_format: str = "avro"
    """Format of log data blocks: `avro` or `parquet`."""

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """Hudi's five meta columns, then the data columns."""
        return META + self.columns

    def options(self) -> dict[str, str]:
        """Hudi's options of every write. With the bucket index an upsert locates its file group without a read."""
        key, ordering = self.columns[0].name, self.columns[1].name
        return {
            "hoodie.table.name": "bench",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": key,
            "hoodie.datasource.write.precombine.field": ordering,
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": str(self.file_groups),
            "hoodie.logfile.data.block.format": self.log_format,
            "hoodie.table.cdc.enabled": "true",
            "hoodie.metadata.enable": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.compact.inline": "false",
            "hoodie.parquet.max.file.size": str(8 << 30),
            **{f"hoodie.{step}.shuffle.parallelism": "2" for step in ("upsert", "bulkinsert")},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTable:
    """A table on disk. Readers bound ranges by requested or by completion times. Without an upsert the last instant is
    the first."""

    table: BenchTable
    """Its definition."""
    path: pathlib.Path
    """Its base path."""
    first_requested: str
    """Requested time of the bulk insert."""
    first_completed: str
    """Completion time of the bulk insert."""
    last_requested: str
    """Requested time of the upsert."""
    last_completed: str
    """Completion time of the upsert."""


def standard_tables(rows: int, big_rows: int) -> dict[str, BenchTable]:
    """Every table of a run by name. Most have `rows` rows; `big` has `big_rows`, to show the growth with size."""
    tenth, small = rows // 10, max(1, rows // 200)
    tables = (
        BenchTable(name="plain", rows=rows, updated_rows=tenth),
        BenchTable(name="small-log", rows=rows, updated_rows=small),
        BenchTable(name="log-free", rows=rows, updated_rows=0),
        BenchTable(name="narrow", rows=rows, updated_rows=tenth, columns=NARROW),
        BenchTable(name="wide", rows=rows // 2, updated_rows=tenth // 2, columns=WIDE),
        BenchTable(name="parquet-log", rows=rows, updated_rows=tenth, log_format="parquet"),
        BenchTable(name="groups-4", rows=rows, updated_rows=tenth, file_groups=4),
        BenchTable(name="groups-64", rows=rows, updated_rows=tenth, file_groups=64),
        BenchTable(name="few-logs", rows=rows, updated_rows=tenth, file_groups=20, logged_groups=1),
        BenchTable(name="big", rows=big_rows, updated_rows=tenth),
        BenchTable(name="lineitem", rows=rows, updated_rows=tenth, columns=LINEITEM),
        BenchTable(name="tiny", rows=2000, updated_rows=200),
    )
    return {table.name: table for table in tables}


def ensure_table(table: BenchTable, cache: pathlib.Path, writer: Callable[[], Worker]) -> PreparedTable:
    """The table, written by Hudi unless it is cached; `writer` starts the Hudi process. Always checks its files."""
    digest = hashlib.sha256(json.dumps([asdict(table), table.options()], sort_keys=True).encode()).hexdigest()
    folder = cache / f"{table.name}-{table.rows}-{digest[:10]}"
    path = folder / "table"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write(table, path, writer())
        (folder / "ready").touch()
    return check_table(table, path)


def write(table: BenchTable, path: pathlib.Path, writer: Worker) -> None:
    """Writes the bulk insert and the upsert."""
    rows = select(table.columns, 0, table.rows, 1, ts=0, salt=0, parts=2)
    operation = "hoodie.datasource.write.operation"
    request = {"do": "write", "path": str(path)}
    writer.ask({**request, "select": rows, "options": table.options() | {operation: "bulk_insert"}})
    if table.updated_rows:
        step = table.rows // table.updated_rows
        rows = select(table.columns, 0, step * table.updated_rows, step, ts=100, salt=1)
        if table.logged_groups:
            key = table.columns[0].name
            buckets = ", ".join(f"'{bucket:08d}'" for bucket in range(table.logged_groups))
            written = f"SELECT {key} FROM parquet.`{path}/*.parquet` WHERE left(_hoodie_file_name, 8) IN ({buckets})"
            rows = f"SELECT * FROM ({rows}) WHERE {key} IN ({written})"
        writer.ask({**request, "select": rows, "options": table.options() | {operation: "upsert"}})


def check_table(table: BenchTable, path: pathlib.Path) -> PreparedTable:
    """Checks the files of a table against its definition; AssertionError if they differ."""
    names = {entry: parse_file_name(entry.name) for entry in path.iterdir()}
    bases = [entry for entry, name in names.items() if isinstance(name, BaseName)]
    logs = {entry: name.file_id for entry, name in names.items() if isinstance(name, LogName)}
    assert len(bases) == table.file_groups, f"{table.name}: {len(bases)} base files, expected {table.file_groups}"
    expected = (table.logged_groups or table.file_groups) if table.updated_rows else 0
    groups = len(set(logs.values()))
    enough = expected // 2 <= groups <= expected  # evenly spaced keys do not hash to every bucket
    assert enough, f"{table.name}: {groups} file groups with logs, expected {expected}"
    kinds = {kind for log in logs for kind in block_kinds(log)}
    expected_kinds = {BlockKind.AVRO_DATA if table.log_format == "avro" else BlockKind.PARQUET_DATA} if logs else set()
    assert kinds == expected_kinds, f"{table.name}: log blocks {kinds}, expected {expected_kinds}"
    timeline = open_table(str(path)).timeline()
    writes = timeline.completed_writes
    assert len(writes) == (2 if table.updated_rows else 1), f"{table.name}: {len(writes)} writes"
    return PreparedTable(
        table=table,
        path=path,
        first_requested=str(writes[0].requested_time),
        first_completed=str(timeline.order_key(writes[0])),
        last_requested=str(writes[-1].requested_time),
        last_completed=str(timeline.order_key(writes[-1])),
    )


def block_kinds(log: pathlib.Path) -> set[BlockKind]:
    """The kinds of a log file's blocks; AssertionError if a part of the file is damaged."""
    stretches = list(read_blocks(memoryview(log.read_bytes()), log.name))
    assert all(isinstance(block, LogBlock) for block in stretches), f"{log}: damaged"
    return {block.kind for block in stretches if isinstance(block, LogBlock)}
