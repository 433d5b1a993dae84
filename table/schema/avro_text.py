"""The Avro schema of a table that Penstock writes, from its Arrow schema. Pure.

Source: Hudi `AvroConversionUtils.getAvroRecordNameAndNamespace`, `HoodieAvroUtils.sanitizeName`, Spark
`SchemaConverters`. `avro` and `arrow` map in the other direction.
"""

from __future__ import annotations

import json
import re
from typing import Final

import pyarrow as pa

from penstock.proto.errors import SchemaMismatch
from penstock.table.schema.avro import MAX_DEPTH, META_COLUMNS

_PLAIN: Final[tuple[tuple[pa.DataType, object], ...]] = (
    (pa.bool_(), "boolean"),
    (pa.int32(), "int"),
    (pa.int64(), "long"),
    (pa.float32(), "float"),
    (pa.float64(), "double"),
    (pa.string(), "string"),
    (pa.binary(), "bytes"),
    (pa.date32(), {"type": "int", "logicalType": "date"}),
    (pa.timestamp("us", "UTC"), {"type": "long", "logicalType": "timestamp-micros"}),
    (pa.timestamp("us"), {"type": "long", "logicalType": "local-timestamp-micros"}),
)
"""Stored Arrow types and their Avro types."""
_NO_NAME_PART = re.compile(r"[^A-Za-z0-9_]")
_MAX_PRECISION: Final = 38


def avro_schema_json(schema: pa.Schema, table_name: str, *, meta_columns: bool) -> str:
    """The Avro JSON of the schema, with Hudi's five meta columns first if `meta_columns`.

    Each column and nested value may be null. `arrow_schema` of the result, without meta columns, is
    `stored_arrow_schema(schema)`. SchemaMismatch, with the column, for a type, a name or a column that no Hudi table
    can have.
    """
    stored = stored_arrow_schema(schema)
    name = _name_part(table_name)
    record = f"{name}_record"
    fields: list[object] = []
    if meta_columns:
        fields += [{"name": column, "type": ["null", "string"], "doc": "", "default": None} for column in META_COLUMNS]
    fields += [_field(column, f"hoodie.{name}.{record}") for column in stored]
    text = {"type": "record", "name": record, "namespace": f"hoodie.{name}", "fields": fields}
    return json.dumps(text, separators=(",", ":"), ensure_ascii=False)


def stored_arrow_schema(schema: pa.Schema) -> pa.Schema:
    """The schema as files of the table store it: each column nullable, without metadata, in the same order.

    Integers of up to 32 bits become int32, other integers int64, half floats float32; times of day are refused, as no
    query of Spark reads them. Timestamps have microseconds, in UTC or without a zone: a value with nanoseconds does not
    fit, which the cast of the values must check. Decimals become decimal128; strings, binaries and lists of each layout
    the plain ones; a dictionary has the type of its values. SchemaMismatch as `avro_schema_json`.
    """
    _check_names([field.name for field in schema], "")
    if reserved := sorted(set(META_COLUMNS) & set(schema.names)):
        raise SchemaMismatch(f"column {reserved[0]} is one of Hudi's own: expected the data's columns only")
    if not len(schema):
        raise SchemaMismatch("a schema without columns: no Hudi table has one")
    return pa.schema([pa.field(field.name, _stored(field.type, field.name, 1)) for field in schema])


def _stored(kind: pa.DataType, path: str, depth: int) -> pa.DataType:
    """The stored type at `path`."""
    types = pa.types
    if depth > MAX_DEPTH // 2:  # each level of Arrow is at most two of Avro
        raise SchemaMismatch(f"column {path[:400]}: it nests too deeply, at most {MAX_DEPTH // 2} levels are written")
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _stored(kind.value_type, path, depth)
    if types.is_struct(kind):
        _check_names([field.name for field in kind], path)
        if not kind.num_fields:
            raise _refused(path, kind, "a struct without fields")
        return pa.struct(
            [pa.field(field.name, _stored(field.type, f"{path}.{field.name}", depth + 1)) for field in kind]
        )
    if types.is_map(kind):
        if _stored(kind.key_type, f"{path}.key", depth + 1) != pa.string():
            raise _refused(path, kind, "a map with keys other than strings")
        return pa.map_(pa.string(), _stored(kind.item_type, f"{path}.value", depth + 1))
    if _is_list(kind):
        return pa.list_(pa.field("element", _stored(kind.value_type, f"{path}.element", depth + 1)))
    return _stored_scalar(kind, path)


def _stored_scalar(kind: pa.DataType, path: str) -> pa.DataType:
    types = pa.types
    if types.is_boolean(kind) or types.is_float32(kind) or types.is_float64(kind):
        return kind
    if types.is_float16(kind):
        return pa.float32()
    if types.is_uint64(kind):
        raise _refused(path, kind, "unsigned integers of 64 bits: cast it to int64 or decimal128(20, 0)")
    if types.is_integer(kind):
        fits_32_bits = kind.bit_width < 32 or types.is_int32(kind)
        return pa.int32() if fits_32_bits else pa.int64()
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_fixed_size_binary(kind) and not types.is_decimal(kind):
        return pa.binary()
    if types.is_date(kind):
        return pa.date32()
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if types.is_decimal(kind):
        if kind.precision > _MAX_PRECISION or not 0 <= kind.scale <= kind.precision:
            raise _refused(path, kind, f"decimals beyond {_MAX_PRECISION} digits, or with a scale outside of them")
        return pa.decimal128(kind.precision, kind.scale)
    raise _refused(path, kind, "this type")


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    return any(test(kind) for test in tests)


def _refused(path: str, kind: pa.DataType, what: str) -> SchemaMismatch:
    return SchemaMismatch(f"column {path[:400]}: got {str(kind)[:200]}, and no Hudi table holds {what}")


def _check_names(names: list[str], path: str) -> None:
    """Refuses names that Avro's Java library refuses, and names that Spark cannot distinguish."""
    for place, name in enumerate(names):
        within = f" of column {path[:400]}" if path else ""
        if not _is_avro_name(name):
            raise SchemaMismatch(
                f"field {name[:200]!r}{within}: expected letters, digits and _, and no digit first, as Avro requires; "
                "rename it"
            )
        other = next((known for known in names[:place] if known.lower() == name.lower()), None)
        if other is not None:
            raise SchemaMismatch(
                f"fields {other[:200]!r} and {name[:200]!r}{within}: expected names that differ in more than case"
            )


def _is_avro_name(name: str) -> bool:
    """Avro `Schema.validateName`: letters of each alphabet, among UTF-16 units."""
    return (
        bool(name)
        and not name[0].isdecimal()
        and all(char == "_" or ((char.isalpha() or char.isdecimal()) and char <= "\uffff") for char in name)
    )


def _name_part(table_name: str) -> str:
    """The table's name as a part of Avro names."""
    first = _NO_NAME_PART.sub("__", table_name[:1])
    if first.isdecimal():
        first = "__"
    return first + _NO_NAME_PART.sub("__", table_name[1:])


def _field(field: pa.Field, namespace: str) -> dict[str, object]:
    return {"name": field.name, "type": ["null", _avro(field.type, field.name, namespace)], "default": None}


def _avro(kind: pa.DataType, name: str, namespace: str) -> object:
    """The Avro type of a stored Arrow type. Records and decimals have names that are unique, by the path of columns."""
    if pa.types.is_struct(kind):
        within = f"{namespace}.{name}"
        return {
            "type": "record",
            "name": name,
            "namespace": namespace,
            "fields": [_field(field, within) for field in kind],
        }
    if pa.types.is_map(kind):
        return {"type": "map", "values": ["null", _avro(kind.item_type, name, namespace)]}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _avro(kind.value_type, name, namespace)]}
    if pa.types.is_decimal(kind):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}",
            "size": decimal_bytes(kind.precision),
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    return next(avro for stored, avro in _PLAIN if stored == kind)


def decimal_bytes(precision: int) -> int:
    """The smallest number of bytes for the two's complement of each unscaled value of `precision` digits."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8
