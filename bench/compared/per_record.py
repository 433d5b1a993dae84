"""Penstock's reader with one object per record, to measure the cost of a source that returns rows instead of batches.

Plan, splits and merged batches are those of Penstock; each batch is converted to tuples, which Spark pickles and
converts to its own rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.engine.spark.source import PenstockDataSource


class PerRecordReader(DataSourceReader):
    """A batch reader of Penstock whose rows are tuples."""

    def __init__(self, inner: DataSourceReader) -> None:
        self._inner = inner

    def partitions(self) -> Any:
        """The input partitions of Penstock's reader."""
        return self._inner.partitions()

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """The rows of Penstock's reader, one tuple each."""
        for batch in self._inner.read(partition):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class PerRecordDataSource(DataSource):
    """The format `penstock_per_record`: batch reads, with the options of `penstock`."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self._inner = PenstockDataSource(options)

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "penstock_per_record"

    def schema(self) -> StructType:
        """The table's schema, projected by `columns`."""
        return self._inner.schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read of these columns."""
        return PerRecordReader(self._inner.reader(schema))
