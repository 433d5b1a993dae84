"""The batch reader: the driver plans once, and each task reads one slot.

Does not implement pushFilters: Spark 4.1 to 4.3 reuse the planned read of one scan for other scans of the same
relation, and so return wrong rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.engine.connect import enumerator_for
from penstock.engine.requests.batch import plan_request
from penstock.engine.spark.load import Loaded, resolved
from penstock.engine.spark.planning import plan_slots
from penstock.engine.spark.task.input_partitions import PackedSlot
from penstock.engine.spark.task.reader import SlotReader
from penstock.engine.spark.tracebacks import hidden_traceback
from penstock.proto.retry import Retry


class PenstockBatchReader(DataSourceReader):
    """Reads one snapshot or range. Spark keeps the planned slots as long as the DataFrame or view exists: every action
    reads the same state of the table, and a new load() reads the newest."""

    def __init__(self, load: Loaded, schema: StructType, planned: Sequence[PackedSlot] | None = None) -> None:
        """`planned`: the slots, if the caller of load() planned them (`slices.scan_options`)."""
        self._planned = planned
        self._load, self._reading = resolved(load, schema, limit_rows=load.options.limit)

    def __reduce__(self) -> tuple[object, ...]:
        """Spark pickles the reader into every task, which needs only the SlotReader."""
        return (SlotReader, (self._reading,))

    @hidden_traceback()
    def partitions(self) -> list[InputPartition]:
        """The slots of the plan; [] if it has no split. Errors: `penstock.proto.errors`."""
        if self._planned is not None:
            return [InputPartition(slot) for slot in self._planned]
        table, options = self._load.table, self._load.options
        enumerator, retry = enumerator_for(options.server, options.access), Retry(policy=options.retry)
        request = plan_request(table, options, lambda: retry.call(lambda: enumerator.describe_table(table)))
        slots = retry.call(
            lambda: plan_slots(enumerator, options.server, request, self._reading.schema, options.access)
        )
        return [InputPartition(slot) for slot in slots]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one slot, the same in every attempt of the task."""
        return SlotReader(self._reading).read(partition)
