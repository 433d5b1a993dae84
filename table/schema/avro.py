"""Parses Avro schemas into values: bounded in size, with resolved named types. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TypeGuard

from penstock.proto.errors import CorruptFile, SchemaMismatch
from penstock.proto.value_classes import dataclass

META_COLUMNS: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""Hudi's meta columns, the first columns of every row, in order (`HoodieRecord.HOODIE_META_COLUMNS`)."""

OPERATION: Final = "_hoodie_operation"
"""The meta column with the kind of a record (I, -U, U, D), in tables whose writers set
`hoodie.allow.operation.metadata.field`. It follows the others (Hudi `HOODIE_META_COLUMNS_WITH_OPERATION`)."""

_UNIONS: Final = "only null and one other type are read, and Hudi 1.2.0 reads no table with another union"

MAX_JSON_BYTES: Final = 16 << 20
MAX_DEPTH: Final = 64
MAX_FIELDS: Final = 20_000
MAX_FIXED_BYTES: Final = 1 << 20

_PRIMITIVES: Final = ("boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL: Final = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
    ),
    "string": ("uuid",),
}


VECTOR_ELEMENT_BYTES: Final = {"FLOAT": 4, "DOUBLE": 8, "INT8": 1}
"""Type of a vector's elements -> bytes of one element."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive type."""

    kind: str
    """boolean, int, long, float, double, bytes or string."""
    logical: str = ""
    """A logical type that is valid for the kind; '' for none."""


@dataclass(frozen=True, slots=True)
class Decimal:
    """A decimal in two's complement, big-endian."""

    precision: int
    """Number of digits."""
    scale: int
    """Number of digits after the decimal point."""
    fixed_size: int | None = None
    """Bytes of a value in a fixed; None for a decimal in bytes."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed type."""

    size: int
    """Bytes of a value."""


@dataclass(frozen=True, slots=True)
class Vector:
    """Numbers of one type, stored little-endian in a fixed (Hudi `HoodieSchema.Vector`). Never a nested field."""

    dimension: int
    """Number of elements."""
    element: str
    """FLOAT, DOUBLE or INT8."""

    @property
    def size(self) -> int:
        """Bytes of a stored value."""
        return self.dimension * VECTOR_ELEMENT_BYTES[self.element]


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enum, stored as the index of a symbol."""

    symbols: tuple[str, ...]
    """The symbols by index."""


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array."""

    items: AvroType
    """Type of the items."""
    null_branch: int = -1
    """Branch of null in the union of the items; -1 if they are never null."""


@dataclass(frozen=True, slots=True)
class MapType:
    """A map with string keys."""

    values: AvroType
    """Type of the values."""
    null_branch: int = -1
    """Branch of null in the union of the values; -1 if they are never null."""


@dataclass(frozen=True, slots=True)
class RecordType:
    """A nested record. Name and namespace are ignored, as they differ between Hudi's blocks."""

    fields: tuple[AvroField, ...]
    """The fields in order."""


AvroType = Primitive | Decimal | Fixed | Vector | EnumType | ArrayType | MapType | RecordType


@dataclass(frozen=True, slots=True)
class AvroField:
    """A column or nested field."""

    name: str
    """Name of the field."""
    type: AvroType
    """Type without null."""
    nullable: bool = False
    """Whether it may be null."""
    null_branch: int = -1
    """Branch of null in its union, 0 or 1; -1 if it is never null."""
    has_default: bool = False
    """Whether it has a default other than null, which a file without the field would require."""


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """The schema of a table, block or file."""

    name: str
    """Name of the record."""
    fields: tuple[AvroField, ...]
    """The columns in order."""
    json_text: str
    """The Avro JSON that it was parsed from."""

    def by_name(self) -> Mapping[str, AvroField]:
        """Name -> field. Names are unique, but may differ only in case."""
        return {field.name: field for field in self.fields}


def parse_record_schema(json_text: str, where: str = "Avro schema") -> RecordSchema:
    """Parses the Avro JSON of a record schema, and resolves named types.

    `where` names table, file and block in errors. The limits are 16 MiB of text, 64 levels, and 20 000 fields and
    types, where a repeated named type counts each time. Unknown logical types are ignored, as the Avro specification
    says; so Hudi's `variant` and `blob` have the types of their stored records.

    CorruptFile for a schema that is invalid or exceeds the limits. SchemaMismatch, with the field's path, for types
    that no Hudi table has (recursive and empty records, null columns, decimals of more than 38 digits, nested vectors),
    and for unions other than null and one type: Hudi 1.2.0 reads no column of a table with such a union
    (`HoodieSchema.getNonNullType` does not terminate).
    """
    if len(json_text) > MAX_JSON_BYTES:
        raise CorruptFile(f"{where}: schema of {len(json_text)} characters, expected at most {MAX_JSON_BYTES}")
    try:
        node = json.loads(json_text)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{where}: schema is not JSON: {error}") from None
    if not isinstance(node, dict) or node.get("type") != "record":
        raise CorruptFile(f"{where}: schema is {str(node)[:80]!r}, expected a record")
    parsed = _Parser(where).type_of(node, "", "", 0)
    if not isinstance(parsed, RecordType):
        raise CorruptFile(f"{where}: schema is {str(node)[:80]!r}, expected a plain record")
    return RecordSchema(str(node["name"]), parsed.fields, json_text)


class _Parser:
    """Parses one schema: resolves its names, and counts its parts."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._parts = 0
        self._names: dict[str, tuple[AvroType, int, int] | None] = {}  # (type, parts, height); None: not complete yet

    def type_of(self, node: object, namespace: str, path: str, depth: int) -> AvroType:
        """The type at `path`. Only `slot` accepts unions."""
        self._count(1, depth, path)
        if isinstance(node, str):
            if node in _PRIMITIVES or node == "null":
                return self._primitive(node, "", path)
            return self._named(node, namespace, path, depth)
        if isinstance(node, list):
            raise self._mismatch(path, f"union {_quoted(node)}", _UNIONS)
        kind = node.get("type") if isinstance(node, dict) else None
        if not isinstance(node, dict) or not isinstance(kind, str | dict):
            raise self._corrupt(path, f"type is {_quoted(node)}, expected a name, an object or a union")
        if isinstance(kind, str):
            return self._complex(kind, node, namespace, path, depth)
        return self.type_of(kind, namespace, path, depth + 1)

    def slot(self, node: object, namespace: str, path: str, depth: int) -> tuple[AvroType, int]:
        """The type of a field or item that may be null, and the branch of null (-1: no union)."""
        while isinstance(node, dict) and isinstance(node.get("type"), list) and "logicalType" not in node:
            node = node["type"]
        if not isinstance(node, list):
            return self.type_of(node, namespace, path, depth), -1
        if len(node) != 2 or node.count("null") != 1:
            raise self._mismatch(path, f"union {_quoted(node)}", _UNIONS)
        null_branch = node.index("null")
        return self.type_of(node[1 - null_branch], namespace, path, depth), null_branch

    def _complex(self, kind: str, node: Mapping[str, object], namespace: str, path: str, depth: int) -> AvroType:
        logical = node.get("logicalType", "")
        if not isinstance(logical, str):
            raise self._corrupt(path, f"logicalType is {_quoted(logical)}, expected a name")
        if kind == "bytes" and logical == "decimal":
            return self._decimal(node, None, path)
        if kind in (*_PRIMITIVES, "null"):
            return self._primitive(kind, logical, path)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            inner, null_branch = self.slot(node.get(part), namespace, f"{path}.{part}", depth + 1)
            return ArrayType(inner, null_branch) if kind == "array" else MapType(inner, null_branch)
        if kind in ("record", "enum", "fixed"):
            return self._define(kind, node, namespace, path, depth)
        return self._named(kind, namespace, path, depth)

    def _define(self, kind: str, node: Mapping[str, object], namespace: str, path: str, depth: int) -> AvroType:
        name = self._text(node.get("name"), path, "name")
        space = node.get("namespace", namespace)
        full = name if "." in name or not space else f"{self._text(space, path, 'namespace')}.{name}"
        if full in self._names:
            raise self._corrupt(path, f"type {full!r} is defined twice")
        self._names[full] = None
        before = self._parts
        defined: AvroType
        if kind == "record":
            defined = RecordType(self._fields(node.get("fields"), full.rpartition(".")[0], path, depth))
        elif kind == "enum":
            symbols = node.get("symbols")
            if not isinstance(symbols, list) or not symbols or len(symbols) > MAX_FIELDS:
                raise self._corrupt(path, f"enum symbols are {_quoted(symbols)}, expected 1 to {MAX_FIELDS} names")
            defined = EnumType(tuple(self._text(symbol, path, "enum symbol") for symbol in symbols))
        else:
            defined = self._fixed(node, path)
        self._names[full] = (defined, self._parts - before, _height(defined))
        return defined

    def _fields(self, nodes: object, namespace: str, path: str, depth: int) -> tuple[AvroField, ...]:
        if not isinstance(nodes, list):
            raise self._corrupt(path, f"record fields are {_quoted(nodes)}, expected a list")
        if not nodes:
            raise self._mismatch(path, "record without fields")
        self._count(len(nodes), depth, path)
        fields: dict[str, AvroField] = {}
        for node in nodes:
            if not isinstance(node, dict):
                raise self._corrupt(path, f"field is {_quoted(node)}, expected an object")
            name = self._text(node.get("name"), path, "field name")
            if name in fields:
                raise self._corrupt(path, f"field {name!r} occurs twice")
            inner, null_branch = self.slot(node.get("type"), namespace, f"{path}.{name}" if path else name, depth + 1)
            fields[name] = AvroField(name, inner, null_branch >= 0, null_branch, node.get("default") is not None)
        return tuple(fields.values())

    def _named(self, name: str, namespace: str, path: str, depth: int) -> AvroType:
        qualified = f"{namespace}.{name}" if namespace and "." not in name else name
        for full in (qualified, name):
            if full in self._names:
                known = self._names[full]
                if known is None:
                    raise self._mismatch(path, f"recursive record {full!r}")
                self._count(known[1], depth + known[2], path)
                return known[0]
        raise self._corrupt(path, f"type {name[:200]!r} is not defined")

    def _primitive(self, kind: str, logical: str, path: str) -> Primitive:
        if kind == "null":
            raise self._mismatch(path, "type null")
        return Primitive(kind, logical if logical in _LOGICAL.get(kind, ()) else "")

    def _fixed(self, node: Mapping[str, object], path: str) -> Fixed | Decimal | Vector:
        size, logical = node.get("size"), node.get("logicalType", "")
        if not _is_int(size) or not 1 <= size <= MAX_FIXED_BYTES:
            raise self._corrupt(path, f"fixed size is {_quoted(size)}, expected 1 to {MAX_FIXED_BYTES}")
        if logical == "decimal":
            return self._decimal(node, size, path)
        return self._vector(node, size, path) if logical == "vector" else Fixed(size)

    def _vector(self, node: Mapping[str, object], size: int, path: str) -> Vector:
        """A vector, with the checks of Hudi 1.2.0: at the top level, with the size of its dimension and element."""
        dimension, element = node.get("dimension"), node.get("elementType") or "FLOAT"
        backing = node.get("storageBacking") or "FIXED_BYTES"
        digits = str(dimension)
        if "." in path or not (digits.isascii() and digits.isdigit() and len(digits) < 9):
            raise self._mismatch(path, "a vector inside of another column, or without a dimension")
        if element not in VECTOR_ELEMENT_BYTES or backing != "FIXED_BYTES":
            raise self._mismatch(path, f"vector of {_quoted(element)} stored as {_quoted(backing)}")
        vector = Vector(int(digits), str(element))
        if vector.size != size:
            raise self._mismatch(path, f"vector of {digits} {element} in {size} bytes")
        return vector

    def _decimal(self, node: Mapping[str, object], size: int | None, path: str) -> Decimal:
        precision, scale = node.get("precision"), node.get("scale", 0)
        if not _is_int(precision) or not _is_int(scale) or not 0 <= scale <= precision or precision < 1:
            raise self._corrupt(path, f"decimal({_quoted(precision)}, {_quoted(scale)}) is not possible")
        if precision > 38:
            raise self._mismatch(path, f"decimal of {precision} digits, at most 38")
        return Decimal(precision, scale, size)

    def _count(self, parts: int, depth: int, path: str) -> None:
        self._parts += parts
        if self._parts > MAX_FIELDS * 2 or depth > MAX_DEPTH:
            raise self._corrupt(path, f"schema exceeds {MAX_FIELDS} fields or {MAX_DEPTH} levels")

    def _text(self, value: object, path: str, what: str) -> str:
        if not isinstance(value, str) or not value or not _encodable(value):
            raise self._corrupt(path, f"{what} is {_quoted(value)}, expected text")
        return value

    def _corrupt(self, path: str, text: str) -> CorruptFile:
        return CorruptFile(f"{self._where}: {'field ' + path[:400] if path else 'record'}: {text}")

    def _mismatch(self, path: str, text: str, why: str = "no Hudi table has this") -> SchemaMismatch:
        return SchemaMismatch(f"{self._where}: column {path[:400] or '(the record)'}: {text}: {why}")


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _encodable(text: str) -> bool:
    """Whether the text has no lone surrogate, which the name of an Arrow column cannot have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _quoted(value: object) -> str:
    try:
        return repr(value)[:200]
    except RecursionError:
        return "a value that nests too deeply"


def _height(avro_type: AvroType) -> int:
    """Number of levels of nested types."""
    match avro_type:
        case ArrayType(inner) | MapType(inner):
            return 1 + _height(inner)
        case RecordType(fields):
            return 1 + max(_height(field.type) for field in fields)
        case _:
            return 0
