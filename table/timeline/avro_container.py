"""Decodes Avro object container files of the timeline, which hold a single record (a plan or commit metadata).

The schema in a file is untrusted, so the header is checked before fastavro decodes anything. Recursion, compression,
and arrays of values that take no bytes are refused: with the latter, a count alone could exhaust the memory.
"""

from __future__ import annotations

import functools
import io
import json
import struct
from typing import Final

import fastavro
import fastavro.schema
from fastavro.types import Schema

from penstock.proto.errors import CorruptFile
from penstock.proto.value_classes import dataclass

MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_MAX_SCHEMA_BYTES: Final = 4 << 20
_MAX_HEADER_ENTRIES: Final = 64
_MAX_DEPTH: Final = 32
_MAX_NODES: Final = 20_000
_MAX_VALUES_PER_BYTE: Final = 16

DECODING_ERRORS: Final = (
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    StopIteration,
    struct.error,
    fastavro.schema.SchemaParseException,
    fastavro.schema.UnknownType,
)
"""Exceptions of fastavro for damaged schemas and values."""


def is_container(data: bytes) -> bool:
    """Whether the bytes are an Avro object container file, by magic; the table version does not determine it."""
    return data[:4] == MAGIC


def single_record(data: bytes, where: str) -> dict[str, object]:
    """The only record of the file. `where` names instant, file and table in errors.

    CorruptFile for anything other than a complete file with one uncompressed record (Hudi never compresses it).
    """
    try:
        schema, codec, end = _header(data)
        if codec not in ("", "null"):
            raise ValueError(f"codec {codec[:40]!r}, expected none")
        only = _only_record(data, _header_schema(schema), end)
        if only is not None:
            return only
        records: list[object] = []
        for record in fastavro.reader(io.BytesIO(data)):
            records.append(record)
            if len(records) > 1:
                break
    except DECODING_ERRORS as error:
        raise CorruptFile(
            f"{where} is damaged or truncated: got {len(data)} bytes that do not decode as Avro "
            f"({type(error).__name__}: {str(error)[:200]}), expected one whole record"
        ) from error
    if len(records) != 1 or not isinstance(records[0], dict):
        got = f"{len(records)} records" if len(records) < 2 else "several records"
        raise CorruptFile(f"{where} is damaged or truncated: got {got}, expected one")
    return records[0]


def _only_record(data: bytes, schema: Schema, at: int) -> dict[str, object] | None:
    """The record of a file that is exactly one block of one record after its header, which ends at `at`; else None.

    `fastavro.reader` parses the schema of each file again, which takes as long as decoding a hundred write stats.
    """
    sync = data[at : at + _SYNC_BYTES]
    count, at = _varint(data, at + _SYNC_BYTES)
    size, at = _varint(data, at)
    if count != 1 or size < 0 or at + size + _SYNC_BYTES != len(data) or data[at + size :] != sync:
        return None
    source = io.BytesIO(data[at : at + size])
    record = fastavro.schemaless_reader(source, schema, None)
    return record if source.tell() == size and isinstance(record, dict) else None


def checked_schema(text: str, where: str) -> Schema:
    """The parsed schema for `single_datum`. CorruptFile for a schema that `bounded_schema` refuses."""
    try:
        if len(text) > _MAX_SCHEMA_BYTES:
            raise ValueError(f"schema of {len(text)} characters, at most {_MAX_SCHEMA_BYTES} are read")
        schema = json.loads(text)
        _check_schema(schema)
        return fastavro.parse_schema(schema)
    except DECODING_ERRORS as error:
        raise CorruptFile(f"{where}: its schema is not a valid, bounded Avro schema: {str(error)[:200]}") from error


def single_datum(data: bytes, schema: Schema, where: str) -> dict[str, object]:
    """Decodes one record without a container header. CorruptFile if the bytes are not exactly one record."""
    source = io.BytesIO(data)
    try:
        record = fastavro.schemaless_reader(source, schema, None)
    except DECODING_ERRORS as error:
        raise CorruptFile(
            f"{where} is damaged: got {len(data)} bytes that do not decode as Avro "
            f"({type(error).__name__}: {str(error)[:200]}), expected one whole record"
        ) from error
    if source.tell() != len(data) or not isinstance(record, dict):
        raise CorruptFile(f"{where} is damaged: got {len(data)} bytes of which {source.tell()} are a record")
    return record


def _header(data: bytes) -> tuple[bytes, str, int]:
    """The schema and the codec in a header, and where its sync marker begins. ValueError for a damaged header."""
    if not is_container(data):
        raise ValueError(f"starts with {data[:4]!r}, expected {MAGIC!r}")
    entries: dict[bytes, bytes] = {}
    at = len(MAGIC)
    while True:
        count, at = _varint(data, at)
        if count == 0:
            break
        if count < 0:
            _, at = _varint(data, at)
            count = -count
        if count + len(entries) > _MAX_HEADER_ENTRIES:
            raise ValueError(f"header of {count} entries, at most {_MAX_HEADER_ENTRIES} are read")
        for _ in range(count):
            key, at = _byte_string(data, at)
            entries[key], at = _byte_string(data, at)
    if at + _SYNC_BYTES > len(data):
        raise ValueError("header ends before its sync marker")
    return entries[b"avro.schema"], entries.get(b"avro.codec", b"").decode("ascii"), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            raise ValueError("header ends inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise ValueError("number longer than 10 bytes")


def _byte_string(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _varint(data, at)
    if not 0 <= size <= min(len(data) - at, _MAX_SCHEMA_BYTES):
        raise ValueError(f"header string of {size} bytes with {len(data) - at} left")
    return data[at : at + size], at + size


def bounded_schema(schema_json: str) -> object:
    """Decodes the JSON of a schema from a file. ValueError for schemas that are refused (see the module)."""
    if len(schema_json) > _MAX_SCHEMA_BYTES:
        raise ValueError(f"schema of {len(schema_json)} characters, at most {_MAX_SCHEMA_BYTES} are read")
    schema: object = json.loads(schema_json)
    _check_schema(schema)
    return schema


@functools.lru_cache(maxsize=8)
def _header_schema(text: bytes) -> Schema:
    """The parsed schema of a header, after `_check_schema`. Cached, as the files of a timeline share a few schemas;
    failures are not cached."""
    schema = json.loads(text)
    _check_schema(schema)
    return fastavro.parse_schema(schema)


def _check_schema(schema: object) -> None:
    """ValueError unless the schema is bounded in size and depth, not recursive, and repeated values take bytes."""
    _SchemaCosts().cost(schema, 0)


@dataclass(frozen=True, slots=True)
class _Cost:
    """Size limits of the values of a type."""

    least_bytes: int
    """The fewest bytes that a value takes."""
    values: int
    """The most values that it decodes to, without the items of arrays."""

    def __add__(self, other: _Cost) -> _Cost:
        return _Cost(self.least_bytes + other.least_bytes, self.values + other.values)


_ONE_BYTE: Final = _Cost(1, 1)
_BY_NAME: Final = {
    "null": _Cost(0, 1),
    "boolean": _ONE_BYTE,
    "int": _ONE_BYTE,
    "long": _ONE_BYTE,
    "float": _Cost(4, 1),
    "double": _Cost(8, 1),
    "bytes": _ONE_BYTE,
    "string": _ONE_BYTE,
}


class _SchemaCosts:
    """Computes the costs of the types of one schema. A named type is None until it is complete, to detect recursion."""

    def __init__(self) -> None:
        self._named: dict[str, _Cost | None] = {}
        self._nodes = 0

    def cost(self, schema: object, depth: int) -> _Cost:
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            raise ValueError(f"schema deeper than {_MAX_DEPTH} or of more than {_MAX_NODES} types")
        if isinstance(schema, list):
            return self._union(schema, depth)
        if isinstance(schema, str):
            return self._by_name(schema)
        if not isinstance(schema, dict):
            raise ValueError(f"schema node {str(schema)[:60]!r}, expected a name, an object or a list")
        match schema.get("type"):
            case "record" | "error":
                return self._record(schema, depth)
            case "enum":
                return self._define(schema, _ONE_BYTE)
            case "fixed":
                return self._define(schema, _Cost(int(schema["size"]), 1))
            case "array":
                return self._repeated(schema["items"], depth, 0)
            case "map":
                return self._repeated(schema["values"], depth, 1)
            case other:
                return self.cost(other, depth + 1)

    def _union(self, branches: list[object], depth: int) -> _Cost:
        costs = [self.cost(branch, depth + 1) for branch in branches]
        return _Cost(
            1 + min((item.least_bytes for item in costs), default=0), max((item.values for item in costs), default=0)
        )

    def _repeated(self, item: object, depth: int, key_bytes: int) -> _Cost:
        """An array or map: one byte ends it. Its items must take bytes in proportion to the values they decode to."""
        cost = self.cost(item, depth + 1)
        if cost.values > _MAX_VALUES_PER_BYTE * (cost.least_bytes + key_bytes):
            raise ValueError(f"schema repeats {cost.values} values that may take {cost.least_bytes} bytes")
        return _ONE_BYTE

    def _record(self, schema: dict[str, object], depth: int) -> _Cost:
        self._define(schema, None)
        fields = schema["fields"]
        if not isinstance(fields, list):
            raise ValueError("schema has a record without a list of fields")
        cost = sum((self.cost(item["type"], depth + 1) for item in fields), start=_Cost(0, 1))
        if cost.values > _MAX_NODES:
            raise ValueError(f"schema has a record of {cost.values} values, at most {_MAX_NODES} are read")
        self._named[_short_name(schema["name"])] = cost
        return cost

    def _define(self, schema: dict[str, object], cost: _Cost | None) -> _Cost:
        """Registers a named type by its short name. Refuses one name in two namespaces, which Hudi never writes."""
        name = _short_name(schema["name"])
        if name in self._named or name in _BY_NAME:
            raise ValueError(f"schema defines the type {name[:60]!r} twice")
        self._named[name] = cost
        return cost or _ONE_BYTE

    def _by_name(self, name: str) -> _Cost:
        if name in _BY_NAME:
            return _BY_NAME[name]
        short = _short_name(name)
        if short not in self._named:
            raise ValueError(f"schema names the unknown type {name[:60]!r}")
        cost = self._named[short]
        if cost is None:
            raise ValueError(f"schema repeats the type {name[:60]!r} inside itself")
        return cost


def _short_name(name: object) -> str:
    return str(name).rpartition(".")[2]
