"""A Python data source of one batch, which measures Spark's own cost of the first query of a Python data source.

It opens no file and imports only pyarrow; its cost is a lower bound for Penstock's.
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
