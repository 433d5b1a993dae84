"""A split's batches in the exact shape Spark accepts: column for column cast, renamed, bounded in bytes.

Pure but for Arrow's compute. Columns are matched by position: the request named them in the DataFrame's order, so a
declared name may differ from the table's by letter case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.engine.spark.schema.changes import is_same, is_widened
from penstock.engine.spark.schema.types import arrow_schema, spark_type
from penstock.proto.errors import ConfigurationError, InvariantViolation

MAX_BATCH_BYTES: Final = 16 << 20
"""Above this a batch is cut before it goes to the JVM, which copies it whole."""


class Way(Enum):
    """How a column becomes the target's: as it is, in another Arrow type of the same Spark type, value for value back
    to the type that it was widened from."""

    SAME = "same"
    CAST = "cast"
    NARROWED = "narrowed"


@dataclass(frozen=True, slots=True)
class Casting:
    """How each column of a source becomes the target's; created once for each slot, by `casting`."""

    target: pa.Schema
    ways: tuple[Way, ...]
    table: str = ""

    def batches(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch's rows in order, in the target schema, in pieces of about MAX_BATCH_BYTES; no empty piece.

        ConfigurationError for a null in a column that the caller declared NOT NULL; SchemaMismatch for a value that
        does not fit the type which its column was widened from.
        """
        if batch.num_columns != len(self.ways):
            raise InvariantViolation(f"a batch of {batch.num_columns} columns, expected {len(self.ways)}")
        columns = [
            self._column(column, field, way)
            for column, field, way in zip(batch.columns, self.target, self.ways, strict=True)
        ]
        for column, field in zip(columns, self.target, strict=True):
            if not field.nullable and column.null_count:
                raise ConfigurationError(
                    f"column {field.name} is declared NOT NULL but holds nulls: declare it nullable"
                )
        yield from _pieces(pa.RecordBatch.from_arrays(columns, schema=self.target))

    def _column(self, column: pa.Array, field: pa.Field, way: Way) -> pa.Array:
        match way:
            case Way.SAME:
                return column
            case Way.CAST:
                return column.cast(field.type)
            case Way.NARROWED:
                from penstock.engine.spark.schema.narrowing import narrowed

                return narrowed(column, field.type, field.name, self.table)


def casting(source: pa.Schema, schema: StructType, *, table: str = "", narrows: bool = False) -> Casting:
    """The way from a scan's output schema to the schema of a DataFrame, its columns in the same order.

    ConfigurationError names a column whose declared type is not the table's: nothing is widened or parsed silently.
    With `narrows` (a stream, whose schema was fixed when it was loaded) a column of `table` may have been widened since
    (`schema_changes`).
    """
    target = arrow_schema(schema)
    if len(source) != len(target):
        raise ConfigurationError(
            f"the DataFrame has {len(target)} columns, the plan {len(source)}: got {source.names}, expected"
            f" {target.names}"
        )
    ways = []
    for field, declared, target_field in zip(source, schema.fields, target, strict=True):
        if not is_same(field.type, target_field.type, field.name):
            if narrows and is_widened(target_field.type, field.type):
                ways.append(Way.NARROWED)
                continue
            own = spark_type(field.type, field.name)
            raise ConfigurationError(
                f"column {declared.name}: the table's type is {own.simpleString()}, but the DataFrame's is"
                f" {declared.dataType.simpleString()}; declare it as {own.simpleString()} and cast it in the query"
                " (if the table's schema changed after load(): load it again, a stream must be started again)"
            )
        # Text, not ==: Arrow calls map types equal whose entries carry other names; the JVM does not.
        ways.append(Way.SAME if str(field.type) == str(target_field.type) else Way.CAST)
    return Casting(target, tuple(ways), table)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows == 0:
        return
    pieces = -(-batch.nbytes // MAX_BATCH_BYTES) or 1
    rows = max(1, -(-batch.num_rows // pieces))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
