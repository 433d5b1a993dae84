"""Decodes Avro records of any schema by fastavro: slower than the kernel, with the same results, for nested columns.

fastavro only gets the physical layout: longs, bytes, fixed, arrays, records, unions with null. The meaning of the bytes
(text, times, decimals, booleans, enums, maps) is decoded by `arrays`, as for the kernel; fastavro's own conversions,
names and leniencies are not used.

Memory is bounded by the bytes: a record with one field is replaced by that field (its bytes are the same), so that a
chain of records around one byte makes no object per level; fixed-size values are decoded as bytes, whose nulls take no
memory.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import fastavro
import numpy as np
import pyarrow as pa

from penstock.proto.value_classes import dataclass
from penstock.reader.avro.arrays import BadRecord, BadValue, booleans, decimals, floats, integers, symbols, texts
from penstock.table.arrow_arrays import arrow_array
from penstock.table.schema.arrow import arrow_type
from penstock.table.schema.avro import (
    ArrayType,
    AvroField,
    AvroType,
    Decimal,
    EnumType,
    Fixed,
    MapType,
    Primitive,
    RecordSchema,
    RecordType,
)

_DAMAGE: Final = (EOFError, LookupError, ValueError, TypeError, OverflowError, MemoryError)
"""The exceptions that fastavro raises for bytes that are not a record."""

_SIZES: Final = {"boolean": 1, "float": 4, "double": 8}


class FallbackReader:
    """Reads columns of any type. Immutable."""

    def __init__(self, writer: RecordSchema, columns: Sequence[tuple[str, AvroType]]) -> None:
        """columns: name (one of the writer's), and the table's type, `compatible` with the writer's."""
        places = {field.name: place for place, field in enumerate(writer.fields)}
        self._schema = fastavro.parse_schema(_Physical().record(writer.fields))
        self._columns = [(f"f{places[name]}", writer.fields[places[name]], type_) for name, type_ in columns]

    def read(self, data: np.ndarray, begin: np.ndarray, end: np.ndarray, *, canonical: bool = False) -> list[pa.Array]:
        """The columns, in order. BadRecord or BadValue for data that does not fit the schema; with `canonical` also for
        a record that fastavro writes with other bytes."""
        view = data.data
        rows = [
            self._record(view[first:last], row, canonical=canonical)
            for row, (first, last) in enumerate(zip(begin.tolist(), end.tolist(), strict=True))
        ]
        arrays = []
        for key, written, type_ in self._columns:
            raw = arrow_array([row[key] for row in rows], _physical_arrow(written.type, written.nullable))
            try:
                arrays.append(_logical(raw, written.type, type_, written.nullable))
            except BadValue as bad_value:
                raise BadValue(f"column {written.name}: {bad_value}") from None
        return arrays

    def _record(self, body: memoryview, row: int, *, canonical: bool) -> dict[str, object]:
        stream = io.BytesIO(body)
        try:
            record = fastavro.schemaless_reader(stream, self._schema, None)
        except _DAMAGE as error:
            raise BadRecord(row, f"does not fit its schema ({type(error).__name__}: {error})") from None
        if stream.tell() != len(body):
            raise BadRecord(row, f"{len(body) - stream.tell()} bytes after its last field")
        if not isinstance(record, dict):
            raise BadRecord(row, "is not a record")
        if canonical and not self._writes(record, body):
            raise BadRecord(row, "is not written as fastavro writes it")
        return record

    def _writes(self, record: dict[str, object], body: memoryview) -> bool:
        """Whether fastavro writes the record with these bytes."""
        stream = io.BytesIO()
        try:
            fastavro.schemaless_writer(stream, self._schema, record)
        except _DAMAGE:
            return False
        return stream.getbuffer() == body


@dataclass(slots=True)
class _Physical:
    """Writes a schema for fastavro: named types are numbered, logical types left out."""

    records: int = 0
    fixed: set[int] | None = None

    def record(self, fields: tuple[AvroField, ...]) -> dict[str, object]:
        self.records += 1
        name = f"r{self.records}"
        parts = [
            {"name": f"f{place}", "type": self._slot(field.type, field.null_branch)}
            for place, field in enumerate(fields)
        ]
        return {"type": "record", "name": name, "fields": parts}

    def _slot(self, type_: AvroType, null_branch: int) -> object:
        only = _only_field(type_, null_branch >= 0)
        if only is not None:
            return self._slot(only.type, null_branch if null_branch >= 0 else only.null_branch)
        if null_branch < 0:
            return self._type(type_)
        return ["null", self._type(type_)] if null_branch == 0 else [self._type(type_), "null"]

    def _type(self, type_: AvroType) -> object:
        match type_:
            case Primitive("boolean" | "float" | "double" as kind):
                return self._fixed(_SIZES[kind])
            case Primitive("bytes" | "string") | Decimal(_, _, None):
                return "bytes"
            case Primitive() | EnumType():
                return "long"
            case Decimal(_, _, int(size)) | Fixed(size):
                return self._fixed(size)
            case ArrayType(items, null_branch):
                return {"type": "array", "items": self._slot(items, null_branch)}
            case MapType():
                return {"type": "array", "items": self.record(_entry(type_))}
            case RecordType(fields):
                return self.record(fields)
        raise TypeError(f"not an Avro type: {type_}")

    def _fixed(self, size: int) -> object:
        self.fixed = self.fixed or set()
        name = f"b{size}"
        if size in self.fixed:
            return name
        self.fixed.add(size)
        return {"type": "fixed", "name": name, "size": size}


def _entry(type_: MapType) -> tuple[AvroField, ...]:
    """A map is an array of (string key, value) on the wire."""
    nullable = type_.null_branch >= 0
    return (AvroField("key", Primitive("bytes")), AvroField("value", type_.values, nullable, type_.null_branch))


def _only_field(type_: AvroType, nullable: bool) -> AvroField | None:
    """The only field of a record, which replaces the record; else None. Also None if both are nullable, because a union
    cannot contain a union."""
    if not isinstance(type_, RecordType) or len(type_.fields) != 1 or (nullable and type_.fields[0].nullable):
        return None
    return type_.fields[0]


def _physical_arrow(type_: AvroType, nullable: bool) -> pa.DataType:
    only = _only_field(type_, nullable)
    if only is not None:
        return _physical_arrow(only.type, nullable or only.nullable)
    match type_:
        case Primitive("boolean" | "float" | "double" as kind):
            return pa.binary(_SIZES[kind])
        case Primitive("bytes" | "string") | Decimal() | Fixed():
            return pa.binary()
        case Primitive() | EnumType():
            return pa.int64()
        case ArrayType(items, null_branch):
            return pa.list_(_physical_arrow(items, null_branch >= 0))
        case MapType():
            return pa.list_(_physical_arrow(RecordType(_entry(type_)), False))
        case RecordType(fields):
            inner = [_physical_arrow(field.type, field.nullable) for field in fields]
            return pa.struct([(f"f{place}", kind) for place, kind in enumerate(inner)])


def _logical(array: pa.Array, written: AvroType, reader_type: AvroType, nullable: bool) -> pa.Array:
    """Physical values, freshly built (offset 0), as the Arrow form of `reader_type`. `nullable`: whether `written` is
    nullable."""
    rows, buffers, target = len(array), array.buffers(), arrow_type(reader_type)
    validity = buffers[0] if array.null_count else None
    match written, reader_type:
        case ArrayType(items, null_branch), ArrayType(target_items):
            child = _logical(array.values, items, target_items, null_branch >= 0)
            return pa.Array.from_buffers(target, rows, [validity, buffers[1]], children=[child])
        case MapType(), MapType(target_values):
            raw_keys, raw_values = array.values.flatten()
            keys = _logical(raw_keys, Primitive("string"), Primitive("string"), False)
            values = _logical(raw_values, written.values, target_values, written.null_branch >= 0)
            entries = pa.StructArray.from_arrays([keys, values], fields=[target.key_field, target.item_field])
            return pa.Array.from_buffers(target, rows, [validity, buffers[1]], children=[entries])
        case RecordType(fields), RecordType(target_fields):
            only = _only_field(written, nullable)
            stored = array.flatten() if only is None else [array]
            parts = {field.name: (field, part) for field, part in zip(fields, stored, strict=True)}
            if only is not None and not nullable:  # a null is that of a field at some depth below
                validity = None
            nullable = nullable and only is not None  # then a null of the record is one of its field
            children = [
                _logical(
                    parts[field.name][1],
                    parts[field.name][0].type,
                    field.type,
                    nullable or parts[field.name][0].nullable,
                )
                if field.name in parts
                else pa.nulls(rows, arrow_type(field.type))
                for field in target_fields
            ]
            return pa.Array.from_buffers(target, rows, [validity], children=children)
        case _:
            return _leaf(array, written, target, validity)


def _leaf(array: pa.Array, written: AvroType, target: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
    rows, buffers = len(array), array.buffers()
    if rows == 0:
        return arrow_array([], target)
    match written:
        case Primitive("boolean"):
            return booleans(np.frombuffer(buffers[1], np.uint8)[:rows], validity)
        case Primitive("float" | "double"):
            return floats(buffers[1], rows, validity, target)
        case Primitive("bytes" | "string"):
            return texts(buffers[1], buffers[2] or pa.py_buffer(b""), rows, validity, target)
        case Primitive():
            return integers(np.frombuffer(buffers[1], np.int64)[:rows], validity, written, target)
        case EnumType(names):
            return symbols(np.frombuffer(buffers[1], np.int64)[:rows], validity, names)
        case Fixed():
            return array.cast(target)
        case Decimal():
            return decimals(_halves(array), validity, target)
    raise TypeError(f"{written} is no leaf")


def _halves(array: pa.Array) -> np.ndarray:
    """Big-endian two's complement bytes as int64[rows, 2]: low and high half."""
    values = array.to_pylist()
    if b"" in values:
        raise BadValue("a decimal without bytes")
    try:
        numbers = [0 if value is None else int.from_bytes(value, "big", signed=True) for value in values]
        packed = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    except OverflowError:
        raise BadValue("a decimal beyond 128 bits") from None
    return np.frombuffer(packed, np.int64).reshape(-1, 2)
