"""`penstock.spark.sink`: writes the micro-batches of a stream, each of them exactly once.

Source: Hudi `HoodieStreamingSink`, `CommitUtils.getValidCheckpointForCurrentWriter`: the commit itself has the name of
the stream and the number of the batch, and a batch that the newest commit of the stream already has is skipped.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.engine.spark.write.input import refuse_frame
from penstock.engine.spark.write.write import planned_write, write_frame
from penstock.engine.write.planned_write import AlreadyWritten, WriteOptions
from penstock.enumerator.handover.commit_offsets import SPARK_SINK
from penstock.enumerator.handover.offset_formats import MAX_IDENTIFIER_CHARS, parse_sink
from penstock.enumerator.handover.offsets import MalformedOffsets
from penstock.proto.errors import ConfigurationError
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.filesystem import redacted_uri
from penstock.writer.index.new_groups import FileSizes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("penstock.engine.spark")

QUERY: Final = "penstock.streaming.query.id"
"""The key of the query's id in the metadata of a commit. A query keeps its id with its checkpoint."""
_QUERY_PROPERTY: Final = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """The newest batch of a stream that the table has."""

    number: int
    """Its id."""
    query: str
    """The id of the query; '' if another writer than Penstock wrote it."""


@dataclass(frozen=True, slots=True)
class Sink:
    """The function of `DataStreamWriter.foreachBatch`."""

    path: str
    """The table."""
    options: WriteOptions
    """How it is written."""
    identifier: str
    """The name of the stream in commits; '' for the id of the query."""

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Writes the batch, unless the table has it. Errors of `penstock.spark.write`; ConfigurationError for a batch
        of another query with the same identifier."""
        refuse_frame(df, self.path)
        query = df.sparkSession.sparkContext.getLocalProperty(_QUERY_PROPERTY) or ""
        name = self.identifier or query
        if not name:
            raise ConfigurationError(
                f"table {redacted_uri(self.path)}: batch {batch_id} is of no streaming query: pass the sink to "
                "foreachBatch, or give an identifier"
            )
        planned = planned_write(self.path, self.options)

        def is_done(table: HudiTable) -> bool:
            newest = newest_batch(table, name)
            _check_query(newest, query, name, self.path)
            return newest is not None and batch_id <= newest.number

        done = is_done(planned.early.table)
        if not done:
            extra = {SPARK_SINK: json.dumps({name: str(batch_id)}, separators=(",", ":")), QUERY: query}
            try:
                write_frame(replace(planned, extra=extra, is_done=is_done), df)
            except AlreadyWritten:
                done = True
        if done:
            log.info("table %s: batch %d of %s is in the table already", redacted_uri(self.path), batch_id, name)


def sink(
    path: str,
    operation: str = "upsert",
    *,
    identifier: str = "",
    index: str | None = None,
    buckets: int | None = None,
    timeline_timezone: str = "",
    sole_writer: bool = False,
    sizes: FileSizes | None = None,
    time_partitions: Mapping[str, str] | None = None,
    metadata: str = "files",
) -> Sink:
    """The function of `stream.writeStream.foreachBatch` that writes each micro-batch into the table at `path` as
    `penstock.spark.write` does, exactly once.

    The commit of a batch has the name of the stream and the id of the batch, in the form of Hudi's own sink. A batch
    that Spark gives again, after a crash between the commit and Spark's checkpoint, is found there, and skipped.

    identifier: the name of the stream in commits, printable; by default the id of the query, which it keeps as long as
    its checkpoint. The other arguments are those of `penstock.spark.write`. A batch without rows makes no commit.

    ConfigurationError for an identifier that no commit can hold; other errors when a batch is written.
    """
    if len(identifier) > MAX_IDENTIFIER_CHARS or not identifier.isprintable():
        raise ConfigurationError(
            f"identifier: got {identifier[:80]!r}, expected at most {MAX_IDENTIFIER_CHARS} printable characters"
        )
    options = WriteOptions(
        operation=operation,
        index=index,
        buckets=buckets,
        timeline_timezone=timeline_timezone,
        sole_writer=sole_writer,
        sizes=sizes or FileSizes(),
        time_partitions=time_partitions or {},
        metadata=metadata,
    )
    return Sink(str(path), options, identifier)


def newest_batch(table: HudiTable, name: str) -> WrittenBatch | None:
    """The newest batch of a stream that a commit of the table has; None if there is none. Of a pinned table in its
    timeline. If no active commit has one, the archive is read."""
    for extra in _extras(table):
        try:
            batches = parse_sink(extra[SPARK_SINK]) if SPARK_SINK in extra else ()
        except MalformedOffsets:  # another program's value
            continue
        for batch in batches:
            if batch.identifier == name:
                return WrittenBatch(batch.batch_id, extra.get(QUERY, ""))
    return None


def _extras(table: HudiTable) -> Iterator[Mapping[str, str]]:
    """The extra metadata of the completed writes, the newest first."""
    for instant in reversed(table.timeline().completed_writes):
        yield table.commit(instant).extra
    if table.has_archived():
        commits = table.archive().commits
        for requested in sorted(commits, reverse=True):
            yield commits[requested].extra


def _check_query(newest: WrittenBatch | None, query: str, name: str, path: str) -> None:
    if newest is not None and newest.query and query and newest.query != query:
        raise ConfigurationError(
            f"table {redacted_uri(path)}: batch {newest.number} of the stream {name[:80]!r} is of query "
            f"{newest.query}, and this is query {query}, which has another checkpoint: its batches would be taken for "
            "those of that query, and skipped; start it with the checkpoint of that query, or give another identifier"
        )
