"""The partitions that the rows of a data frame name, for `delete_partition`: tasks keep a row of each partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.engine.spark.tracebacks import hidden_traceback
from penstock.engine.spark.write.input import arrow_columns, quoted
from penstock.engine.spark.write.rows import task_table
from penstock.engine.spark.write.task_table import TaskTable, errors_of_tasks
from penstock.engine.write.planned_write import PlannedWrite
from penstock.engine.write.prepared_rows import one_of_each_partition, used_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_KEPT_ROWS: Final = 10_000
"""Rows that are kept before they are reduced again, at least."""


def named_partitions(df: DataFrame, planned: PlannedWrite) -> pa.Table:
    """A row of each partition that the rows of the data frame name, with the partition columns only.

    Errors of `RowPreparation.rows`, and of the data frame.
    """
    columns = arrow_columns(df.schema, planned.settings.where).empty_table()
    planned.preparation.rows(planned.early, columns)
    named = df.select(*map(quoted, used_columns(columns, planned.settings.paths.fields).schema.names))
    reduce = _reducing(task_table(planned, planned.early))
    with errors_of_tasks():
        of_tasks = named.mapInArrow(reduce, named.schema)
        return of_tasks.repartition(1).mapInArrow(reduce, named.schema).toArrow()


def _reducing(table: TaskTable) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of `DataFrame.mapInArrow`: a row of each partition."""

    def reduced(rows: pa.Table) -> pa.Table:
        with hidden_traceback():
            return rows.take(pa.array(one_of_each_partition(table.preparation, table.current(), rows)))

    def reduce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept: list[pa.Table] = []
        limit = _KEPT_ROWS
        for batch in batches:
            if batch.num_rows:
                kept.append(reduced(pa.Table.from_batches([batch])))
            if sum(rows.num_rows for rows in kept) > limit:
                kept = [reduced(pa.concat_tables(kept))]
                limit = max(_KEPT_ROWS, 2 * kept[0].num_rows)
        if kept:
            yield from reduced(pa.concat_tables(kept)).to_batches()

    return reduce
