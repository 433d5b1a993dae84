"""What is measured: each write or table service, the rows that it needs, and Hudi's options for the same table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bench.compared.columns import LINEITEM, select

KEY, ORDERING, PARTITION = "l_id", "l_version", "l_shipmode"
SORT_BY: Final = "l_partkey"
"""The column by which clustering sorts."""
BUCKETS: Final = 4
"""File groups of a table of a million rows."""
QUARTERS: Final = 4
"""Bulk inserts before a clustering, each with as many rows."""
ZSTD: Final = (("hoodie.parquet.compression.codec", "zstd"),)
PARQUET_LOGS: Final = (*ZSTD, ("hoodie.logfile.data.block.format", "parquet"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One write or table service that is measured."""

    name: str
    """Its name in the report."""
    operation: str
    """The operation of the write before or of the measured one, as both writers name it."""
    table_type: str = "COPY_ON_WRITE"
    """Hudi's type of the table."""
    partitioned: bool = False
    """Whether the table is partitioned by PARTITION."""
    one_in: int = 1
    """Every nth row of the table is written: n."""
    service: str = ""
    """The table service that is measured, `compaction` or `clustering`, after the writes; '' to measure the write."""
    hudis_settings: tuple[tuple[str, str], ...] = ()
    """Options of Hudi's writer that are not its defaults: (name, value)."""

    @property
    def has_table(self) -> bool:
        """Whether the table has all rows before."""
        return self.operation == "upsert" or bool(self.service)

    @property
    def index(self) -> str:
        """The index of the table: groups of buckets cannot be clustered."""
        return "simple" if self.service == "clustering" else "bucket"

    @property
    def rows_before(self) -> Sequence[tuple[str, str]]:
        """(rows, operation) of each write before the measured one."""
        if self.service == "clustering":
            return [(f"quarter-{number}", self.operation) for number in range(QUARTERS)]
        before = [("all", "bulk_insert")] if self.has_table else []
        return [*before, (self.rows, self.operation)] if self.service else before

    @property
    def rows(self) -> str:
        """The rows that are written: a name of `sources`."""
        return "all" if self.one_in == 1 else f"1-in-{self.one_in}"


PARTS: Final = (
    Part(name="bulk insert", operation="bulk_insert"),
    Part(name="bulk insert; Hudi: zstd", operation="bulk_insert", hudis_settings=ZSTD),
    Part(name="insert, partitioned", operation="insert", partitioned=True),
    Part(name="upsert of 10 %, copy on write", operation="upsert", one_in=10),
    Part(name="upsert of 0.1 %, copy on write", operation="upsert", one_in=1000),
    Part(name="upsert of 10 %, merge on read", operation="upsert", table_type="MERGE_ON_READ", one_in=10),
    Part(
        name="upsert of 10 %, merge on read; Hudi: Parquet logs, zstd",
        operation="upsert",
        table_type="MERGE_ON_READ",
        one_in=10,
        hudis_settings=PARQUET_LOGS,
    ),
    Part(name="upsert of 0.1 %, merge on read", operation="upsert", table_type="MERGE_ON_READ", one_in=1000),
    Part(
        name="compaction of an upsert of 10 %",
        operation="upsert",
        table_type="MERGE_ON_READ",
        one_in=10,
        service="compaction",
    ),
    Part(name="clustering of 4 bulk inserts, sorted", operation="bulk_insert", service="clustering"),
)


def sources(rows: int, parts: Sequence[Part]) -> Iterator[tuple[str, str]]:
    """(name, Spark SQL) of the rows that the parts write, for tables of so many rows."""
    yield "all", select(LINEITEM, 0, rows, 1, ts=0, salt=0, parts=2)
    for step in sorted({part.one_in for part in parts} - {1}):
        yield f"1-in-{step}", select(LINEITEM, 0, rows, step, ts=1, salt=1, parts=2)
    if any(part.service == "clustering" for part in parts):
        for number in range(QUARTERS):
            begin, end = (rows * place // QUARTERS for place in (number, number + 1))
            yield f"quarter-{number}", select(LINEITEM, begin, end, 1, ts=0, salt=0)


def hudis_options(part: Part, operation: str) -> dict[str, str]:
    """The options of Hudi's writer for the table that `Penstock.write` creates."""
    return {
        "hoodie.table.name": "bench",
        "hoodie.datasource.write.table.type": part.table_type,
        "hoodie.datasource.write.recordkey.field": KEY,
        "hoodie.datasource.write.precombine.field": ORDERING,
        "hoodie.datasource.write.partitionpath.field": PARTITION if part.partitioned else "",
        "hoodie.datasource.write.operation": operation,
        "hoodie.index.type": part.index.upper(),
        "hoodie.bucket.index.num.buckets": "1" if part.partitioned else str(BUCKETS),
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.compact.inline": "false",
        **{f"hoodie.{step}.shuffle.parallelism": "2" for step in ("upsert", "insert", "bulkinsert")},
        **dict(part.hudis_settings),
    }


def hudis_service_options(part: Part) -> dict[str, str]:
    """The options of Hudi's procedure for the part's service: one group with all files, whatever their size."""
    return {
        **{name: value for name, value in hudis_options(part, "upsert").items() if value},
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.clustering.plan.strategy.small.file.limit": str(1 << 40),
        "hoodie.clustering.plan.strategy.target.file.max.bytes": str(1 << 40),
        "hoodie.clustering.plan.strategy.max.bytes.per.group": str(1 << 40),
        "hoodie.clustering.plan.strategy.sort.columns": SORT_BY,
    }
