"""One scan of a table as a DataFrame: the only place where `sql` and `table` load the format."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.engine.spark.startup import missing_format_explained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.proto.model.splits import VisibleInstants

FORMAT: Final = "penstock"


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What one scan reads."""

    table: str
    """Path or URI of the table, or its name on the server."""
    server: str | None = None
    """HOST:PORT of `penstock serve`; None plans in the driver."""
    columns: tuple[str, ...] = ()
    """The columns to read, in this order; () reads every column."""
    where: str = ""
    """The rows to read, in the grammar of the option `where`; '' reads every row."""
    options: tuple[tuple[str, str], ...] = ()
    """Further read options, by name, such as asOf."""

    def read_options(self) -> dict[str, str]:
        """The options of the load, by name."""
        options = dict(self.options)
        if self.server is not None:
            options["server"] = self.server
        if self.columns:
            options["columns"] = json.dumps(self.columns, ensure_ascii=False)
        if self.where:
            options["where"] = self.where
        return options


@dataclass(frozen=True, slots=True)
class Scanned:
    """One scan of a table."""

    frame: DataFrame
    """Its rows. The caller keeps the filter in Spark, because the scan may return more rows than it."""
    visible: VisibleInstants | None
    """The instants that the scan shows; None if Spark plans it at the first action. Snapshots of a table with the same
    instants are the same state."""


def scan(
    spark: SparkSession, request: ScanRequest, schema: StructType | None = None, *, always_now: bool = False
) -> Scanned:
    """One scan.

    A snapshot is planned now, and its base files without logs are read by Spark's own Parquet reader where that returns
    the same rows (`slices`). Spark plans every other scan at the first action; `always_now` also plans snapshots now of
    which Penstock reads every file. `schema`: the columns of the request, if the caller knows them, so that Spark does
    not describe the table again.
    """
    from penstock.engine.spark.slices.frame import snapshot_frame

    planned = snapshot_frame(spark, request.table, request.read_options(), always=always_now)
    if planned is not None:
        return Scanned(*planned)
    reader = spark.read.format(FORMAT).options(**request.read_options())
    with missing_format_explained():
        return Scanned((reader if schema is None else reader.schema(schema)).load(request.table), None)


def schema_of(spark: SparkSession, request: ScanRequest) -> StructType:
    """The columns of the request. Plans nothing unless `asOf` is given."""
    with missing_format_explained():
        return spark.read.format(FORMAT).options(**request.read_options()).load(request.table).schema
