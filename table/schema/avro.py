"""Avro schemas as values: parsed once, bounded, named types resolved, and the decision whether one reads as another.

Belongs here: a fact about Avro types as Hudi writes them. Not here: Arrow types (`arrow`), which schema a table has
(`tables`), decoding (reader).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard

from penstock.proto.errors import CorruptFile, SchemaMismatch

META_COLUMNS: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""The columns Hudi puts in front of every row, in its order (`HoodieRecord.HOODIE_META_COLUMNS`)."""

OPERATION: Final = "_hoodie_operation"
"""The meta column with a record's kind (I, -U, U, D). Tables have it whose writers set
`hoodie.allow.operation.metadata.field`; it follows the others (`HOODIE_META_COLUMNS_WITH_OPERATION`)."""

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


@dataclass(frozen=True, slots=True)
class Primitive:
    """boolean, int, long, float, double, bytes or string; `logical` is '' or a logical type legal for the kind."""

    kind: str
    logical: str = ""


@dataclass(frozen=True, slots=True)
class Decimal:
    """A decimal in two's complement, big-endian; `fixed_size` is None where it is stored as bytes."""

    precision: int
    scale: int
    fixed_size: int | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """`size` bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Vector:
    """`dimension` numbers of one kind, stored little-endian in a fixed (Hudi `HoodieSchema.Vector`).

    `element` is FLOAT, DOUBLE or INT8. A column of the table, never a nested field.
    """

    dimension: int
    element: str

    @property
    def size(self) -> int:
        """Bytes of a stored value."""
        return self.dimension * VECTOR_ELEMENT_BYTES[self.element]


@dataclass(frozen=True, slots=True)
class EnumType:
    """One of `symbols`, stored as its index."""

    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """Items of one type; `null_branch` is the union branch of null (-1: items are no union, never null)."""

    items: AvroType
    null_branch: int = -1


@dataclass(frozen=True, slots=True)
class MapType:
    """String keys, values of one type; `null_branch` as in `ArrayType`."""

    values: AvroType
    null_branch: int = -1


@dataclass(frozen=True, slots=True)
class RecordType:
    """A nested record. Its name and namespace mean nothing: Hudi's blocks differ in them."""

    fields: tuple[AvroField, ...]


AvroType = Primitive | Decimal | Fixed | Vector | EnumType | ArrayType | MapType | RecordType


@dataclass(frozen=True, slots=True)
class AvroField:
    """A column or nested field. `null_branch` is null's place in its union, 0 or 1 (-1: no union, never null).

    `has_default` tells a default other than null: a value a file without the field would have to be given.
    """

    name: str
    type: AvroType
    nullable: bool = False
    null_branch: int = -1
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """A table's, block's or file's schema; `json_text` is the text it was parsed from."""

    name: str
    fields: tuple[AvroField, ...]
    json_text: str

    def by_name(self) -> Mapping[str, AvroField]:
        """The fields by name; names are unique, and differ by case at most."""
        return {field.name: field for field in self.fields}


def parse_record_schema(json_text: str, where: str = "Avro schema") -> RecordSchema:
    """The record schema of an Avro JSON text, with every name resolved.

    `where` names table, file and block in errors. Bounds: 16 MiB of text, 64 levels, 20 000 fields and types (a
    repeated named type counts each time). A logical type that Avro does not know there is passed over, as Avro says
    (so Hudi's `variant` and `blob` are the records they are stored as). CorruptFile if it is no legal record schema or
    leaves the bounds; naming the field's path, SchemaMismatch for what no Hudi table has (recursive and empty records,
    null columns, decimals of more than 38 digits, nested vectors), and for unions other than null and one type: Hudi
    1.2.0 reads no column of a table that has one (`HoodieSchema.getNonNullType` never ends).
    """
    if len(json_text) > MAX_JSON_BYTES:
        raise CorruptFile(f"{where}: schema of {len(json_text)} characters, expected at most {MAX_JSON_BYTES}")
    try:
        node = json.loads(json_text)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{where}: schema is no JSON: {error}") from None
    if not isinstance(node, dict) or node.get("type") != "record":
        raise CorruptFile(f"{where}: schema is {str(node)[:80]!r}, expected a record")
    parsed = _Parser(where).type_of(node, "", "", 0)
    if not isinstance(parsed, RecordType):
        raise CorruptFile(f"{where}: schema is {str(node)[:80]!r}, expected a plain record")
    return RecordSchema(str(node["name"]), parsed.fields, json_text)


class _Parser:
    """One schema's names and the count of its parts."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._parts = 0
        self._names: dict[str, tuple[AvroType, int, int] | None] = {}  # type, parts, height; None: still open

    def type_of(self, node: object, namespace: str, path: str, depth: int) -> AvroType:
        """The type at `path`; unions only reach `slot`."""
        self._count(1, depth, path)
        if isinstance(node, str):
            if node in _PRIMITIVES or node == "null":
                return self._primitive(node, "", path)
            return self._named(node, namespace, path, depth)
        if isinstance(node, list):
            raise self._mismatch(path, f"union {_shown(node)}", _UNIONS)
        kind = node.get("type") if isinstance(node, dict) else None
        if not isinstance(node, dict) or not isinstance(kind, str | dict):
            raise self._corrupt(path, f"type is {_shown(node)}, expected a name, an object or a union")
        if isinstance(kind, str):
            return self._complex(kind, node, namespace, path, depth)
        return self.type_of(kind, namespace, path, depth + 1)

    def slot(self, node: object, namespace: str, path: str, depth: int) -> tuple[AvroType, int]:
        """The type of a place that may be null, and null's branch (-1: no union)."""
        while isinstance(node, dict) and isinstance(node.get("type"), list) and "logicalType" not in node:
            node = node["type"]
        if not isinstance(node, list):
            return self.type_of(node, namespace, path, depth), -1
        if len(node) != 2 or node.count("null") != 1:
            raise self._mismatch(path, f"union {_shown(node)}", _UNIONS)
        null_branch = node.index("null")
        return self.type_of(node[1 - null_branch], namespace, path, depth), null_branch

    def _complex(self, kind: str, node: Mapping[str, object], namespace: str, path: str, depth: int) -> AvroType:
        logical = node.get("logicalType", "")
        if not isinstance(logical, str):
            raise self._corrupt(path, f"logicalType is {_shown(logical)}, expected a name")
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
                raise self._corrupt(path, f"enum symbols are {_shown(symbols)}, expected 1 to {MAX_FIELDS} names")
            defined = EnumType(tuple(self._text(symbol, path, "enum symbol") for symbol in symbols))
        else:
            defined = self._fixed(node, path)
        self._names[full] = (defined, self._parts - before, _height(defined))
        return defined

    def _fields(self, nodes: object, namespace: str, path: str, depth: int) -> tuple[AvroField, ...]:
        if not isinstance(nodes, list):
            raise self._corrupt(path, f"record fields are {_shown(nodes)}, expected a list")
        if not nodes:
            raise self._mismatch(path, "record without fields")
        self._count(len(nodes), depth, path)
        fields: dict[str, AvroField] = {}
        for node in nodes:
            if not isinstance(node, dict):
                raise self._corrupt(path, f"field is {_shown(node)}, expected an object")
            name = self._text(node.get("name"), path, "field name")
            if name in fields:
                raise self._corrupt(path, f"field {name!r} is there twice")
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
            raise self._corrupt(path, f"fixed size is {_shown(size)}, expected 1 to {MAX_FIXED_BYTES}")
        if logical == "decimal":
            return self._decimal(node, size, path)
        return self._vector(node, size, path) if logical == "vector" else Fixed(size)

    def _vector(self, node: Mapping[str, object], size: int, path: str) -> Vector:
        """As Hudi 1.2.0 checks it: at the top level, and of the size that its parts say."""
        dimension, element = node.get("dimension"), node.get("elementType") or "FLOAT"
        backing = node.get("storageBacking") or "FIXED_BYTES"
        digits = str(dimension)
        if "." in path or not (digits.isascii() and digits.isdigit() and len(digits) < 9):
            raise self._mismatch(path, "a vector inside of another column, or without a dimension")
        if element not in VECTOR_ELEMENT_BYTES or backing != "FIXED_BYTES":
            raise self._mismatch(path, f"vector of {_shown(element)} stored as {_shown(backing)}")
        vector = Vector(int(digits), str(element))
        if vector.size != size:
            raise self._mismatch(path, f"vector of {digits} {element} in {size} bytes")
        return vector

    def _decimal(self, node: Mapping[str, object], size: int | None, path: str) -> Decimal:
        precision, scale = node.get("precision"), node.get("scale", 0)
        if not _is_int(precision) or not _is_int(scale) or not 0 <= scale <= precision or precision < 1:
            raise self._corrupt(path, f"decimal({_shown(precision)}, {_shown(scale)}) is not possible")
        if precision > 38:
            raise self._mismatch(path, f"decimal of {precision} digits, at most 38")
        return Decimal(precision, scale, size)

    def _count(self, parts: int, depth: int, path: str) -> None:
        self._parts += parts
        if self._parts > MAX_FIELDS * 2 or depth > MAX_DEPTH:
            raise self._corrupt(path, f"schema exceeds {MAX_FIELDS} fields or {MAX_DEPTH} levels")

    def _text(self, value: object, path: str, what: str) -> str:
        if not isinstance(value, str) or not value or not _encodable(value):
            raise self._corrupt(path, f"{what} is {_shown(value)}, expected text")
        return value

    def _corrupt(self, path: str, text: str) -> CorruptFile:
        return CorruptFile(f"{self._where}: {'field ' + path[:400] if path else 'record'}: {text}")

    def _mismatch(self, path: str, text: str, why: str = "no Hudi table has this") -> SchemaMismatch:
        return SchemaMismatch(f"{self._where}: column {path[:400] or '(the record)'}: {text}: {why}")


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _encodable(text: str) -> bool:
    """No lone surrogate: such a name could not be an Arrow column's."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    try:
        return repr(value)[:200]
    except RecursionError:
        return "a value that nests too deeply"


def _height(avro_type: AvroType) -> int:
    """Levels of types below this one."""
    match avro_type:
        case ArrayType(inner) | MapType(inner):
            return 1 + _height(inner)
        case RecordType(fields):
            return 1 + max(_height(field.type) for field in fields)
        case _:
            return 0
