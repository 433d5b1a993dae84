"""The schema of logged changes, flattened so that a plain decoder reads one side of records of one kind.

A logged change is a record of `op`, perhaps `record_key` and `ts_ms`, and perhaps the unions `before` and `after`
(Hudi `HoodieCDCUtils`). Which branches a record takes follows from its `op`, so records of one kind all have one flat
shape: a union's branch number is a long in front of the fields of its record. Pure.
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
"""What the fields beside the images are called in flat records: a table may have columns of their own names."""
KEY: Final = CONTROLS["record_key"]
MARKERS: Final = {"before": "_penstock_branch_before", "after": "_penstock_branch_after"}
"""Columns of branch numbers."""
SIDES: Final = {
    ChangeKind.INSERT: ("after",),
    ChangeKind.UPDATE: ("before", "after"),
    ChangeKind.DELETE: ("before",),
}
"""The sides that a change of a kind has."""


@dataclass(frozen=True, slots=True)
class LoggedSchema:
    """The schema of a block of logged changes."""

    fields: tuple[AvroField, ...]
    where: str

    @property
    def has_key(self) -> bool:
        """Whether the record key is logged."""
        return any(CONTROLS.get(field.name) == KEY for field in self.fields)

    def image(self, side: str) -> RecordType | None:
        """The type of the images of a side, `before` or `after`; None if they are not logged."""
        kind = next((field.type for field in self.fields if field.name == side), None)
        return kind if isinstance(kind, RecordType) else None

    def flat(self, kind: ChangeKind, side: str, names: ColumnMapping | None = None, *, physical: bool = False) -> Flat:
        """What records of this kind look like, with the columns of this side under their own names (those the table
        gives them, with `names`). `physical`: logical types are left out, so values are read as they are stored."""
        fresh = count()
        fields: list[dict[str, object]] = []
        renamed: list[AvroField | None] = []
        branches: dict[str, int] = {}
        for field in self.fields:
            if field.name not in MARKERS:
                fields.append({"name": CONTROLS[field.name], "type": _union(field, fresh, physical)})
                renamed.append(None)
                continue
            present = field.name in SIDES[kind]
            branches[MARKERS[field.name]] = 1 - field.null_branch if present else field.null_branch
            fields.append({"name": MARKERS[field.name], "type": "long"})
            renamed.append(None)
            for place, inner in enumerate(field.type.fields if present and isinstance(field.type, RecordType) else ()):
                wanted = field.name == side
                name = inner.name if wanted else f"_penstock_{field.name}_{place}"
                fields.append({"name": name, "type": _union(inner, fresh, physical)})
                renamed.append(names.in_table(inner) if wanted and names is not None else None)
        record = {"type": "record", "name": "change", "fields": fields}
        writer = parse_record_schema(json.dumps(record), self.where)
        own = tuple(
            replace(field, name=other.name) if other is not None else field
            for field, other in zip(writer.fields, renamed, strict=True)
        )
        return Flat(replace(writer, fields=own), branches)


@dataclass(frozen=True, slots=True)
class Flat:
    """A flat writer schema, and the branch number that each marker column must have."""

    writer: RecordSchema
    branches: dict[str, int]


def parse_logged_schema(schema_json: str, where: str) -> LoggedSchema:
    """The schema in a block's header. CorruptBlock, beginning with `where`, if it is none of logged changes."""
    fields = parse_record_schema(schema_json, where).fields
    known = {*CONTROLS, *MARKERS}
    odd = [field.name for field in fields if field.name not in known]
    if odd or not fields or fields[0].name != "op" or any(not field.nullable for field in fields):
        raise CorruptBlock(
            f"{where}: the schema of logged changes has the fields {', '.join(field.name for field in fields)[:300]}, "
            f"expected op, then some of {', '.join(sorted(known - {'op'}))}, each nullable"
        )
    if any(not isinstance(field.type, RecordType) for field in fields if field.name in MARKERS):
        raise CorruptBlock(f"{where}: logged images are no records")
    return LoggedSchema(fields, where)


def is_stored_alike(written: AvroField | None, wanted: AvroField) -> bool:
    """Whether the stored values of a logged column tell the table's without regard to logical types; of one that was
    not logged, whether it is null."""
    if written is None:
        return wanted.nullable and not wanted.has_default
    return _is_alike(written.type, wanted.type)


def _is_alike(written: AvroType, wanted: AvroType) -> bool:
    match written, wanted:
        case (ArrayType(inner), ArrayType(other)) | (MapType(inner), MapType(other)):
            return _is_alike(inner, other)
        case RecordType(fields), RecordType(wanted_fields):
            known = {field.name: field for field in fields}
            return all(is_stored_alike(known.get(field.name), field) for field in wanted_fields)
        case Primitive(kind, logical), Primitive(wanted_kind, wanted_logical):
            return kind == wanted_kind or not (logical or wanted_logical)
    return written == wanted


def physical_record(record: Iterable[AvroField], where: str) -> RecordSchema:
    """The record of these fields, without logical types."""
    fresh = count()
    fields = [{"name": field.name, "type": _union(field, fresh, True)} for field in record]
    return parse_record_schema(json.dumps({"type": "record", "name": "image", "fields": fields}), where)


def _union(field: AvroField, fresh: count[int], physical: bool) -> object:
    return _nullable(_node(field.type, fresh, physical), field.null_branch)


def _nullable(node: object, null_branch: int) -> object:
    if null_branch < 0:
        return node
    return ["null", node] if null_branch == 0 else [node, "null"]


def _node(kind: AvroType, fresh: count[int], physical: bool) -> object:
    """A type as Avro JSON, each named type with a name of its own."""
    match kind:
        case Primitive(name, logical):
            return {"type": name, "logicalType": logical} if logical and not physical else name
        case Decimal(precision, scale, size):
            stored: dict[str, object] = (
                {"type": "bytes"} if size is None else {"type": "fixed", "name": f"n{next(fresh)}", "size": size}
            )
            logical_parts = {} if physical else {"logicalType": "decimal", "precision": precision, "scale": scale}
            return {**stored, **logical_parts}
        case Fixed(size):
            return {"type": "fixed", "name": f"n{next(fresh)}", "size": size}
        case Vector(dimension, element) as vector:
            parts = {} if physical else {"logicalType": "vector", "dimension": dimension, "elementType": element}
            return {"type": "fixed", "name": f"n{next(fresh)}", "size": vector.size, **parts}
        case EnumType(symbols):
            return {"type": "enum", "name": f"n{next(fresh)}", "symbols": list(symbols)}
        case ArrayType(items, null_branch):
            return {"type": "array", "items": _nullable(_node(items, fresh, physical), null_branch)}
        case MapType(values, null_branch):
            return {"type": "map", "values": _nullable(_node(values, fresh, physical), null_branch)}
        case RecordType(fields):
            inner = [{"name": field.name, "type": _union(field, fresh, physical)} for field in fields]
            return {"type": "record", "name": f"n{next(fresh)}", "fields": inner}
