"""The reader of a stream whose options or schema are refused: each call of Spark raises the error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.engine.spark.tracebacks import hidden_traceback
from penstock.proto.errors import PenstockError


class RefusedStreamReader(DataSourceStreamReader):
    """Raises `error` in each step that plans or reads; `commit` and `stop` do nothing.

    If `streamReader` itself raises, PySpark stops a reader that it never assigned, and reports that failure only
    (pyspark.sql.streaming.python_streaming_source_runner).
    """

    def __init__(self, error: PenstockError) -> None:
        self.error = error

    @hidden_traceback()
    def initialOffset(self) -> NoReturn:
        """Raises the error."""
        raise self.error

    @hidden_traceback()
    def latestOffset(self, start: object = None, limit: object = None) -> NoReturn:
        """Raises the error."""
        raise self.error

    @hidden_traceback()
    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        """Raises the error."""
        raise self.error

    @hidden_traceback()
    def read(self, partition: InputPartition) -> NoReturn:
        """Raises the error."""
        raise self.error
