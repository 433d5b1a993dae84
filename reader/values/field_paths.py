"""Columns, and fields of structs, by their name in a table's properties: `a`, or `a.b`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from penstock.table.arrow_compute import pc
from penstock.table.schema.avro import AvroField, RecordSchema, RecordType


def top_level(name: str) -> str:
    """The column that has the field."""
    return name.partition(".")[0]


def field_of(record: RecordSchema, name: str) -> AvroField | None:
    """The field of a schema; None if the schema lacks it."""
    whole = record.by_name().get(name)
    if whole is not None:
        return whole
    fields: Sequence[AvroField] = record.fields
    field = None
    for part in name.split("."):
        field = next((inner for inner in fields if inner.name == part), None)
        if field is None:
            return None
        fields = field.type.fields if isinstance(field.type, RecordType) else ()
    return field


def field_type(schema: pa.Schema, name: str) -> pa.DataType | None:
    """The type of the field; None if the schema lacks it."""
    if name in schema.names:
        return schema.field(name).type
    head, *inner = name.split(".")
    if head not in schema.names:
        return None
    kind = schema.field(head).type
    for part in inner:
        place = kind.get_field_index(part) if pa.types.is_struct(kind) else -1
        if place < 0:
            return None
        kind = kind.field(place).type
    return kind


def field_values(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The values of the field. A field of a null struct is null."""
    if name in batch.schema.names:
        return batch.column(name)
    head, *inner = name.split(".")
    return pc.struct_field(batch.column(head), inner)


def names_in(schema: pa.Schema, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the names that are columns of the schema or fields of its structs, in their order."""
    return tuple(name for name in names if field_type(schema, name) is not None)


def column_of_fields(name: str, kind: pa.DataType, values: Mapping[str, pa.Array], num_rows: int) -> pa.Array:
    """A column of this name and type. Its fields in `values` (names as in `field_values`, `num_rows` rows each) have
    these values, all others are null."""
    if name in values:
        return values[name].cast(kind)
    if not pa.types.is_struct(kind) or not any(other.startswith(f"{name}.") for other in values):
        return pa.nulls(num_rows, kind)
    parts = [column_of_fields(f"{name}.{part.name}", part.type, values, num_rows) for part in kind]
    return pa.StructArray.from_arrays(parts, fields=list(kind))
