"""Converts batches to the schema that Spark expects: casts and renames columns, and splits large batches. Pure.

Columns are matched by position: the request has the order of the DataFrame, so a declared name may differ from the
table's by letter case.
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
"""A larger batch is split before it is sent to the JVM, which copies each batch as a whole."""


class Conversion(Enum):
    """How a column is converted to the target type."""

    SAME = "same"
    """Not at all."""
    CAST = "cast"
    """To another Arrow type of the same Spark type."""
    NARROWED = "narrowed"
    """Each value exactly, back to the type from which the column was widened."""


@dataclass(frozen=True, slots=True)
class Casting:
    """The conversion of batches to a target schema. `casting` creates one for each slot."""

    target: pa.Schema
    """The schema of the converted batches."""
    conversions: tuple[Conversion, ...]
    """The conversion of each column."""
    table: str = ""
    """The table, for error texts."""

    def batches(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows in order, in the target schema, as non-empty batches of about MAX_BATCH_BYTES.

        ConfigurationError for a null in a column that the caller declared NOT NULL; SchemaMismatch for a value that
        does not fit the type which its column was widened from.
        """
        if batch.num_columns != len(self.conversions):
            raise InvariantViolation(f"a batch of {batch.num_columns} columns, expected {len(self.conversions)}")
        columns = [
            self._converted(column, field, conversion)
            for column, field, conversion in zip(batch.columns, self.target, self.conversions, strict=True)
        ]
        for column, field in zip(columns, self.target, strict=True):
            if not field.nullable and column.null_count:
                raise ConfigurationError(
                    f"column {field.name} is declared NOT NULL but holds nulls: declare it nullable"
                )
        yield from _pieces(pa.RecordBatch.from_arrays(columns, schema=self.target))

    def _converted(self, column: pa.Array, field: pa.Field, conversion: Conversion) -> pa.Array:
        match conversion:
            case Conversion.SAME:
                return column
            case Conversion.CAST:
                return column.cast(field.type)
            case Conversion.NARROWED:
                from penstock.engine.spark.schema.narrowing import narrowed

                return narrowed(column, field.type, field.name, self.table)


def casting(source: pa.Schema, schema: StructType, *, table: str = "", narrows: bool = False) -> Casting:
    """The conversion from a scan's output schema to the schema of a DataFrame with the same order of columns.

    ConfigurationError for a column whose declared type is not the table's: no value is widened or parsed silently. With
    `narrows` (a stream, whose schema is fixed at load()) a column may have been widened since (`schema_changes`).
    """
    target = arrow_schema(schema)
    if len(source) != len(target):
        raise ConfigurationError(
            f"the DataFrame has {len(target)} columns, the plan {len(source)}: got {source.names}, expected"
            f" {target.names}"
        )
    conversions = []
    for field, declared, target_field in zip(source, schema.fields, target, strict=True):
        if not is_same(field.type, target_field.type, field.name):
            if narrows and is_widened(target_field.type, field.type):
                conversions.append(Conversion.NARROWED)
                continue
            own = spark_type(field.type, field.name)
            raise ConfigurationError(
                f"column {declared.name}: the table's type is {own.simpleString()}, but the DataFrame's is"
                f" {declared.dataType.simpleString()}; declare it as {own.simpleString()} and cast it in the query"
                " (if the table's schema changed after load(): load it again, a stream must be started again)"
            )
        # Text, not ==: Arrow ignores the names of map entries in comparisons, the JVM does not.
        conversions.append(Conversion.SAME if str(field.type) == str(target_field.type) else Conversion.CAST)
    return Casting(target, tuple(conversions), table)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows == 0:
        return
    pieces = -(-batch.nbytes // MAX_BATCH_BYTES) or 1
    rows = max(1, -(-batch.num_rows // pieces))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
