"""The two writers, the cost of a write, and the check that their tables hold equal rows."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from bench.compared.processes import Worker
from bench.writing.parts import BUCKETS, KEY, ORDERING, PARTITION, SORT_BY, Part, hudis_options, hudis_service_options

BATCH_ROWS = 32_768


@dataclass(frozen=True, slots=True)
class Figures:
    """The cost of one write."""

    cpu_s: float
    """CPU seconds."""
    wall_s: float
    """Seconds of wall time."""
    size_bytes: int
    """Size of the data files that it created."""


class Writer(Protocol):
    """A writer of tables."""

    def write(self, table: pathlib.Path, rows: pathlib.Path, part: Part, operation: str) -> Figures:
        """One write, which creates the table if there is none. rows: a folder of Parquet files."""

    def serve(self, table: pathlib.Path, part: Part) -> Figures:
        """Plans and carries out the part's service."""


class Hudi:
    """Writes with Hudi's bundle in Spark."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def rows(self, path: pathlib.Path, query: str) -> None:
        """Writes the rows of a query into Parquet files."""
        self._worker.ask({"do": "parquet", "path": str(path), "select": query})

    def write(self, table: pathlib.Path, rows: pathlib.Path, part: Part, operation: str) -> Figures:
        """See `Writer`."""
        before = data_files(table)
        request = {"do": "write", "path": str(table), "select": f"SELECT * FROM parquet.`{rows}`"}
        _, cost = self._worker.costed({**request, "options": hudis_options(part, operation)})
        return Figures(cost.cpu_s, cost.wall_s, new_bytes(table, before))

    def serve(self, table: pathlib.Path, part: Part) -> Figures:
        """See `Writer`."""
        before = data_files(table)
        text = ",".join(f"{name}={value}" for name, value in hudis_service_options(part).items())
        call = f"CALL run_{part.service}(op => 'scheduleAndExecute', path => '{table}', options => '{text}')"
        _, cost = self._worker.costed({"do": "sql", "text": call})
        return Figures(cost.cpu_s, cost.wall_s, new_bytes(table, before))


@dataclass(frozen=True, slots=True)
class Penstock:
    """Writes with Penstock, in this process."""

    buckets: int = BUCKETS
    """File groups of a table with a bucket index and no partitions."""

    def write(self, table: pathlib.Path, rows: pathlib.Path, part: Part, operation: str) -> Figures:
        """See `Writer`."""
        before = data_files(table)
        cpu, wall = time.process_time(), time.perf_counter()
        data = rows_in(rows)
        if not table.exists():
            penstock.create_table(
                str(table),
                data.schema,
                record_key=KEY,
                ordering=ORDERING,
                partition_by=PARTITION if part.partitioned else (),
                table_type=part.table_type.lower(),
                index=part.index,
                buckets=None if part.index == "simple" else 1 if part.partitioned else self.buckets,
            )
        penstock.write(str(table), data, operation)
        return Figures(time.process_time() - cpu, time.perf_counter() - wall, new_bytes(table, before))

    def serve(self, table: pathlib.Path, part: Part) -> Figures:
        """See `Writer`."""
        before = data_files(table)
        cpu, wall = time.process_time(), time.perf_counter()
        if part.service == "compaction":
            penstock.compact(str(table))
        else:
            sizes = penstock.ClusteringSizes(target_file_bytes=1 << 40, small_file_bytes=1 << 40)
            penstock.cluster(str(table), sort_by=[SORT_BY], sizes=sizes)
        return Figures(time.process_time() - cpu, time.perf_counter() - wall, new_bytes(table, before))


def rows_in(folder: pathlib.Path) -> pa.RecordBatchReader:
    """The rows of the Parquet files of a folder, batch by batch."""
    files = sorted(folder.glob("*.parquet"))

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            yield from pq.ParquetFile(file, pre_buffer=False).iter_batches(BATCH_ROWS)

    return pa.RecordBatchReader.from_batches(pq.read_schema(files[0]), batches())


def data_files(table: pathlib.Path) -> dict[pathlib.Path, int]:
    """The data files of a table, with their sizes."""
    files = (file for file in table.rglob("*") if file.is_file() and ".hoodie" not in file.parts)
    names = (".crc", "_metadata")
    return {file: file.stat().st_size for file in files if not file.name.endswith(names)}


def new_bytes(table: pathlib.Path, before: dict[pathlib.Path, int]) -> int:
    """The size of the data files that were created since."""
    return sum(size for file, size in data_files(table).items() if file not in before)


def check_equal(ours: pathlib.Path, hudis: pathlib.Path) -> int:
    """The number of rows of both tables. AssertionError unless their rows are equal."""
    sorted_rows = []
    for table in (ours, hudis):
        rows = penstock.read(str(table), meta=False).read_all()
        sorted_rows.append(rows.select(sorted(rows.schema.names)).sort_by(KEY))
    mine, others = sorted_rows
    assert mine.num_rows == others.num_rows, f"{ours}: {mine.num_rows} rows, Hudi wrote {others.num_rows}"
    assert mine.equals(others.cast(mine.schema)), f"{ours}: rows differ from those of {hudis}"
    return int(mine.num_rows)
