"""The bench's tables: what each is, made once by real Hudi 1.2.0 and kept, and checked to be what it says.

Not here: columns and their values (`columns`), who reads them (`contestants`).
"""

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
    """A merge-on-read table of version 9: `rows` rows bulk-inserted into so many file groups, then, if `updated_rows`
    is not 0, that many of them, evenly spread, upserted into their logs. No change loses its merge."""

    name: str
    rows: int
    updated_rows: int
    columns: tuple[Column, ...] = PLAIN
    file_groups: int = 1
    log_format: str = "avro"

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """With Hudi's five in front."""
        return META + self.columns

    def options(self) -> dict[str, str]:
        """Hudi's options for every write. A bucket index: an upsert finds its file group without reading it."""
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
class MadeTable:
    """A table on disk. `first_requested` and `first_completed` are the instant of its bulk insert, by the two times
    that readers bound ranges by; `last_…` that of the upsert, or the same where there is none."""

    table: BenchTable
    path: pathlib.Path
    first_requested: str
    first_completed: str
    last_requested: str
    last_completed: str


def standard_tables(rows: int, big_rows: int) -> dict[str, BenchTable]:
    """Every table of a run by name, of `rows` rows each (`big_rows`: of that which shows what grows with size)."""
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
        BenchTable(name="big", rows=big_rows, updated_rows=tenth),
        BenchTable(name="lineitem", rows=rows, updated_rows=tenth, columns=LINEITEM),
        BenchTable(name="tiny", rows=2000, updated_rows=200),
    )
    return {table.name: table for table in tables}


def made(table: BenchTable, cache: pathlib.Path, writer: Callable[[], Worker]) -> MadeTable:
    """The table, written by real Hudi if it is not there; `writer` starts a process of it. Checked each time."""
    digest = hashlib.sha256(json.dumps([asdict(table), table.options()], sort_keys=True).encode()).hexdigest()
    folder = cache / f"{table.name}-{table.rows}-{digest[:10]}"
    path = folder / "table"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write(table, path, writer())
        (folder / "ready").touch()
    return checked(table, path)


def write(table: BenchTable, path: pathlib.Path, writer: Worker) -> None:
    """The bulk insert, and the upsert."""
    rows = select(table.columns, 0, table.rows, 1, ts=0, salt=0, parts=2)
    operation = "hoodie.datasource.write.operation"
    request = {"do": "write", "path": str(path)}
    writer.ask({**request, "select": rows, "options": table.options() | {operation: "bulk_insert"}})
    if table.updated_rows:
        step = table.rows // table.updated_rows
        rows = select(table.columns, 0, step * table.updated_rows, step, ts=100, salt=1)
        writer.ask({**request, "select": rows, "options": table.options() | {operation: "upsert"}})


def checked(table: BenchTable, path: pathlib.Path) -> MadeTable:
    """The table as it lies there; AssertionError where its files are not what it stands for."""
    names = {entry: parse_file_name(entry.name) for entry in path.iterdir()}
    bases = [entry for entry, name in names.items() if isinstance(name, BaseName)]
    logs = {entry: name.file_id for entry, name in names.items() if isinstance(name, LogName)}
    assert len(bases) == table.file_groups, f"{table.name}: {len(bases)} base files, expected {table.file_groups}"
    expected = table.file_groups if table.updated_rows else 0
    groups = len(set(logs.values()))
    enough = expected // 2 <= groups <= expected  # keys that are evenly apart do not hash to every bucket
    assert enough, f"{table.name}: {groups} file groups with logs, expected {expected}"
    kinds = {kind for log in logs for kind in block_kinds(log)}
    wanted = {BlockKind.AVRO_DATA if table.log_format == "avro" else BlockKind.PARQUET_DATA} if logs else set()
    assert kinds == wanted, f"{table.name}: log blocks {kinds}, expected {wanted}"
    timeline = open_table(str(path)).timeline()
    writes = timeline.completed_writes
    assert len(writes) == (2 if table.updated_rows else 1), f"{table.name}: {len(writes)} writes"
    return MadeTable(
        table=table,
        path=path,
        first_requested=str(writes[0].requested_time),
        first_completed=str(timeline.order_key(writes[0])),
        last_requested=str(writes[-1].requested_time),
        last_completed=str(timeline.order_key(writes[-1])),
    )


def block_kinds(log: pathlib.Path) -> set[BlockKind]:
    """The kinds of a log file's blocks; AssertionError for a damaged stretch."""
    found = list(read_blocks(memoryview(log.read_bytes()), log.name))
    assert all(isinstance(block, LogBlock) for block in found), f"{log}: damaged"
    return {block.kind for block in found if isinstance(block, LogBlock)}
