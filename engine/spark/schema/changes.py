"""Compares a table's schema with the fixed schema of a stream, and decides whether the stream can continue. Pure.

A stream continues with an unchanged column, and with one that was widened as Hudi promotes types: each value is cast
back if it fits exactly (`narrowing`). It cannot continue if a column was dropped or has an unrelated type. With a new
column it continues unless the option `onNewColumns` is `fail`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql.types import StructType

from penstock.engine.spark.schema.types import arrow_schema, arrow_type, spark_type
from penstock.proto.errors import PenstockError
from penstock.table.columns import resolve_columns


@dataclass(frozen=True, slots=True)
class Widened:
    """The column was widened. Each value is cast back exactly, or the read fails."""

    column: str
    """The name of the column."""
    was: str
    """Its Spark type in the stream."""
    now: str
    """Its Spark type in the table."""

    def __str__(self) -> str:
        return f"column {self.column} was widened from {self.was} to {self.now}"


@dataclass(frozen=True, slots=True)
class Gone:
    """The table no longer has the column."""

    column: str
    """The name of the column."""

    def __str__(self) -> str:
        return f"column {self.column} is gone (dropped, or renamed)"


@dataclass(frozen=True, slots=True)
class Clash:
    """The table's type is not a promotion of the stream's type."""

    column: str
    """The name of the column."""
    was: str
    """Its Spark type in the stream."""
    now: str
    """Its Spark type in the table."""

    def __str__(self) -> str:
        return f"column {self.column} was {self.was}, and is {self.now} now"


SchemaChange = Widened | Gone | Clash


@dataclass(frozen=True, slots=True)
class Added:
    """The table has a column, or a struct of it a field, that the stream's schema lacks."""

    column: str
    """The name of the column, or the path of the field: `address.zip`."""
    type: str
    """Its Spark type."""

    def __str__(self) -> str:
        return f"{self.column} {self.type}"


_NUMBERS: Final = (pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
"""Each type can be promoted to the types after it."""


def schema_changes(fixed: StructType, table: pa.Schema) -> tuple[SchemaChange, ...]:
    """The changes of the columns of `fixed` in a table that now has the schema `table`, in the order of `fixed`."""
    changes: list[SchemaChange] = []
    for field in arrow_schema(fixed):
        try:
            (name,) = resolve_columns((field.name,), table.names)
        except PenstockError:
            changes.append(Gone(field.name))
            continue
        now = table.field(name).type
        if is_same(now, field.type, field.name):
            continue
        change = Widened if is_widened(field.type, now) else Clash
        changes.append(change(field.name, _type_text(field.type, field.name), _type_text(now, field.name)))
    return tuple(changes)


def new_columns(fixed: StructType, table: pa.Schema) -> tuple[Added, ...]:
    """The columns of `table` that `fixed` lacks, and the fields that structs of `fixed` lack, in the table's order.

    Fields inside lists and maps are not compared: their types then do not fit (`Clash`).
    """
    known = {field.name.lower(): field for field in arrow_schema(fixed)}
    added: list[Added] = []
    for field in table:
        if field.name.lower() not in known:
            added.append(Added(field.name, _type_text(field.type, field.name)))
        else:
            added += _new_fields(known[field.name.lower()].type, field.type, field.name)
    return tuple(added)


def _new_fields(fixed: pa.DataType, now: pa.DataType, path: str) -> list[Added]:
    if not (pat.is_struct(fixed) and pat.is_struct(now)):
        return []
    known = {field.name: field.type for field in fixed}
    added: list[Added] = []
    for field in now:
        name = f"{path}.{field.name}"
        if field.name in known:
            added += _new_fields(known[field.name], field.type, name)
        else:
            added.append(Added(name, _type_text(field.type, name)))
    return added


def breaking(changes: tuple[SchemaChange, ...]) -> tuple[SchemaChange, ...]:
    """The changes with which the stream cannot continue."""
    return tuple(change for change in changes if not isinstance(change, Widened))


def is_same(now: pa.DataType, fixed: pa.DataType, column: str) -> bool:
    """Whether the table's type is the fixed type of the stream."""
    try:
        return str(arrow_type(spark_type(now, column), column)) == str(fixed)
    except PenstockError:
        return False


def is_widened(was: pa.DataType, now: pa.DataType) -> bool:
    """Whether Hudi promotes `was` to `now` (`SchemaChangeUtils.isTypeUpdateAllow`; Avro's own promotions), or `now` is
    a struct that gained fields."""
    if was in _NUMBERS:
        if now in _NUMBERS:
            return _NUMBERS.index(was) < _NUMBERS.index(now)
        return bool(pat.is_string(now) or pat.is_decimal128(now))
    if pat.is_decimal128(was) and pat.is_decimal128(now):
        return bool(now.scale >= was.scale and now.precision - now.scale >= was.precision - was.scale)
    if pat.is_decimal128(was) or pat.is_date(was) or pat.is_binary(was):
        return bool(pat.is_string(now))
    if pat.is_string(was):
        return bool(pat.is_binary(now) or pat.is_date(now) or pat.is_decimal128(now))
    if pat.is_struct(was) and pat.is_struct(now):
        types = {field.name: field.type for field in now}
        return all(
            field.name in types
            and (str(types[field.name]) == str(field.type) or is_widened(field.type, types[field.name]))
            for field in was
        )
    return False


def _type_text(arrow: pa.DataType, column: str) -> str:
    try:
        return str(spark_type(arrow, column).simpleString())
    except PenstockError:
        return str(arrow)
