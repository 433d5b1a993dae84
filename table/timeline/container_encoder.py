"""Encodes Avro records of the timeline: files with one record, and values in the form of a schema. Pure."""

from __future__ import annotations

import copy
import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any, Final

import fastavro

from penstock.proto.errors import CorruptFile
from penstock.table.timeline.metadata_schemas.parts import Node

_INTEGERS: Final = {"int": 2**31, "long": 2**63}


def encode_container(schema: Mapping[str, Any], record: Mapping[str, object]) -> bytes:
    """The bytes of a file with one uncompressed record: the inverse of `avro_container.single_record`.

    The same arguments give the same bytes: the sync marker is a hash of schema and record. ValueError for a record
    that lacks a field of the schema, or has one that the schema lacks.
    """
    parsed = fastavro.parse_schema(copy.deepcopy(dict(schema)))  # parsing changes its argument
    datum = io.BytesIO()
    fastavro.schemaless_writer(datum, parsed, record, strict=True)
    marker = hashlib.sha256(json.dumps(schema).encode() + datum.getvalue()).digest()[:16]
    file = io.BytesIO()
    fastavro.writer(file, parsed, [record], codec="null", sync_marker=marker)
    return file.getvalue()


def fitted(value: object, schema: Node, where: str) -> Any:
    """A decoded value, of JSON or of another version of the schema, in the form of this schema.

    Fields that the schema lacks are left out. Fields that the value lacks have their defaults; so have nulls where the
    schema has none. CorruptFile, beginning with `where`, for a value of another type, or without a required field.
    """
    named: dict[str, dict[str, Any]] = {}
    _define(schema, named)
    return _fitted(value, schema, named, where)


def _fitted(value: object, node: Node, named: dict[str, dict[str, Any]], where: str) -> Any:
    if isinstance(node, list):
        branches: Any = [branch for branch in node if branch != "null"]
        if value is None and len(branches) < len(node):
            return None
        return _fitted(value, branches[0], named, where)
    kind: Any = named.get(node, {"type": node}) if isinstance(node, str) else node
    match kind["type"]:
        case "record" if isinstance(value, Mapping):
            return {field["name"]: _field(value, field, named, where) for field in kind["fields"]}
        case "array" if isinstance(value, list):
            return [_fitted(item, kind["items"], named, where) for item in value]
        case "map" if isinstance(value, Mapping):
            present = {key: item for key, item in value.items() if item is not None and isinstance(key, str)}
            return {key: _fitted(item, kind["values"], named, f"{where}.{key[:100]}") for key, item in present.items()}
        case "string" if isinstance(value, str):
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "double" if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case "int" | "long" as name if isinstance(value, int) and not isinstance(value, bool):
            if -_INTEGERS[name] <= value < _INTEGERS[name]:
                return value
    raise CorruptFile(f"{where}: got {str(value)[:80]!r}, expected a value of type {kind['type']}")


def _field(
    value: Mapping[object, object], field: Mapping[str, Any], named: dict[str, dict[str, Any]], where: str
) -> Any:
    item = value.get(field["name"])
    if item is None and field.get("default") is not None:
        item = field["default"]
    return _fitted(item, field["type"], named, f"{where}, field {field['name']}")


def _define(node: object, named: dict[str, dict[str, Any]]) -> None:
    """Collects the records that a part of a schema defines: other parts refer to them by name."""
    if not isinstance(node, dict):
        for item in node if isinstance(node, list) else ():
            _define(item, named)
        return
    if node.get("type") == "record":
        named[node["name"]] = node
        for field in node["fields"]:
            _define(field["type"], named)
    for part in ("items", "values"):
        _define(node.get(part), named)
