"""The schema of logged changes, flattened so that a plain decoder reads one side of records of one kind. Pure.

A logged change is a record of `op`, optionally `record_key` and `ts_ms`, and optionally the unions `before` and `after`
(Hudi `HoodieCDCUtils`). `op` determines the branches of a record's unions, so records of one kind have one flat layout:
a union's branch number is a long before the fields of its record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from penstock.proto.errors import CorruptBlock
from penstock.reader.cdc.images import ChangeKind
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
    Vector,
    parse_record_schema,
)
from penstock.table.schema.history import ColumnMapping

CONTROLS: Final = {name: f"_penstock_{name}" for name in ("op", "ts_ms", "record_key")}
"""The names of the other fields in flat records. They are prefixed because a table may have columns with these names.
"""
KEY: Final = CONTROLS["record_key"]
MARKERS: Final = {"before": "_penstock_branch_before", "after": "_penstock_branch_after"}
"""Columns of branch numbers."""
SIDES: Final = {
    ChangeKind.INSERT: ("after",),
    ChangeKind.UPDATE: ("before", "after"),
    ChangeKind.DELETE: ("before",),
}
"""The sides of each kind of change."""


@dataclass(frozen=True, slots=True)
class LoggedSchema:
    """The schema of a block of logged changes."""

    fields: tuple[AvroField, ...]
    """The fields of a logged change."""
    where: str
    """The beginning of error texts."""

    @property
    def has_key(self) -> bool:
        """Whether the record key is logged."""
        return any(CONTROLS.get(field.name) == KEY for field in self.fields)

    def image(self, side: str) -> RecordType | None:
        """The type of the images of a side, `before` or `after`; None if they are not logged."""
        kind = next((field.type for field in self.fields if field.name == side), None)
        return kind if isinstance(kind, RecordType) else None

    def flat(self, kind: ChangeKind, side: str, names: ColumnMapping | None = None, *, physical: bool = False) -> Flat:
        """The flat layout of records of this kind, with the columns of this side under their own names (with `names`,
        under the table's names). `physical`: logical types are left out, so that values are read as stored."""
        numbers = count()
        fields: list[dict[str, object]] = []
        renamed: list[AvroField | None] = []
        branches: dict[str, int] = {}
        for field in self.fields:
            if field.name not in MARKERS:
                fields.append({"name": CONTROLS[field.name], "type": _union(field, numbers, physical)})
                renamed.append(None)
                continue
            present = field.name in SIDES[kind]
            branches[MARKERS[field.name]] = 1 - field.null_branch if present else field.null_branch
            fields.append({"name": MARKERS[field.name], "type": "long"})
            renamed.append(None)
            for place, inner in enumerate(field.type.fields if present and isinstance(field.type, RecordType) else ()):
                column = field.name == side
                name = inner.name if column else f"_penstock_{field.name}_{place}"
                fields.append({"name": name, "type": _union(inner, numbers, physical)})
                renamed.append(names.in_table(inner) if column and names is not None else None)
        record = {"type": "record", "name": "change", "fields": fields}
        writer = parse_record_schema(json.dumps(record), self.where)
        own = tuple(
            replace(field, name=other.name) if other is not None else field
            for field, other in zip(writer.fields, renamed, strict=True)
        )
        return Flat(replace(writer, fields=own), branches)


@dataclass(frozen=True, slots=True)
class Flat:
    """A flat layout."""

    writer: RecordSchema
    """The flat writer schema."""
    branches: dict[str, int]
    """The branch number that each marker column must have."""


def parse_logged_schema(schema_json: str, where: str) -> LoggedSchema:
    """The schema in a block's header. CorruptBlock, beginning with `where`, if it is not one of logged changes."""
    fields = parse_record_schema(schema_json, where).fields
    known = {*CONTROLS, *MARKERS}
    unknown = [field.name for field in fields if field.name not in known]
    if unknown or not fields or fields[0].name != "op" or any(not field.nullable for field in fields):
        raise CorruptBlock(
            f"{where}: the schema of logged changes has the fields {', '.join(field.name for field in fields)[:300]}, "
            f"expected op, then some of {', '.join(sorted(known - {'op'}))}, each nullable"
        )
    if any(not isinstance(field.type, RecordType) for field in fields if field.name in MARKERS):
        raise CorruptBlock(f"{where}: logged images are not records")
    return LoggedSchema(fields, where)


def is_stored_alike(written: AvroField | None, column: AvroField) -> bool:
    """Whether a logged column's stored values equal the table's regardless of logical types. For a column that was not
    logged: whether it is null."""
    if written is None:
        return column.nullable and not column.has_default
    return _is_alike(written.type, column.type)


def _is_alike(written: AvroType, column: AvroType) -> bool:
    match written, column:
        case (ArrayType(inner), ArrayType(other)) | (MapType(inner), MapType(other)):
            return _is_alike(inner, other)
        case RecordType(fields), RecordType(table_fields):
            known = {field.name: field for field in fields}
            return all(is_stored_alike(known.get(field.name), field) for field in table_fields)
        case Primitive(kind, logical), Primitive(table_kind, table_logical):
            return kind == table_kind or not (logical or table_logical)
    return written == column


def physical_record(record: Iterable[AvroField], where: str) -> RecordSchema:
    """The record of these fields, without logical types."""
    numbers = count()
    fields = [{"name": field.name, "type": _union(field, numbers, True)} for field in record]
    return parse_record_schema(json.dumps({"type": "record", "name": "image", "fields": fields}), where)


def _union(field: AvroField, numbers: count[int], physical: bool) -> object:
    return _nullable(_node(field.type, numbers, physical), field.null_branch)


def _nullable(node: object, null_branch: int) -> object:
    if null_branch < 0:
        return node
    return ["null", node] if null_branch == 0 else [node, "null"]


def _node(kind: AvroType, numbers: count[int], physical: bool) -> object:
    """A type as Avro JSON; each named type gets a unique name."""
    match kind:
        case Primitive(name, logical):
            return {"type": name, "logicalType": logical} if logical and not physical else name
        case Decimal(precision, scale, size):
            stored: dict[str, object] = (
                {"type": "bytes"} if size is None else {"type": "fixed", "name": f"n{next(numbers)}", "size": size}
            )
            logical_parts = {} if physical else {"logicalType": "decimal", "precision": precision, "scale": scale}
            return {**stored, **logical_parts}
        case Fixed(size):
            return {"type": "fixed", "name": f"n{next(numbers)}", "size": size}
        case Vector(dimension, element) as vector:
            parts = {} if physical else {"logicalType": "vector", "dimension": dimension, "elementType": element}
            return {"type": "fixed", "name": f"n{next(numbers)}", "size": vector.size, **parts}
        case EnumType(symbols):
            return {"type": "enum", "name": f"n{next(numbers)}", "symbols": list(symbols)}
        case ArrayType(items, null_branch):
            return {"type": "array", "items": _nullable(_node(items, numbers, physical), null_branch)}
        case MapType(values, null_branch):
            return {"type": "map", "values": _nullable(_node(values, numbers, physical), null_branch)}
        case RecordType(fields):
            inner = [{"name": field.name, "type": _union(field, numbers, physical)} for field in fields]
            return {"type": "record", "name": f"n{next(numbers)}", "fields": inner}
