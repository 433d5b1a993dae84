"""The partitions that the rows of a data frame name, for `delete_partition`: tasks keep a row of each partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.spark.tracebacks import hidden_traceback
from penstock.engine.spark.write.input import arrow_columns, quoted
from penstock.engine.spark.write.rows import task_table
from penstock.engine.spark.write.task_table import TaskTable, errors_of_tasks
from penstock.engine.write.planned_write import PlannedWrite
from penstock.engine.write.prepared_rows import one_of_each_partition, used_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def named_partitions(df: DataFrame, planned: PlannedWrite) -> pa.Table:
    """The partition columns of some of the rows: from each task one row of each partition that its rows name.

    Errors of `RowPreparation.rows`, and of the data frame.
    """
    columns = arrow_columns(df.schema, planned.settings.where).empty_table()
    planned.preparation.rows(planned.early, columns)
    named = df.select(*map(quoted, used_columns(columns, planned.settings.paths.fields).schema.names))
    with errors_of_tasks():
        return named.mapInArrow(_reducing(task_table(planned, planned.early)), named.schema).toArrow()


def _reducing(table: TaskTable) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of `DataFrame.mapInArrow`."""

    def reduce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept: list[pa.RecordBatch] = []
        for batch in batches:
            if batch.num_rows:
                rows = pa.Table.from_batches([*kept, batch])
                with hidden_traceback():
                    places = one_of_each_partition(table.preparation, table.current(), rows)
                kept = rows.take(pa.array(places)).to_batches()
        yield from kept

    return reduce
