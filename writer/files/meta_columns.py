"""The meta columns of written rows. Vectorised.

Source: Hudi `HoodieRecord`: the commit time, `<instant>_<task>_<row>`, the record key, the partition path, and the name
of the base file, or the file id in a log.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.schema.avro import META_COLUMNS, OPERATION

FILE_NAME = META_COLUMNS[-1]


@dataclass(slots=True)
class RowStamp:
    """Stamps the rows of one file."""

    instant: str
    """The instant of the write."""
    task: int
    """The number of the file in the write."""
    partition: str
    """Partition path."""
    file_name: str
    """The name of the base file, or the file id of a log."""
    keeps_operations: bool = False
    """Whether rows keep their operations. Hudi leaves them null in base files (`HoodieWriteMergeHandle`)."""
    next_row: int = 0
    """The number of the next row."""

    def stamped(self, rows: pa.RecordBatch, keys: pa.Array) -> pa.RecordBatch:
        """The rows with the meta columns first. Each row has another sequence number."""
        count = rows.num_rows
        if not self.keeps_operations and OPERATION in rows.schema.names:
            place = rows.schema.get_field_index(OPERATION)
            rows = rows.set_column(place, OPERATION, pa.nulls(count, pa.string()))
        numbers = pa.array(np.arange(self.next_row, self.next_row + count)).cast(pa.string())
        self.next_row += count
        meta = [
            _constant(self.instant, count),
            pc.binary_join_element_wise(f"{self.instant}_{self.task}", numbers, "_"),
            keys.cast(pa.string()),
            _constant(self.partition, count),
            _constant(self.file_name, count),
        ]
        return pa.RecordBatch.from_arrays([*meta, *rows.columns], names=[*META_COLUMNS, *rows.schema.names])


def in_file(rows: pa.RecordBatch, file_name: str) -> pa.RecordBatch:
    """Rows of an older base file in another one: only the file name changes."""
    place = rows.schema.get_field_index(FILE_NAME)
    return rows.set_column(place, FILE_NAME, _constant(file_name, rows.num_rows))


def _constant(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text), count)
