"""`penstock.spark.sink`: writes the micro-batches of a stream, each of them exactly once.

Source: Hudi `HoodieStreamingSink`, `CommitUtils.getValidCheckpointForCurrentWriter`: the commit itself has the name of
the stream and the number of the batch (`written_batches`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from penstock.engine.spark.write.checkpoint_tables import check_table, record_batch
from penstock.engine.spark.write.input import refuse_frame
from penstock.engine.spark.write.source_positions import source_positions
from penstock.engine.spark.write.write import planned_write, write_frame
from penstock.engine.spark.write.written_batches import (
    ArchivedBatches,
    Batch,
    BatchSearch,
)
from penstock.engine.write.planned_write import AlreadyWritten, WriteOptions
from penstock.engine.write.service.owners import epochs_from, owner_of_stream
from penstock.engine.write.service.remote_transaction import write_server
from penstock.enumerator.handover.offset_formats import MAX_IDENTIFIER_CHARS
from penstock.proto.errors import ConfigurationError
from penstock.table.storage.uris import redacted_uri
from penstock.writer.index.new_groups import FileSizes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("penstock.engine.spark")

QUERY_PROPERTY: Final = "sql.streaming.queryId"
"""The property of Spark's tasks with the id of the query."""
STREAM_WAY: Final = "stream.writeStream.foreachBatch(penstock.spark.sink(path, operation, checkpoint=folder))"
"""What writes any operation of a stream, for errors."""


@dataclass(frozen=True, slots=True)
class Sink:
    """The function of `DataStreamWriter.foreachBatch`."""

    path: str
    """The table."""
    options: WriteOptions
    """How it is written."""
    identifier: str
    """The name of the stream in commits; '' for the id of the query."""
    checkpoint: str
    """The folder of the query's checkpoint."""
    epochs: Iterator[int] = field(repr=False, compare=False)
    """The epochs of its writes on a server."""
    _archived: ArchivedBatches = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Writes the batch, unless the table has it. Errors of `penstock.spark.write`, and of `Batch.is_in`."""
        refuse_frame(df, self.path)
        query = df.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY) or ""
        name = self.identifier or query
        if not name:
            raise ConfigurationError(
                f"table {redacted_uri(self.path)}: batch {batch_id} is of no streaming query: pass the sink to "
                "foreachBatch, or give an identifier"
            )
        planned = planned_write(self.path, self._options_of(name))
        batch = Batch(number=batch_id, name=name, query=query, operation=planned.operation.hudi_name)
        search = BatchSearch(name, self._archived)
        planned = replace(
            planned,
            is_done=lambda table: batch.is_in(table, search.newest(table)),
            may_empty_table=False,
        )
        newest, is_written = search.newest(planned.table), False
        done = batch.is_in(planned.table, newest)
        if not done:
            positions = source_positions(self.checkpoint, query, batch_id)
            check_table(self.checkpoint, planned.storage.base_path, batch, newest)
            try:
                is_written = bool(write_frame(replace(planned, extra={**batch.metadata(), **positions}), df).instant)
            except AlreadyWritten:
                done = True
        if done:
            log.info("table %s: batch %d of %s is in the table already", redacted_uri(self.path), batch_id, name)
        if done or is_written:
            record_batch(self.checkpoint, planned.storage.base_path, batch)

    def _options_of(self, stream: str) -> WriteOptions:
        """How a batch of the stream is written. On a server, it fences the batches of drivers that started earlier."""
        server = self.options.server
        if server is None:
            return self.options
        owner, epoch = owner_of_stream(stream), next(self.epochs)
        return replace(self.options, server=replace(server, owner=owner, epoch=epoch))


def sink(
    path: str,
    operation: str = "upsert",
    *,
    checkpoint: str,
    identifier: str = "",
    index: str | None = None,
    buckets: int | None = None,
    timeline_timezone: str = "",
    sole_writer: bool = False,
    sizes: FileSizes | None = None,
    time_partitions: Mapping[str, str] | None = None,
    metadata: str = "files",
    server: str | None = None,
    server_options: Mapping[str, str] | None = None,
) -> Sink:
    """The function of `stream.writeStream.foreachBatch` that writes each micro-batch into the table at `path` as
    `penstock.spark.write` does, exactly once.

    The commit of a batch has the name of the stream and the id of the batch, in the form of Hudi's own sink. Spark
    begins a batch after its checkpoint has the one before. So after a crash between the commit and the checkpoint it
    gives the newest batch again, with the same number: the sink finds it in the table, and skips it. A batch with a
    lower number than the newest one in the table never comes from a crash: the checkpoint is a new or an older one, or
    another driver runs the same query. That is an error, because its rows may be others than those of the batch of this
    number. A batch without rows makes no commit, whatever the operation.

    checkpoint: the folder of the query's option checkpointLocation, from which the positions of the batch in its
    sources are read. The commit stores them: the offsets of Kafka's topics, at which a hybrid read of the table
    continues, and positions in tables that Penstock streams. A local checkpoint records the table
    (`sinks/penstock.json`), so that a query with the checkpoint of another table is an error, and not a table without
    the rows of earlier batches.

    identifier: the name of the stream in commits, printable; by default the id of the query, which it keeps as long as
    its checkpoint. Several sinks of one table in one function of `foreachBatch` need an identifier each, or the second
    one takes the commit of the first one for its own. So does a sink of another table that the function calls later
    than the first batch. The other arguments are those of `penstock.spark.write`.

    server: HOST:PORT of a server that owns the table's timeline, as in `penstock.spark.write`. A driver that is started
    again fences the earlier one there: Fenced ends the query of a driver that another one has replaced.

    ConfigurationError for an identifier that no commit can hold; other errors when a batch is written, among them
    ConfigurationError for a folder that is not the checkpoint of the query.
    """
    check_identifier(identifier)
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
    epochs = epochs_from(time.time_ns() // 1_000_000)
    return Sink(str(path), options, identifier, str(checkpoint), epochs)


def check_identifier(identifier: str) -> None:
    """ConfigurationError for the name of a stream that no commit can hold."""
    if len(identifier) > MAX_IDENTIFIER_CHARS or not identifier.isprintable():
        raise ConfigurationError(
            f"identifier: got {identifier[:80]!r}, expected at most {MAX_IDENTIFIER_CHARS} printable characters"
        )
