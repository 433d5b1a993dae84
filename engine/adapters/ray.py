"""A table as a dataset of Ray Data (`ray.data.Datasource`), whose read tasks are splits.

Ray hands the selected columns and those conditions to the datasource that PyArrow can evaluate, and does not apply
them again. Each read task applies them to its blocks, after the scan applied what it can.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import ray.data
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from penstock.engine import read_tasks
from penstock.engine.adapters.source import TableSource, table_source

if TYPE_CHECKING:
    from ray.data import DataContext

_NUMBER_OF_ROWS: Final = "__bsp_stub"
"""The name of this column in Ray 2.60."""


def read(table: str | os.PathLike[str], *, server: str | None = None, **options: object) -> ray.data.Dataset:
    """A table as a dataset, read in parallel by the cluster: each read task reads one split or several.

    `table` is a path or URI that every node sees; with `server` (HOST:PORT) the name of a table that it serves.
    `options` are those of `penstock.read` except `limit`: call `limit` on the dataset. Selected columns
    and filters by an expression reach the plan: other columns, and partitions, files and row groups that the condition
    excludes, are not read. The table is planned when the dataset's schema or rows are first needed, once for
    each set of columns and conditions: later executions read the same files.

    Errors: `penstock.errors` here; in tasks Ray raises them as its own, with their text.
    """
    limit = "call limit(n) on the dataset"
    source = table_source("penstock.ray.read", table, {"server": server, **options}, limit)
    dataset: ray.data.Dataset = ray.data.read_datasource(TableDatasource(source))
    return dataset


class TableDatasource(Datasource):
    """A table as a datasource. A read of the same columns with the same condition is planned once."""

    def __init__(self, source: TableSource) -> None:
        """`source`: the table."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._projection_map: dict[str, str] | None = None
        self._source = source
        self._plans: dict[tuple[object, str], read_tasks.PlannedRead] = {}

    def get_name(self) -> str:
        """The name of the read tasks."""
        return "Penstock"

    def supports_projection_pushdown(self) -> bool:
        """Columns are pushed."""
        return True

    def supports_predicate_pushdown(self) -> bool:
        """Conditions are pushed."""
        return True

    def estimate_inmemory_data_size(self) -> int | None:
        """The bytes on storage of all splits: memory holds several times as many for compressed files."""
        return sum(task.bytes for task in self._planned().tasks)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        """At most `parallelism` tasks, each with consecutive splits of about the same size; at least one task."""
        names = self._get_data_columns()
        schema = self._source.schema if names is None else pa.schema([self._source.schema.field(one) for one in names])
        return [
            ReadTask(
                partial(blocks, tasks, schema, self._condition()),
                BlockMetadata(
                    num_rows=None if tasks else 0,
                    size_bytes=sum(task.bytes for task in tasks),
                    input_files=None,
                    exec_stats=None,
                ),
                schema=schema,
                per_task_row_limit=per_task_row_limit,
            )
            for tasks in grouped(self._planned().tasks, max(parallelism, 1))
        ]

    def _condition(self) -> pc.Expression | None:
        return None if self._predicate_expr is None else self._predicate_expr.to_pyarrow()

    def _planned(self) -> read_tasks.PlannedRead:
        columns, condition = self._get_data_columns(), self._condition()
        key = (None if columns is None else tuple(columns), str(condition))
        if key not in self._plans:
            self._plans[key] = self._source.planned(columns, condition)
        return self._plans[key]


def grouped(tasks: Sequence[read_tasks.ReadTask], groups: int) -> list[tuple[read_tasks.ReadTask, ...]]:
    """The tasks in order, in at most `groups` groups of about as many bytes each; one empty group for no tasks."""
    total = sum(max(task.bytes, 1) for task in tasks)
    result: list[list[read_tasks.ReadTask]] = [[]]
    before = 0
    for task in tasks:
        if result[-1] and before * groups >= total * len(result):
            result.append([])
        result[-1].append(task)
        before += max(task.bytes, 1)
    return [tuple(group) for group in result]


def blocks(
    tasks: Sequence[read_tasks.ReadTask], schema: pa.Schema, condition: pc.Expression | None
) -> Iterator[pa.Table]:
    """The rows of the splits for which `condition` is true, with the columns of `schema`; at least one block."""
    empty = True
    for task in tasks:
        with closing(task.batches()) as batches:
            for batch in batches:
                kept = batch if condition is None else batch.filter(condition)
                if kept.num_rows:
                    empty = False
                    yield _block(kept.select(schema.names))
    if empty:
        yield schema.empty_table()


def _block(batch: pa.RecordBatch) -> pa.Table:
    """The batch as a block. Ray counts the rows of blocks without columns as 0 when it joins them, so that such a block
    gets the column by which Ray's own sources keep the number, and which datasets do not show."""
    block = pa.Table.from_batches([batch])
    return block if block.num_columns else block.append_column(_NUMBER_OF_ROWS, pa.nulls(block.num_rows))
