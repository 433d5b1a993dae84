"""Connect's types, with Debezium's names for them, as Avro types of columns. Pure.

Both forms of an event's schema, Connect's JSON and the registry's Avro, become `ConnectType`, so that a column has the
same type whatever the form. Source: Debezium's documentation of its connectors ("data type mappings"), and Confluent's
`AvroData`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.proto.errors import ConfigurationError, SchemaMismatch

ZONED: Final = "io.debezium.time.ZonedTimestamp"
"""Text with a zone, which becomes a timestamp in UTC."""
DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
CONNECT_NAME: Final = "connect.name"
"""The attribute of a column's field in an Avro schema that has Connect's name of its type."""
MAX_PRECISION: Final = 38
_GIVEN_DECIMAL: Final = re.compile(r"decimal\(([0-9]{1,2}), *([1-9][0-9]?)\)")
"""Without digits after the point, a number in digits may also be Base64."""
_PRECISION: Final = "connect.decimal.precision"
_PLAIN: Final = {
    "boolean": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "string": "string",
    "bytes": "bytes",
}
_LOGICAL: Final = {
    "io.debezium.time.Date": ("int", "date"),
    "io.debezium.time.Time": ("int", "time-millis"),
    "io.debezium.time.MicroTime": ("long", "time-micros"),
    "io.debezium.time.Timestamp": ("long", "local-timestamp-millis"),
    "io.debezium.time.MicroTimestamp": ("long", "local-timestamp-micros"),
    "org.apache.kafka.connect.data.Date": ("int", "date"),
    "org.apache.kafka.connect.data.Time": ("int", "time-millis"),
    "org.apache.kafka.connect.data.Timestamp": ("long", "timestamp-millis"),
    "time-micros": ("long", "time-micros"),
    "timestamp-micros": ("long", "timestamp-micros"),
    "local-timestamp-millis": ("long", "local-timestamp-millis"),
    "local-timestamp-micros": ("long", "local-timestamp-micros"),
}
"""Numbers of a unit. Debezium's timestamps have no zone; Connect's are instants. Nanoseconds stay numbers."""

Fields = list[dict[str, Any]]
"""Fields of an Avro record, each nullable; `connect.name` is kept where the type alone does not say how values are
converted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectType:
    """A type of Connect."""

    kind: str
    """`int64`, `string`, `struct` and so on; what Connect does not have is another text."""
    name: str = ""
    """The name that says what the values mean; '' for none."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Scale and precision of a decimal."""
    items: ConnectType | None = None
    """The items of an array, or the values of a map."""
    fields: Mapping[str, ConnectType] = field(default_factory=dict)
    """The fields of a struct."""


def fields_of(columns: Mapping[str, ConnectType], where: str) -> Fields:
    """The columns as fields of an Avro record. SchemaMismatch, with the column's name, for a type without a column
    type."""
    return [_field(name, kind, where) for name, kind in columns.items()]


def _field(name: str, kind: ConnectType, where: str) -> dict[str, Any]:
    try:
        if kind.name == ZONED:
            stored: Any = {"type": "long", "logicalType": "timestamp-micros"}
            return {"name": name, "type": ["null", stored], "default": None, CONNECT_NAME: ZONED}
        if kind.name == DECIMAL:
            return {"name": name, "type": ["null", _decimal(kind)], "default": None}
        if kind.kind == "bytes":
            return {"name": name, "type": ["null", "bytes"], "default": None}
        if kind.name in _LOGICAL:
            primitive, logical = _LOGICAL[kind.name]
            stored = {"type": primitive, "logicalType": logical}
            return {"name": name, "type": ["null", stored], "default": None}
        return {"name": name, "type": ["null", _inner(kind)], "default": None}
    except _NoColumnType as error:
        raise SchemaMismatch(
            f"{where}: column {name}: {error}: exclude the column (Debezium's column.exclude.list), or change its form "
            "(decimal.handling.mode, time.precision.mode, binary.handling.mode)"
        ) from None


class _NoColumnType(ValueError):
    """The type has no column type; the text says which."""


def _inner(kind: ConnectType) -> Any:
    """The Avro type of values that need no conversion."""
    if kind.kind == "array" and kind.items is not None:
        return {"type": "array", "items": ["null", _inner(kind.items)]}
    if kind.kind == "map" and kind.items is not None:
        return {"type": "map", "values": ["null", _inner(kind.items)]}
    if kind.kind in _PLAIN and kind.kind != "bytes" and kind.name not in (ZONED, DECIMAL, *_LOGICAL):
        return _PLAIN[kind.kind]
    raise _NoColumnType(f"Connect's type {kind.kind}{f' ({kind.name})' if kind.name else ''} has no column type here")


def _decimal(kind: ConnectType) -> dict[str, Any]:
    try:
        scale = int(kind.parameters.get("scale", "0"))
        precision = int(kind.parameters.get(_PRECISION, str(MAX_PRECISION)))
    except ValueError:
        raise _NoColumnType("a decimal whose scale or precision is not a number") from None
    if not 0 <= scale <= precision <= MAX_PRECISION or precision < 1:
        raise _NoColumnType(
            f"a decimal of {precision} digits, {scale} after the point: expected at most {MAX_PRECISION}"
        )
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def connect_type(schema: Any) -> ConnectType:
    """A type in Connect's JSON."""
    if not isinstance(schema, dict):
        return ConnectType(kind=str(schema)[:100])
    kind, parameters = schema.get("type"), schema.get("parameters")
    members = schema.get("fields")
    inner = schema.get("items") if kind == "array" else None
    if kind == "map" and isinstance(schema.get("keys"), dict) and schema["keys"].get("type") == "string":
        inner = schema.get("values")
    return ConnectType(
        kind=str(kind)[:100],
        name=str(schema.get("name") or ""),
        parameters=_texts(parameters),
        items=None if inner is None else connect_type(inner),
        fields={str(one.get("field")): connect_type(one) for one in members if isinstance(one, dict)}
        if kind == "struct" and isinstance(members, list)
        else {},
    )


def given_type(text: str, where: str) -> ConnectType:
    """A type of the job's `columns`: a type of Connect, `decimal(12,2)` with digits after the point, or Connect's or
    Debezium's name of a type of time. ConfigurationError for other texts."""
    digits = _GIVEN_DECIMAL.fullmatch(text)
    if digits:
        return ConnectType(kind="bytes", name=DECIMAL, parameters={_PRECISION: digits[1], "scale": digits[2]})
    if text in _LOGICAL or text == ZONED:
        return ConnectType(kind="string" if text == ZONED else "int64", name=text)
    if text in _PLAIN:
        return ConnectType(kind=text)
    raise ConfigurationError(
        f"{where}: columns: got type {text[:100]!r}, expected one of {', '.join(_PLAIN)}, decimal(PRECISION,SCALE) "
        f"with a SCALE above 0, or a name such as {ZONED}, io.debezium.time.MicroTimestamp, io.debezium.time.Date"
    )


_AVRO_KINDS: Final = {"int": "int32", "long": "int64", "record": "struct", "enum": "string"}
_AVRO_LOGICAL: Final = {
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "decimal": DECIMAL,
}
_LONGEST: Final = 10_000


class AvroTypes:
    """The types of one Avro schema, whose named types may refer to each other."""

    def __init__(self, schema: Any) -> None:
        self._named: dict[str, ConnectType] = {}
        self._left = _LONGEST
        self.root = self._type(schema, "")
        """The type of the schema."""

    def _type(self, node: Any, namespace: str) -> ConnectType:
        self._left -= 1
        if self._left < 0:
            return ConnectType(kind="a schema with too many types")
        if isinstance(node, list):
            others = [one for one in node if one != "null"]
            return self._type(others[0], namespace) if len(others) == 1 else ConnectType(kind="union")
        if isinstance(node, str):
            return self._reference(node, namespace)
        if not isinstance(node, dict):
            return ConnectType(kind=str(node)[:100])
        kind = node.get("type")
        if not isinstance(kind, str):
            return self._type(kind, namespace)
        if kind not in ("record", "enum", "fixed"):
            return self._defined(node, kind, namespace)
        full = _full(str(node.get("name")), str(node.get("namespace") or namespace))
        self._named[full] = ConnectType(kind="recursive type")
        self._named[full] = self._defined(node, kind, full.rpartition(".")[0])
        return self._named[full]

    def _reference(self, name: str, namespace: str) -> ConnectType:
        full = _full(name, namespace)
        return self._named.get(full) or self._named.get(name) or ConnectType(kind=_AVRO_KINDS.get(name, name))

    def _defined(self, node: dict[str, Any], kind: str, namespace: str) -> ConnectType:
        logical = str(node.get("logicalType") or "")
        name = str(node.get(CONNECT_NAME) or _AVRO_LOGICAL.get(logical, logical))
        parameters = _texts(node.get("connect.parameters"))
        if name == DECIMAL and "scale" not in parameters:
            own = {"scale": str(node.get("scale", 0)), _PRECISION: str(node.get("precision", MAX_PRECISION))}
            parameters = {**own, **parameters}
        inner = node.get("items") if kind == "array" else node.get("values") if kind == "map" else None
        members = node.get("fields")
        return ConnectType(
            kind=_AVRO_KINDS.get(kind, kind),
            name=name,
            parameters=parameters,
            items=None if inner is None else self._type(inner, namespace),
            fields={
                str(one.get("name")): self._type(one.get("type"), namespace) for one in members if isinstance(one, dict)
            }
            if kind == "record" and isinstance(members, list)
            else {},
        )


def _full(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _texts(values: Any) -> Mapping[str, str]:
    return {str(name): str(value) for name, value in values.items()} if isinstance(values, dict) else {}
