"""`penstock.spark.write`: writes a data frame into a Hudi table, as one instant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.engine.spark.write.changelog import upserted_rows
from penstock.engine.spark.write.input import data_columns, quoted, refuse_frame, refuse_random_rows
from penstock.engine.spark.write.named_partitions import named_partitions
from penstock.engine.spark.write.rows import tagged_rows
from penstock.engine.write.planned_write import PlannedWrite, WriteOptions, open_write
from penstock.engine.write.results import WriteResult
from penstock.engine.write.service.remote_transaction import write_server
from penstock.engine.write.write import write_batches
from penstock.proto.errors import UnsupportedFeature
from penstock.writer.index.new_groups import FileSizes
from penstock.writer.rows.chunks import batches_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write(
    df: DataFrame,
    path: str,
    operation: str = "upsert",
    *,
    index: str | None = None,
    buckets: int | None = None,
    timeline_timezone: str = "",
    sole_writer: bool = False,
    sizes: FileSizes | None = None,
    time_partitions: Mapping[str, str] | None = None,
    metadata: str = "files",
    server: str | None = None,
    server_options: Mapping[str, str] | None = None,
) -> WriteResult:
    """Writes the rows of a batch data frame into the table at `path` as one instant. Either all of it becomes visible,
    or nothing. The executors write the files; no row passes the driver, which commits. Of `delete_partition` the driver
    gets a row for each partition.

    * operation: `upsert`, `insert`, `bulk_insert`, `delete`, `insert_overwrite`, `insert_overwrite_table` or
      `delete_partition` (the partitions of the rows), as in `penstock.write`, which also describes the other arguments.
    * Changes, which have the columns `_change_type` and `_change_seq` of `query=cdc`, are applied by `upsert`: of each
      key the change with the highest `_change_seq` is its row (`+I`, `+U`), or deletes it (`-U`, `-D`). Not if the
      table has a column `_change_type`.
    * server: HOST:PORT of a server (`penstock serve`) that owns the table's timeline, and `server_options`, as in
      `penstock.write`; `path` is then the table's name there. The driver begins the write, takes the leases of its file
      groups before the executors write, and commits through the server.
    * The folder of the table must be on a file system that the driver and all executors share.

    The data frame is evaluated once, before the timeline changes, and Spark keeps the result until the write ends:
    on the disks of executors, if it does not fit their memory. An executor that is lost with a part of it ends the
    write. Rows are in the order of the data frame's partitions: of rows that are equal by the table's merge
    rule the later one wins. `WriteResult.rows` counts the rows of the data frame, also those of one key; none of
    `delete_partition`.

    Tasks that fail are retried as Spark does. What a failed or superfluous attempt wrote is removed, and is never
    visible. Memory of a task: about the rows of one file group.

    Errors of `penstock.write`; those of the data frame. UnsupportedFeature for `upsert` and `delete` with a global
    index, and for a data frame of Spark Connect; ConfigurationError for a stream, and for a data frame with random
    values if `spark.speculation` is on.
    """
    options = WriteOptions(
        operation=operation,
        index=index,
        buckets=buckets,
        timeline_timezone=timeline_timezone,
        sole_writer=sole_writer,
        sizes=sizes or FileSizes(),
        time_partitions=time_partitions or {},
        metadata=metadata,
        server=write_server(server, server_options),
    )
    refuse_frame(df, str(path))
    return write_frame(planned_write(str(path), options), df)


def planned_write(path: str, options: WriteOptions) -> PlannedWrite:
    """The write of a table that exists, if Spark can carry it out. Errors of `write`."""
    planned = open_write(path, options)
    if planned.assigner.searches_table:
        raise UnsupportedFeature(
            f"{planned.settings.where}: {options.operation} with a global index is not carried out in Spark yet: its "
            "keys are searched in all partitions, and rows move between them; use penstock.write, or an index of the "
            "partition"
        )
    return planned


def write_frame(planned: PlannedWrite, df: DataFrame) -> WriteResult:
    """Carries out a planned write. Errors of `write`."""
    refuse_random_rows(df, planned.settings.where)
    upserted = upserted_rows(df, planned)
    if planned.operation.deletes_partitions:
        return write_batches(planned, batches_of(named_partitions(df, planned)))
    columns = data_columns(upserted, planned)
    frame = upserted.select(*map(quoted, columns.names))
    with tagged_rows(planned, frame, columns) as rows:
        return planned.run(rows)
