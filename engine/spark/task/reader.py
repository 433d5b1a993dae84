"""What a reader becomes in a task: Spark pickles the reader of the driver into every task, and only reading is asked of
it there.

Belongs here: nothing that a driver needs, so that a task imports the data plane alone.
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
    """Reads slots, batch and stream alike."""

    reading: SlotReading

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one slot; the same rows whichever attempt reads it."""
        from penstock.engine.spark.task.read import read_partition

        return read_partition(partition, self.reading)
