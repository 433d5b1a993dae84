"""Columns without nulls are `required` in the files of a table, as Hudi writes them.

Hudi 0.15.0 reads Parquet blocks of logs, and base files that it clusters, by the table's Avro schema: it refuses a file
whose column is optional where the schema has no null (`HoodieAvroParquetReader`). Later releases read both. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.schema.arrow import arrow_type
from penstock.table.schema.avro import ArrayType, AvroField, AvroType, MapType, RecordSchema, RecordType


def file_schema(record: RecordSchema, *replaced: pa.Schema) -> pa.Schema:
    """The Arrow schema of a file's columns: nullable where the Avro schema has a null.

    replaced: the columns of the files whose rows the new one keeps, by the table's names. What is nullable there, or
    missing, stays nullable.
    """
    fields = [_field(field.name, field) for field in record.fields]
    for schema in replaced:
        old = {field.name: field for field in schema}
        fields = [_loosened(one, old.get(one.name)) for one in fields]
    return pa.schema(fields)


def with_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same values as columns of a schema that differs in what is nullable only. No value is copied or checked.

    Required fields of null structs have no nulls of their own in the result, because PyArrow does not write those.
    """
    rows = rows if rows.schema == schema else pa.record_batch(_Relabelled(rows, schema))
    return pa.record_batch([_without_hidden_nulls(column) for column in rows.columns], schema=schema)


@dataclass(frozen=True, slots=True, eq=False)
class _Relabelled:
    rows: pa.RecordBatch
    schema: pa.Schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.schema.__arrow_c_schema__(), self.rows.__arrow_c_array__()[1]


def _without_hidden_nulls(values: pa.Array, parents: pa.BooleanArray | None = None) -> pa.Array:
    """The same values, without nulls in a required field where its struct, or one around it, is null. `parents`: where
    those around `values` are not null."""
    kind = values.type
    if pa.types.is_struct(kind):
        shown = values.is_valid() if parents is None else pc.and_(values.is_valid(), parents)
        fields = [_without_hidden_nulls(values.field(place), shown) for place in range(kind.num_fields)]
        for place, field in enumerate(kind):
            is_null = fields[place].is_null()
            if not field.nullable and fields[place].null_count and not pc.any(pc.and_(is_null, shown)).as_py():
                fields[place] = _without_nulls(fields[place])
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=mask)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        items = [_without_hidden_nulls(values.values)]
        return pa.Array.from_buffers(kind, len(values), values.buffers()[:2], values.null_count, values.offset, items)
    return values


def _without_nulls(values: pa.Array) -> pa.Array:
    """The values with some value in place of each null."""
    kind, buffers = values.type, values.buffers()
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([values.field(n) for n in range(kind.num_fields)], fields=list(kind))
    is_list = pa.types.is_list(kind) or pa.types.is_map(kind)
    own, items = (buffers[1:2], [values.values]) if is_list else (buffers[1:], None)
    return pa.Array.from_buffers(kind, len(values), [None, *own], 0, values.offset, items)


def _field(name: str, field: AvroField) -> pa.Field:
    return pa.field(name, _type(field.type), nullable=field.nullable)


def _type(kind: AvroType) -> pa.DataType:
    match kind:
        case ArrayType(items, null_branch):
            return pa.list_(pa.field("element", _type(items), nullable=null_branch >= 0))
        case MapType(values, null_branch):
            return pa.map_(pa.string(), pa.field("value", _type(values), nullable=null_branch >= 0))
        case RecordType(fields):
            return pa.struct([_field(field.name, field) for field in fields])
    return arrow_type(kind)


def _loosened(field: pa.Field, old: pa.Field | None) -> pa.Field:
    """The field, nullable where `old` is or lacks it."""
    nullable = field.nullable or old is None or old.nullable
    return pa.field(field.name, _loosened_type(field.type, None if old is None else old.type), nullable=nullable)


def _loosened_type(kind: pa.DataType, old: pa.DataType | None) -> pa.DataType:
    types = pa.types
    if types.is_struct(kind):
        by_name = {field.name: field for field in old} if old is not None and types.is_struct(old) else {}
        return pa.struct([_loosened(field, by_name.get(field.name)) for field in kind])
    if types.is_list(kind):
        inner = old.value_field if old is not None and types.is_list(old) else None
        return pa.list_(_loosened(kind.value_field, inner))
    if types.is_map(kind):
        inner = old.item_field if old is not None and types.is_map(old) else None
        return pa.map_(kind.key_type, _loosened(kind.item_field, inner))
    return kind
