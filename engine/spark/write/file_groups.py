"""The last step of a write: a task writes the files of its file groups, and returns what it wrote.

Runs on executors. The rows of a group are in one task, in the order of their numbers, and are combined and merged here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from penstock.engine.spark.tracebacks import hidden_traceback
from penstock.engine.spark.write.columns import GROUP
from penstock.engine.spark.write.task_table import TaskTable
from penstock.engine.write.file_writes import FileWrites
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.positions import InstantTime
from penstock.table.timeline.commits import WriteStat
from penstock.writer.index.slices import GroupWrite
from penstock.writer.rows.write_schema import WriteSchema
from penstock.writer.transaction.attempt_files import AttemptFiles

REPORTS: Final = pa.schema([("number", pa.int32()), ("rows", pa.int64()), ("stat", pa.string())])
"""What a task returns of each file group: its number, how many rows it got, and the `WriteStat` as JSON or ''."""
REPORT_TYPES: Final = "number int, rows bigint, stat string"
"""The same for Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWriter:
    """Writes file groups of one instant."""

    table: TaskTable
    """The table when the instant began."""
    schema: WriteSchema
    """The schema of the write."""
    instant: InstantTime
    """The instant."""
    writes: Sequence[GroupWrite]
    """The groups of the write, by number."""
    salt: int
    """A random number of this write, below 2^31: no other write has the same tokens in the names of files."""

    def write(self, number: int, data: pa.Table, attempt: int) -> WriteStat | None:
        """Writes a group of these rows. `attempt` is the number of the attempt at the task, unique in the job."""
        group = self.writes[number]
        preparation = self.table.preparation
        current = self.table.current()
        rows = preparation.combined(preparation.rows(current, data)[1])
        if set(rows.partitions.paths) != {group.partition}:
            raise InvariantViolation(
                f"{self.table.settings.where}: rows of partitions {rows.partitions.paths[:3]} in file group "
                f"{group.file_id} of partition {group.partition!r}"
            )
        files = FileWrites(
            transaction=AttemptFiles(current.table, self.table.storage(), self.instant),
            current=current,
            settings=self.table.settings,
            schemas=self.schema,
            attempt=f"{self.salt}-{attempt}",
            numbers=iter((number + 1,)),
        )
        return files.group(group, rows, self.table.operation)


def write_file_groups(writer: GroupWriter) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of `DataFrame.mapInArrow` over rows by group: the number of the group, then the data."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        attempt = context.taskAttemptId() if context else 0
        for number, data in groups_of(batches):
            with hidden_traceback():
                stat = writer.write(number, data, attempt)
            yield pa.RecordBatch.from_pylist(
                [{"number": number, "rows": data.num_rows, "stat": json.dumps(asdict(stat)) if stat else ""}], REPORTS
            )

    return write


def groups_of(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each group, which stand together, without its number, the column GROUP."""
    held: list[pa.RecordBatch] = []
    number = -1
    for batch in batches:
        if not batch.num_rows:
            continue
        numbers = batch.column(GROUP).to_numpy()
        data = batch.drop_columns([GROUP])
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist()]
        for begin, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
            if held and numbers[begin] != number:
                yield number, pa.Table.from_batches(held)
                held = []
            number = int(numbers[begin])
            held.append(data.slice(begin, end - begin))
    if held:
        yield number, pa.Table.from_batches(held)


def stat_of(text: str) -> WriteStat | None:
    """The statistics of a group that a task returned."""
    if not text:
        return None
    fields: dict[str, Any] = json.loads(text)
    return WriteStat(**{**fields, "log_files": tuple(fields["log_files"])})
