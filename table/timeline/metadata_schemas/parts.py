"""The parts that Hudi's Avro schemas consist of. Pure."""

from __future__ import annotations

from typing import Final, TypeAlias

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
