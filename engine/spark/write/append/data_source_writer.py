"""The writer of the data source: `df.write.format("penstock").mode("append")`, for inserts.

Spark makes a writer in one process, pickles it for the tasks, and commits in another process.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.engine.spark.tracebacks import hidden_traceback
from penstock.engine.spark.write.append.appended_files import Append, AppendReport
from penstock.engine.spark.write.append.write_server import CONNECTING, AppendServer
from penstock.engine.spark.write.file_groups import stat_of
from penstock.engine.spark.write.input import arrow_columns
from penstock.engine.spark.write.rows import task_table
from penstock.engine.spark.write.sink import QUERY_PROPERTY, STREAM_WAY
from penstock.engine.write.current_table import current_table
from penstock.engine.write.index.index_choice import BucketIndex
from penstock.engine.write.operations import Operation, parse_operation
from penstock.engine.write.partition_settings import check_new_partitions
from penstock.engine.write.planned_write import AlreadyWritten, WriteOptions, commit_metadata, open_write
from penstock.engine.write.service.remote_transaction import carried_on_at_server
from penstock.engine.write.settings import parse_metadata
from penstock.proto.errors import ConfigurationError, InvariantViolation, UnsupportedFeature
from penstock.proto.model.writes import TouchedGroups, WriteId
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri
from penstock.writer.transaction.attempt_files import remove_unreported_files
from penstock.writer.transaction.conflicts import StartOfWrite
from penstock.writer.transaction.failed_writes import roll_back, rolled_back_on_error
from penstock.writer.transaction.task_write import BegunWrite, begun_write, carried_on
from penstock.writer.transaction.transaction import Transaction

log = logging.getLogger("penstock.engine.spark")

_OPERATIONS: Final = (Operation.INSERT, Operation.BULK_INSERT)
OPTIONS: Final = frozenset(
    {"path", "operation", "index", "timelinetimezone", "metadata", "server", *(name.lower() for name in CONNECTING)}
)
"""The options of a write, in lower case."""
_WAY: Final = "penstock.spark.write(df, path, operation)"


class AppendWriter(DataSourceArrowWriter):
    """Writes a data frame. Spark pickles it for the tasks and for the commit."""

    def __init__(self, append: Append) -> None:
        self.append = append

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task. Errors of `Append.write`."""
        return written_by_task(self.append, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits what the tasks wrote. Errors of a write's end."""
        with hidden_traceback():
            commit_append(self.append, reports_of(messages), {}, lambda table: False)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Rolls back what the tasks wrote."""
        with hidden_traceback():
            server = self.append.server
            if server is None:
                roll_back_append(self.append, begun_write(self.append.table.storage(), self.append.write_id))
            else:
                server.abort(server.write_of(""))


def append_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> AppendWriter:
    """The writer of a data frame. UnsupportedFeature for another operation or mode, and for a bucket index;
    ConfigurationError for an unknown option; errors of opening a write, and of columns that do not fit the table."""
    refuse_options(options, OPTIONS)
    server = AppendServer.of(options, identifier=None, epoch=1)
    return AppendWriter(planned_append(options, schema, server, overwrite=overwrite, way=_WAY))


def planned_append(
    options: Mapping[str, str], schema: StructType, server: AppendServer | None, *, overwrite: bool, way: str
) -> Append:
    """The write of a data frame with this schema. `way`: what writes everything else, for errors. Errors of
    `append_writer`."""
    path = options.get("path", "")
    if not path:
        raise ConfigurationError("format penstock: got no path, expected that of a table: save(path) or start(path)")
    where = f"table {redacted_uri(path)}"
    operation = parse_operation(options.get("operation", Operation.INSERT.value))
    if overwrite or operation not in _OPERATIONS:
        got = "mode overwrite (or output mode complete)" if overwrite else f"operation {operation.value!r}"
        raise UnsupportedFeature(
            f"{where}: the format penstock appends inserts and bulk inserts alone, and got {got}, because a data "
            f"source in Python cannot ask Spark for all rows of a file group in one task: use {way}"
        )
    metadata = options.get("metadata", "files")
    parse_metadata(metadata)
    write_options = WriteOptions(
        operation=operation.value,
        index=options.get("index"),
        timeline_timezone=options.get("timelineTimezone", ""),
        metadata=metadata,
    )
    planned = open_write(path, replace(write_options, server=server.connected() if server else None))
    if isinstance(planned.assigner.index, BucketIndex):
        raise UnsupportedFeature(
            f"{where} has a bucket index: two tasks of the format penstock would write one bucket, which may have one "
            f"file group: use {way}"
        )
    columns = arrow_columns(schema, where)
    write_schema, _ = planned.preparation.rows(planned.early, columns.empty_table())
    return Append(
        table=task_table(planned, planned.early),
        schema=write_schema,
        start=StartOfWrite.of(planned.early.table.timeline()),
        options=write_options,
        write_id=uuid.uuid4().hex,
        server=server,
    )


def written_by_task(append: Append, batches: Iterator[pa.RecordBatch]) -> AppendReport:
    """Writes the rows of the task in which this process is."""
    context = cast(TaskContext, TaskContext.get())
    query = context.getLocalProperty(QUERY_PROPERTY) or ""
    with hidden_traceback():
        return append.write(batches, context.partitionId(), context.taskAttemptId(), query)


def reports_of(messages: Sequence[WriterCommitMessage | None]) -> list[AppendReport]:
    """The reports of the tasks that did not fail."""
    return [message for message in messages if isinstance(message, AppendReport)]


def commit_append(
    append: Append, reports: Sequence[AppendReport], extra: Mapping[str, str], is_done: Callable[[HudiTable], bool]
) -> None:
    """Commits what tasks wrote, or rolls it back after an error. Without rows nothing has begun, and nothing happens.

    AlreadyWritten if `is_done` says so under the table's lock; WriteConflict, SchemaMismatch, StorageError.
    """
    writes = {(report.begun, report.schema_json, report.write) for report in reports if report.begun}
    if not writes:
        return
    if len(writes) > 1:
        raise InvariantViolation(f"{append.table.settings.where}: tasks of one write began {len(writes)} instants")
    ((content, schema_json, write),) = writes
    begun, storage = BegunWrite.parse(content), append.table.storage()
    table, settings = append.hudi_table(storage), append.table.settings
    stats = [stat for report in reports for text in report.stats if (stat := stat_of(text)) is not None]

    def refuse_done(now: HudiTable) -> None:
        if is_done(now):
            raise AlreadyWritten

    with _carried_on(append, begun, write, storage) as transaction:
        transaction.before_completion = refuse_done
        transaction.refuse_ended()
        remove_unreported_files(storage, begun.instant, [(stat.path, stat.file_size_bytes) for stat in stats])
        partitions = sorted({stat.partition for stat in stats})
        check_new_partitions(settings.paths, current_table(table), partitions, settings.where)
        transaction.complete(
            commit_metadata(begun.instant, append.table.operation, schema_json, extra, stats),
            TouchedGroups(
                groups=frozenset((stat.partition, stat.file_id) for stat in stats),
                inserted_into=frozenset(partitions),
            ),
            by_bucket=False,
            writes_base_files=True,
        )
    log.info("%s: instant %s has %d files of %d tasks", settings.where, begun.instant, len(stats), len(reports))


@contextlib.contextmanager
def _carried_on(
    append: Append, begun: BegunWrite, write: WriteId | None, storage: WritableStorage
) -> Iterator[Transaction]:
    """The transaction, which is rolled back if the block ends with an error."""
    table, environment, spec = append.hudi_table(storage), append.environment, append.spec
    if append.server is None or write is None:
        with (
            carried_on(
                table, storage, environment, append.action, begun, keeps_metadata=spec.keeps_metadata
            ) as transaction,
            rolled_back_on_error(transaction),
        ):
            yield transaction
        return
    served = append.server.transaction(write, begun, spec, table, storage, environment)
    with carried_on_at_server(served):
        yield served


def roll_back_append(append: Append, begun: BegunWrite | None) -> None:
    """Rolls back what tasks wrote, if any has begun."""
    if begun is not None:
        storage = append.table.storage()
        with contextlib.suppress(FileNotFoundError):
            roll_back(append.hudi_table(storage), storage, append.environment, begun.instant)


def refuse_stream_of_old_spark() -> None:
    """UnsupportedFeature in Spark 4.0, whose streams have no writer of Arrow batches."""
    if not hasattr(datasource, "DataSourceStreamArrowWriter"):
        raise UnsupportedFeature(f"the format penstock writes streams in Spark 4.1 or newer: use {STREAM_WAY}")


def refuse_options(options: Mapping[str, str], known: Collection[str]) -> None:
    """ConfigurationError for an option that is not among the known ones, in lower case."""
    unknown = sorted(name for name in options if name.lower() not in known)
    if unknown:
        raise ConfigurationError(
            f"format penstock: unknown option {unknown[0][:60]!r} of a write, expected one of "
            f"{', '.join(sorted(known))}"
        )
