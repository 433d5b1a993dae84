"""A Python data source of one batch: what Spark itself takes for a first query of any such source.

For the bench alone. It opens nothing and imports nothing but pyarrow; what it takes is the floor of Penstock's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition


class BareReader(DataSourceReader):
    """One task of one batch."""

    def partitions(self) -> list[InputPartition]:
        """One."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Three rows."""
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"id": [1, 2, 3]})


class BareDataSource(DataSource):
    """The format `bare`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "bare"

    def schema(self) -> str:
        """One column."""
        return "id bigint"

    def reader(self, schema: Any) -> DataSourceReader:
        """A batch read."""
        return BareReader()
