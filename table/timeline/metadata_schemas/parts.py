"""The parts that Hudi's Avro schemas consist of. Pure."""

from __future__ import annotations

from typing import Final, TypeAlias, cast

Node: TypeAlias = str | dict[str, object] | list[object]

NAMESPACE: Final = "org.apache.hudi.avro.model"

TEXT: Final[Node] = {"type": "string", "avro.java.string": "String"}
"""A string, with the hint of Avro's Java classes."""

VERSION: Final[dict[str, object]] = {"name": "version", "type": ["int", "null"], "default": 1}
"""The field with the version of a record's schema."""


def array(items: Node, **attributes: object) -> dict[str, object]:
    """An array."""
    return {"type": "array", "items": items, **attributes}


def text_map(values: Node, **attributes: object) -> dict[str, object]:
    """A map with string keys."""
    return {"type": "map", "values": values, "avro.java.string": "String", **attributes}


def record(name: str, fields: list[object]) -> dict[str, object]:
    """A nested record."""
    return {"type": "record", "name": name, "fields": fields}


def top_level(name: str, fields: list[object]) -> dict[str, object]:
    """The record of a file."""
    return {"type": "record", "name": name, "namespace": NAMESPACE, "fields": fields}


def field(name: str, kind: Node) -> dict[str, object]:
    """A required field."""
    return {"name": name, "type": kind}


def optional(name: str, kind: Node, **attributes: object) -> dict[str, object]:
    """A field that may be null, with null as the default."""
    return {"name": name, "type": ["null", kind], **attributes, "default": None}


def with_references(schema: dict[str, object]) -> dict[str, object]:
    """The schema of a file with each named record defined at its first place, and referred to by its name at others."""
    return {**cast(dict[str, object], _referring(schema, set())), "namespace": NAMESPACE}


def _referring(node: Node, defined: set[object]) -> Node:
    if isinstance(node, list):
        return [_referring(cast(Node, item), defined) for item in node]
    if isinstance(node, str):
        return node
    match node.get("type"):
        case "record":
            if node["name"] in defined:
                return str(node["name"])
            defined.add(node["name"])
            fields = cast(list[dict[str, object]], node["fields"])
            parts = [{**field, "type": _referring(cast(Node, field["type"]), defined)} for field in fields]
            return {**{key: value for key, value in node.items() if key != "namespace"}, "fields": parts}
        case "array":
            return {**node, "items": _referring(cast(Node, node["items"]), defined)}
        case "map":
            return {**node, "values": _referring(cast(Node, node["values"]), defined)}
    return node
