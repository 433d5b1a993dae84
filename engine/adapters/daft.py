"""A table as a Daft DataFrame (`daft.io.source.DataSource`), with one task for each split.

Daft hands the requested columns, a condition and a limit to `get_tasks` when the query is executed, and applies
condition and limit itself afterwards.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import closing

import daft
from daft.io.pushdowns import Pushdowns
from daft.io.source import DataSource, DataSourceTask
from daft.recordbatch import RecordBatch

from penstock.engine.adapters.daft_conditions import condition_of, required_columns
from penstock.engine.adapters.source import TableSource, table_source
from penstock.engine.read_tasks import ReadTask


def read(table: str | os.PathLike[str], *, server: str | None = None, **options: object) -> daft.DataFrame:
    """A table as a DataFrame. Each execution plans the query from the table's state at that time, one task a split.

    `table` is a path or URI; with `server` (HOST:PORT) the name of a table that it serves. `options` are those of
    `penstock.read` except `limit`: call `limit` on the DataFrame. Only the columns that a query needs are read, and
    partitions, files and row groups that its conditions exclude are not read. Without a condition, each task stops at
    the query's limit. A task can run in any process that sees the table's files.

    Errors: `penstock.errors`, also from the execution; SchemaMismatch if a column has changed its type since the call.
    """
    limit = "call limit(n) on the DataFrame"
    return TableDataSource(table_source("penstock.daft.read", table, {"server": server, **options}, limit)).read()


class TableDataSource(DataSource):
    """A table as a source of Daft."""

    def __init__(self, source: TableSource) -> None:
        """`source`: the table."""
        self._source = source

    @property
    def name(self) -> str:
        """The name in plans."""
        return "penstock"

    @property
    def schema(self) -> daft.Schema:
        """The columns of the table."""
        return daft.Schema.from_pyarrow_schema(self._source.schema)

    async def get_tasks(self, pushdowns: Pushdowns) -> AsyncIterator[DataSourceTask]:
        """One task for each split. Planning blocks: it runs in another thread."""
        schema = self._source.schema
        columns = required_columns(pushdowns, schema)
        condition = condition_of(pushdowns.filters, schema)
        # Daft applies the condition first, so a limited task might stop before the rows that the query returns.
        limit = pushdowns.limit if pushdowns.filters is None else None
        planned = await asyncio.to_thread(self._source.planned, columns, condition)
        for task in planned.tasks:
            yield SplitTask(task, limit)


class SplitTask(DataSourceTask):
    """One split as a task of Daft. It can be pickled."""

    def __init__(self, task: ReadTask, limit: int | None) -> None:
        """`task`: the split. `limit`: the maximum number of rows; None: all."""
        self._task = task
        self._limit = limit

    @property
    def schema(self) -> daft.Schema:
        """The schema of the batches."""
        return daft.Schema.from_pyarrow_schema(self._task.shared.schema)

    async def read(self) -> AsyncIterator[RecordBatch]:
        """The rows of the split. Each batch is read in another thread, so that tasks run side by side."""
        schema = self._task.shared.schema
        with closing(self._task.batches(self._limit)) as batches:
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                yield RecordBatch.from_arrow_record_batches([batch], schema)
