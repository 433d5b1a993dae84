"""A split's batches in the exact shape Spark accepts: column for column cast, renamed, bounded in bytes.

Pure but for Arrow's compute. Columns are matched by position: the request named them in the DataFrame's order, so a
declared name may differ from the table's by letter case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.engine.spark.types import arrow_schema, arrow_type, spark_type
from penstock.proto.errors import ConfigurationError, InvariantViolation

MAX_BATCH_BYTES: Final = 16 << 20
"""Above this a batch is cut before it goes to the JVM, which copies it whole."""


@dataclass(frozen=True, slots=True)
class Casting:
    """How each column of a source becomes the target's; made once for a slot, by `casting`."""

    target: pa.Schema
    unchanged: tuple[bool, ...]

    def batches(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch's rows in order, in the target schema, in pieces of about MAX_BATCH_BYTES; no empty piece.

        ConfigurationError for a null in a column that the caller declared NOT NULL.
        """
        if batch.num_columns != len(self.unchanged):
            raise InvariantViolation(f"a batch of {batch.num_columns} columns, expected {len(self.unchanged)}")
        columns = [
            column if same else column.cast(field.type)
            for column, field, same in zip(batch.columns, self.target, self.unchanged, strict=True)
        ]
        for column, field in zip(columns, self.target, strict=True):
            if not field.nullable and column.null_count:
                raise ConfigurationError(
                    f"column {field.name} is declared NOT NULL but holds nulls: declare it nullable"
                )
        yield from _pieces(pa.RecordBatch.from_arrays(columns, schema=self.target))


def casting(source: pa.Schema, schema: StructType) -> Casting:
    """The way from a scan's output schema to the schema of a DataFrame, its columns in the same order.

    ConfigurationError names a column whose declared type is not the table's: nothing is widened or parsed silently.
    """
    target = arrow_schema(schema)
    if len(source) != len(target):
        raise ConfigurationError(
            f"the DataFrame has {len(target)} columns, the plan {len(source)}: got {source.names}, expected"
            f" {target.names}"
        )
    unchanged = []
    for field, declared, wanted in zip(source, schema.fields, target, strict=True):
        own = spark_type(field.type, field.name)
        if str(arrow_type(own, field.name)) != str(wanted.type):
            raise ConfigurationError(
                f"column {declared.name}: the table's type is {own.simpleString()}, but the DataFrame's is"
                f" {declared.dataType.simpleString()}; declare it as {own.simpleString()} and cast it in the query"
                " (if the table's schema changed after load(): load it again, a stream must be started again)"
            )
        # Text, not ==: Arrow calls map types equal whose entries carry other names; the JVM does not.
        unchanged.append(str(field.type) == str(wanted.type))
    return Casting(target, tuple(unchanged))


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows == 0:
        return
    pieces = -(-batch.nbytes // MAX_BATCH_BYTES) or 1
    rows = max(1, -(-batch.num_rows // pieces))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
