"""Writes of TPC-H's lineitem from Spark: what is measured, the contestants, and the rows that they write."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import pyarrow as pa

import penstock
from bench.compared.processes import Worker
from bench.tpch.data import read
from bench.writing.writers import data_files, new_bytes

KEY: Final = ("l_orderkey", "l_linenumber")
BUCKETS: Final = 4
"""File groups of the table."""


class Contestant(StrEnum):
    """Who writes."""

    PENSTOCK = "Penstock"
    OBJECTS = "Penstock, an object a record"
    HUDI = "Hudi's bundle"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPart:
    """One write that is measured."""

    name: str
    """Its name in the report."""
    operation: str
    """The operation, as both writers name it."""
    table_type: str
    """Hudi's type of the table."""
    rows: str
    """The folder of the rows: `all`, which an upsert writes before, or `rf1`."""


PARTS: Final = (
    SparkPart(name="load, copy on write", operation="bulk_insert", table_type="COPY_ON_WRITE", rows="all"),
    SparkPart(name="upsert, copy on write", operation="upsert", table_type="COPY_ON_WRITE", rows="rf1"),
    SparkPart(name="upsert, merge on read", operation="upsert", table_type="MERGE_ON_READ", rows="rf1"),
)


@dataclass(frozen=True, slots=True)
class SparkFigures:
    """The cost of one write."""

    cpu_s: float
    """CPU seconds of the process tree."""
    wall_s: float
    """Seconds of wall time."""
    shuffled_bytes: int
    """Bytes that Spark wrote for shuffles."""
    size_bytes: int
    """Size of the data files that were created."""


@dataclass(slots=True)
class SparkWriter:
    """A contestant in its session of Spark."""

    contestant: Contestant
    """Which one."""
    worker: Worker
    """The process of the session."""
    _stage: int = field(default=-1)

    def write(self, table: pathlib.Path, rows: pathlib.Path, part: SparkPart, operation: str) -> SparkFigures:
        """One write, which creates the table if there is none. rows: a folder of Parquet files."""
        before = data_files(table)
        request = {"path": str(table), "select": f"SELECT * FROM parquet.`{rows}`"}
        if self.contestant is Contestant.HUDI:
            request |= {"do": "write", "options": hudis_options(part, operation)}
        else:
            request |= {
                "do": "write_penstock",
                "operation": operation,
                "objects": self.contestant is Contestant.OBJECTS,
            }
            if not table.exists():
                create(table, rows, part)
        _, cost = self.worker.costed(request)
        self._stage, shuffled = self.worker.ask({"do": "shuffled", "after": self._stage})
        return SparkFigures(cost.cpu_s, cost.wall_s, shuffled, new_bytes(table, before))


def create(table: pathlib.Path, rows: pathlib.Path, part: SparkPart) -> None:
    """Creates the table in which Penstock writes rows like these."""
    schema = read(next(rows.glob("*.parquet"))).schema
    penstock.create_table(
        str(table), schema, record_key=KEY, table_type=part.table_type.lower(), index="bucket", buckets=BUCKETS
    )


def hudis_options(part: SparkPart, operation: str) -> dict[str, str]:
    """The options of Hudi's writer for the same table."""
    return {
        "hoodie.table.name": "lineitem",
        "hoodie.datasource.write.table.type": part.table_type,
        "hoodie.datasource.write.recordkey.field": ",".join(KEY),
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.operation": operation,
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(BUCKETS),
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.compact.inline": "false",
        **{f"hoodie.{step}.shuffle.parallelism": "2" for step in ("upsert", "insert", "bulkinsert")},
    }


def check_equal(tables: Sequence[pathlib.Path]) -> int:
    """The number of rows of the tables. AssertionError unless their rows are equal."""
    first, *others = [rows_of(table) for table in tables]
    for path, other in zip(tables[1:], others, strict=True):
        assert other.num_rows == first.num_rows, f"{path}: {other.num_rows} rows, {tables[0]} has {first.num_rows}"
        assert first.equals(other.cast(first.schema)), f"{path}: rows differ from those of {tables[0]}"
    return int(first.num_rows)


def rows_of(table: pathlib.Path) -> pa.Table:
    """The rows of a table by key."""
    rows = penstock.read(str(table), meta=False).read_all()
    return rows.select(sorted(rows.schema.names)).sort_by([(name, "ascending") for name in KEY])
