"""Tables of tests of Spark's writes, and their rows."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.table.files.listing import PARTITION_MARKER
from penstock.table.hudi_table import open_table

SCHEMA = pa.schema(
    [("id", pa.string()), ("seq", pa.int64()), ("city", pa.string()), ("_hoodie_is_deleted", pa.bool_())]
)

Row = tuple[str, int, str]
"""id, seq, city."""


def create(path: pathlib.Path, kind: str = "merge_on_read", index: str = "bucket", **more: object) -> str:
    """An empty table of two buckets, or with another index."""
    settings: dict[str, object] = {
        "partition_by": "city",
        "ordering": "seq",
        "table_type": kind,
        "index": index,
        "buckets": 2 if index == "bucket" else None,
    }
    penstock.create_table(str(path), SCHEMA, record_key="id", **{**settings, **more})
    return str(path)


def frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """A data frame of the rows, in two partitions."""
    columns = [pa.array([row[place] for row in rows], SCHEMA.field(place).type) for place in range(3)]
    return spark.createDataFrame(pa.table(columns, names=SCHEMA.names[:3])).repartition(2)


def rows_of(path: str) -> list[Row]:
    """The rows of the table, sorted."""
    table = penstock.read(path).read_all()
    return sorted(zip(*(table[name].to_pylist() for name in ("id", "seq", "city")), strict=True))


def data_files(path: str) -> set[str]:
    """The data files of the table, committed or not, by path."""
    files = {file.relative_to(path).as_posix() for file in pathlib.Path(path).rglob("*") if file.is_file()}
    return {file for file in files if not file.startswith(".hoodie/") and PARTITION_MARKER not in file}


def committed_files(path: str) -> set[str]:
    """The data files that the commits of the table name."""
    table = open_table(path)
    commits = map(table.commit, table.timeline().completed_writes)
    return {stat.path for commit in commits for stat in commit.stats}
