"""The writer of the data source for streams: `stream.writeStream.format("penstock")`, for inserts. Spark 4.1 or newer.

Spark makes one writer for the tasks of a micro-batch, and another one, in another process, for its commit. So all that
the commit needs comes in the reports of tasks: the instant, and the id of the query, which only tasks have.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.engine.spark.tracebacks import hidden_traceback
from penstock.engine.spark.write.append.appended_files import Append
from penstock.engine.spark.write.append.data_source_writer import (
    OPTIONS,
    commit_append,
    planned_append,
    refuse_options,
    reports_of,
    roll_back_append,
    written_by_task,
)
from penstock.engine.spark.write.append.write_server import AppendServer
from penstock.engine.spark.write.checkpoint_tables import check_table, record_batch
from penstock.engine.spark.write.sink import STREAM_WAY, check_identifier
from penstock.engine.spark.write.source_positions import source_positions
from penstock.engine.spark.write.written_batches import Batch, BatchSearch
from penstock.engine.write.planned_write import AlreadyWritten
from penstock.engine.write.service.owners import epochs_from
from penstock.proto.errors import InvariantViolation
from penstock.table.hudi_table import HudiTable
from penstock.writer.transaction.task_write import BegunWrite

log = logging.getLogger("penstock.engine.spark")

_OPTIONS_OF_STREAM: Final = frozenset({"checkpointlocation", "identifier", "queryname"})
"""More options of a stream; `queryname` is that of `DataStreamWriter.queryName`."""


class AppendStreamWriter(DataSourceStreamArrowWriter):
    """Writes a micro-batch."""

    def __init__(self, append: Append, identifier: str, checkpoint: str) -> None:
        """`identifier`: the name of the stream; '' for the id of the query. `checkpoint`: the folder of the query; ''
        if only Spark's settings have it: then the commits have no positions of the sources."""
        self.append, self.identifier, self.checkpoint = append, identifier, checkpoint

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task. Errors of `Append.write`."""
        return written_by_task(self.append, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commits the micro-batch, unless the table has it. One without rows makes no commit. Errors of a write's end,
        and of `Batch.is_in`."""
        reports = reports_of(messages)
        query = next((report.query for report in reports if report.query), "")
        if not any(report.begun for report in reports):
            return
        table = self.append.table
        with hidden_traceback():
            if not (self.identifier or query):
                raise InvariantViolation(f"{table.settings.where}: Spark gave tasks of batch {batchId} no query id")
            name, operation = self.identifier or query, table.operation.hudi_name
            batch = Batch(number=batchId, name=name, query=query, operation=operation)
            search = BatchSearch(name)

            def is_done(now: HudiTable) -> bool:
                return batch.is_in(now, search.newest(now))

            positions = source_positions(self.checkpoint, query, batchId) if self.checkpoint else {}
            try:
                if self.checkpoint:
                    newest = search.newest(self.append.hudi_table(table.storage()))
                    check_table(self.checkpoint, table.path, batch, newest)
                commit_append(self.append, reports, {**batch.metadata(), **positions}, is_done)
            except AlreadyWritten:
                log.info("%s: batch %d of %s is in the table already", table.settings.where, batchId, name)
            if self.checkpoint:
                record_batch(self.checkpoint, table.path, batch)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Rolls back what the tasks wrote. If no task has reported, the next writer does it."""
        with hidden_traceback():
            for begun, write in {(report.begun, report.write) for report in reports_of(messages) if report.begun}:
                if self.append.server is None or write is None:
                    roll_back_append(self.append, BegunWrite.parse(begun))
                else:
                    self.append.server.abort(write)


def append_stream_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> AppendStreamWriter:
    """The writer of a micro-batch. Errors as `append_writer`."""
    refuse_options(options, OPTIONS | _OPTIONS_OF_STREAM)
    identifier = options.get("identifier", "")
    check_identifier(identifier)
    epoch = next(epochs_from(time.time_ns() // 1_000_000))
    server = AppendServer.of(options, identifier=identifier, epoch=epoch)
    append = planned_append(options, schema, server, overwrite=overwrite, way=STREAM_WAY)
    return AppendStreamWriter(append, identifier, options.get("checkpointlocation", ""))
