"""The values that tasks get of a table."""

from __future__ import annotations

from penstock.engine.spark.write.rows import task_table
from penstock.engine.spark.write.task_table import TaskTable
from penstock.engine.write.planned_write import WriteOptions, open_write
from tests.unit.engine.write.recorded_storage import Lake


def opened(lake: Lake, operation: str = "upsert") -> TaskTable:
    """The table as tasks of a write get it."""
    planned = open_write(str(lake.path), WriteOptions(operation=operation))
    return task_table(planned, planned.early, reads_logs=True)
