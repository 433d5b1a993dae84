"""What a task of `df.write.format("penstock")` writes: new file groups of its own, for the rows that Spark gives it.

Runs on executors. Spark does not bring the rows of a file group together for a data source in Python, so that a task
can fill no file group that exists, and search no key.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from penstock.engine.spark.write.append.write_server import AppendServer, Lease
from penstock.engine.spark.write.task_table import TaskTable
from penstock.engine.write.current_table import current_table
from penstock.engine.write.file_writes import FileWrites
from penstock.engine.write.planned_write import WriteOptions
from penstock.engine.write.settings import parse_metadata, timeline_zone
from penstock.proto.errors import WriteConflict
from penstock.proto.model.writes import TouchedGroups, WriteId, WriteSpec
from penstock.table.hudi_table import HudiTable
from penstock.table.schema.avro import META_COLUMNS
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.timeline.commits import WriteStat
from penstock.table.timeline.instants import Action
from penstock.writer.index.slices import GroupWrite
from penstock.writer.rows.write_schema import WriteSchema
from penstock.writer.transaction.attempt_files import AttemptFiles, refuse_missing_table
from penstock.writer.transaction.conflicts import StartOfWrite
from penstock.writer.transaction.task_write import BegunWrite, begin_once, kept_alive
from penstock.writer.transaction.transaction import WriteEnvironment

HELD_BYTES: Final = 128 << 20
"""The rows that a task holds before it writes them, in bytes of Arrow data."""
_FILES_OF_TASK: Final = 1_000_000
"""More files than one task writes."""


@dataclass(frozen=True)
class AppendReport(WriterCommitMessage):
    """What a task wrote. Spark brings it to the process that commits."""

    begun: bytes
    """The write, as `BegunWrite.encode`; b"" if the task had no rows."""
    schema_json: str
    """The schema that the commit records."""
    rows: int
    """How many rows the task got."""
    stats: tuple[str, ...]
    """The `WriteStat` of each file, as JSON."""
    query: str
    """The id of the streaming query; '' for a batch."""
    write: WriteId | None = None
    """The write on the server; None without one, and if the task had no rows."""


@dataclass(frozen=True, slots=True)
class _Task:
    """What a task that has rows needs to write them."""

    begun: BegunWrite
    """The write."""
    files: FileWrites
    """Its files."""
    write: WriteId | None = None
    """The write on the server."""
    lease: Lease = lambda touched: None
    """Takes leases at the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """One write, as its tasks and the process that commits it need it. Spark pickles it."""

    table: TaskTable
    """The table when the write was planned."""
    schema: WriteSchema
    """The schema of the write."""
    start: StartOfWrite
    """The timeline when the write was planned."""
    options: WriteOptions
    """How it is written."""
    write_id: str
    """A random name of the write."""
    server: AppendServer | None = None
    """The server that owns the table's timeline; None: there is none."""

    @property
    def environment(self) -> WriteEnvironment:
        """Clocks and zone."""
        return WriteEnvironment(zone=timeline_zone(self.table.settings.properties, self.options.timeline_timezone))

    @property
    def action(self) -> Action:
        """The action of the instant."""
        return Action.DELTA_COMMIT if self.table.settings.properties.is_merge_on_read else Action.COMMIT

    @property
    def spec(self) -> WriteSpec:
        """What the write is, for a server."""
        return WriteSpec(
            action=self.action.value,
            timeline_timezone=self.options.timeline_timezone,
            keeps_metadata=parse_metadata(self.options.metadata),
        )

    def hudi_table(self, storage: WritableStorage) -> HudiTable:
        """The table with the properties of the time when the write was planned."""
        return HudiTable(storage, self.table.settings.properties)

    def write(self, batches: Iterator[pa.RecordBatch], partition: int, attempt: int, query: str) -> AppendReport:
        """Writes the rows of a task. `attempt` is the number of the attempt at the task, unique in the application.

        The write begins with the first row of its first task. SchemaMismatch and others for a row that cannot be
        written; WriteConflict if the instant has ended, if the table was changed since the write was planned, or if
        another writer of the server inserts into one of the partitions.
        """
        stats: list[WriteStat] = []
        held: list[pa.RecordBatch] = []
        num_rows = first_row = held_bytes = 0
        task: _Task | None = None
        with contextlib.ExitStack() as alive:
            for batch in batches:
                if not batch.num_rows:
                    continue
                if task is None:
                    task = alive.enter_context(self._begun(partition, attempt, query))
                held.append(batch)
                num_rows += batch.num_rows
                held_bytes += batch.nbytes
                if held_bytes >= HELD_BYTES:
                    stats += self._written(task, held, first_row)
                    held, held_bytes, first_row = [], 0, num_rows
            if task is not None and held:
                stats += self._written(task, held, first_row)
        return AppendReport(
            begun=task.begun.encode() if task else b"",
            schema_json=self.schema.recorded.json_text,
            rows=num_rows,
            stats=tuple(json.dumps(asdict(stat)) for stat in stats),
            query=query,
            write=task.write if task else None,
        )

    @contextlib.contextmanager
    def _begun(self, partition: int, attempt: int, query: str) -> Iterator[_Task]:
        """The write, which begins here if no other task has begun it, and stays alive while the block runs."""
        storage = self.table.storage()
        refuse_missing_table(storage)
        table = self.hudi_table(storage)
        if self.server is None:
            begun = begin_once(table, storage, self.environment, self.action, self.write_id, self._refuse_changed)
            with kept_alive(storage, begun):
                yield _Task(begun, self._files(storage, begun, partition, attempt))
            return
        write = self.server.write_of(query)
        with self.server.begun(write, self.write_id, self.spec) as (begun, lease):
            if begun.start != self.start:
                self._refuse_changed(table.refreshed().pinned())
            yield _Task(begun, self._files(storage, begun, partition, attempt), write, lease)

    def _refuse_changed(self, table: HudiTable) -> None:
        """WriteConflict if another process has changed the table's settings or columns since the write was planned."""
        if StartOfWrite.of(table.timeline()) == self.start and table.properties == self.table.settings.properties:
            return
        columns = self.schema.columns.empty_table()
        schema, _ = self.table.preparation.rows(current_table(table), columns)
        if table.properties != self.table.settings.properties or (
            schema.recorded.json_text != self.schema.recorded.json_text
        ):
            raise WriteConflict(
                f"{self.table.settings.where}: another process changed its columns or properties after this write was "
                "planned: nothing was written; write again"
            )

    def _files(self, storage: WritableStorage, begun: BegunWrite, partition: int, attempt: int) -> FileWrites:
        return FileWrites(
            transaction=AttemptFiles(self.hudi_table(storage), storage, begun.instant),
            current=self.table.current(),
            settings=self.table.settings,
            schemas=self.schema,
            attempt=f"{partition}-{attempt}",
            numbers=itertools.count(partition * _FILES_OF_TASK + 1),
        )

    def _written(self, task: _Task, held: Sequence[pa.RecordBatch], first_row: int) -> list[WriteStat]:
        """Writes rows into new file groups, one for each of their partitions."""
        data = pa.Table.from_batches(held)
        data = data.drop_columns([name for name in data.column_names if name in META_COLUMNS])
        files = task.files
        _, rows = self.table.preparation.rows(files.current, data, first_row)
        order = np.argsort(rows.partitions.numbers, kind="stable")
        ends = np.cumsum(np.bincount(rows.partitions.numbers, minlength=len(rows.partitions.paths)))
        groups = [
            GroupWrite(path, f"{uuid.uuid4()}-0", None, of_partition)
            for path, of_partition in zip(rows.partitions.paths, np.split(order, ends[:-1]), strict=True)
            if len(of_partition)
        ]
        task.lease(
            TouchedGroups(
                groups=frozenset((group.partition, group.file_id) for group in groups),
                inserted_into=frozenset(group.partition for group in groups),
            )
        )
        stats = [files.group(group, rows.take(group.rows), self.table.operation) for group in groups]
        return [stat for stat in stats if stat is not None]
