"""What became of a table's columns since a stream's schema was fixed: whether the stream goes on under that schema.

Pure. A column goes on as it is, or widened (as Hudi promotes types: each value is cast back where it fits exactly), or
not at all: it is gone, or its new type has nothing to do with the old. What was added is not seen. Not here: the cast
itself (`narrowing`), what the stream does about it (`stream.reader`).
"""

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
    """The table's type now holds more than the stream's; each value is cast back exactly, or the read fails."""

    column: str
    was: str
    now: str

    def __str__(self) -> str:
        return f"column {self.column} was widened from {self.was} to {self.now}"


@dataclass(frozen=True, slots=True)
class Gone:
    """The table has no such column any more."""

    column: str

    def __str__(self) -> str:
        return f"column {self.column} is gone (dropped, or renamed)"


@dataclass(frozen=True, slots=True)
class Clash:
    """The table's type now is no promotion of the stream's."""

    column: str
    was: str
    now: str

    def __str__(self) -> str:
        return f"column {self.column} was {self.was}, and is {self.now} now"


SchemaChange = Widened | Gone | Clash

_NUMBERS: Final = (pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
"""Each type is promoted to those after it."""


def schema_changes(fixed: StructType, table: pa.Schema) -> tuple[SchemaChange, ...]:
    """What differs for the columns of `fixed` in a table that has the columns `table` now, in the order of `fixed`."""
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
        changes.append(change(field.name, _shown(field.type, field.name), _shown(now, field.name)))
    return tuple(changes)


def breaking(changes: tuple[SchemaChange, ...]) -> tuple[SchemaChange, ...]:
    """Those under which the stream cannot go on."""
    return tuple(change for change in changes if not isinstance(change, Widened))


def is_same(now: pa.DataType, fixed: pa.DataType, column: str) -> bool:
    """Whether the table's type is the one that Spark was promised."""
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
        held = {field.name: field.type for field in now}
        return all(
            field.name in held
            and (str(held[field.name]) == str(field.type) or is_widened(field.type, held[field.name]))
            for field in was
        )
    return False


def _shown(arrow: pa.DataType, column: str) -> str:
    try:
        return str(spark_type(arrow, column).simpleString())
    except PenstockError:
        return str(arrow)
