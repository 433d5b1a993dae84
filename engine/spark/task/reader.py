"""The reader in a task: Spark pickles the driver's reader into every task, which only reads.

Does not import the driver's modules, so that a task imports only the data plane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

    from penstock.engine.spark.task.input_partitions import SlotReading


@dataclass(frozen=True, slots=True)
class SlotReader:
    """Reads the slots of a batch or a stream."""

    reading: SlotReading
    """The settings of reading."""

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one slot, the same in every attempt of the task."""
        from penstock.engine.spark.task.read import read_partition
        from penstock.engine.spark.tracebacks import hidden_traceback

        with hidden_traceback():
            yield from read_partition(partition, self.reading)
