"""Schema-on-read histories: match the columns of older files with those of the table, by id instead of by name. Pure.

Source: Hudi `SerDeHelper` (the JSON), `InternalSchema`, `InternalSchemaCache.searchSchemaAndCache` (a file has the
newest version that is not after its instant). Types come from the schema of each file; `compatibility` checks them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from penstock.proto.errors import CorruptFile, SchemaMismatch
from penstock.proto.value_classes import dataclass
from penstock.table.schema.avro import (
    MAX_DEPTH,
    MAX_FIELDS,
    MAX_JSON_BYTES,
    META_COLUMNS,
    OPERATION,
    ArrayType,
    AvroField,
    AvroType,
    MapType,
    RecordSchema,
    RecordType,
)

MAX_VERSIONS: Final = 10_000
_HIDDEN: Final = "\0"
"""Prefix of the name of a column that the table no longer has; its id and its own name follow. No column of a table has
such a name."""


@dataclass(frozen=True, slots=True)
class HistoryField:
    """A column or nested field of a schema version (Hudi `InternalSchema`)."""

    id: int
    """Stays the same when the column is renamed."""
    name: str
    """Name in this version."""
    children: tuple[HistoryField, ...] = ()
    """Fields of a record, element of an array, key and value of a map."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the schema."""

    id: int
    """The instant of the schema change, as a number."""
    columns: tuple[HistoryField, ...]
    """The columns in order."""


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """The versions of a table's schema."""

    versions: tuple[Version, ...]
    """Newest first; the first one is that of the table."""

    @property
    def current(self) -> Version:
        """The version of the table's schema."""
        return self.versions[0]

    def at(self, instant: str) -> Version:
        """The version of a file or block that this instant wrote.

        It is the oldest one for earlier instants, as no column was renamed before the history began.
        """
        number = int(instant) if instant.isascii() and instant.isdigit() else -1
        return next((version for version in self.versions if version.id <= number), self.versions[-1])


def history_json(current: str, stored: str, where: str) -> str:
    """The text for `parse_history`: the version `current` (JSON of one schema), then the older ones of `stored`.

    `stored` is JSON `{"schemas": [...]}` or ''. CorruptFile, beginning with `where`.
    """
    first = _decoded(current, where)
    older = _decoded(stored, where).get("schemas") if stored else []
    if not isinstance(older, list) or len(older) > MAX_VERSIONS or not all(isinstance(item, dict) for item in older):
        raise CorruptFile(f"{where}: schema history is not a list of at most {MAX_VERSIONS} schemas")
    newest = _number(first.get("version_id"), where)
    previous = [item for item in older if _number(item.get("version_id"), where) < newest]
    previous.sort(key=lambda item: _number(item.get("version_id"), where), reverse=True)
    return json.dumps({"schemas": [first, *previous]}, separators=(",", ":"))


@functools.lru_cache(maxsize=16)
def parse_history(text: str, where: str) -> SchemaHistory:
    """Parses a text of `history_json`. CorruptFile, beginning with `where`, for any other text."""
    versions = _decoded(text, where).get("schemas")
    if not isinstance(versions, list) or not versions or len(versions) > MAX_VERSIONS:
        raise CorruptFile(f"{where}: schema history without schemas")
    parsed = []
    for version in versions:
        if not isinstance(version, dict):
            raise CorruptFile(f"{where}: schema history holds {str(version)[:80]!r}, expected a schema")
        parsed.append(Version(_number(version.get("version_id"), where), _Reader(where).fields(version, 0)))
    return SchemaHistory(tuple(parsed))


def renamed(
    fields: Sequence[AvroField], source: Sequence[HistoryField], target: Sequence[HistoryField], where: str
) -> list[AvroField]:
    """The fields, with their names in version `source` replaced by those of the same ids in version `target`.

    A field that is missing in `source`, or whose id is missing in `target`, gets a name that no column has.
    SchemaMismatch, beginning with `where`, for a nested field where the history has none.
    """
    by_name, by_id = {item.name: item for item in source}, {item.id: item for item in target}
    result = []
    for field in fields:
        item = by_name.get(field.name)
        if item is None and field.name in (*META_COLUMNS, OPERATION):
            result.append(field)
            continue
        if item is None:
            result.append(replace(field, name=f"{_HIDDEN}={field.name}"))
            continue
        current = by_id.get(item.id)
        if current is None:
            result.append(replace(field, name=f"{_HIDDEN}{item.id}={field.name}"))
        else:
            type_ = _renamed_type(field.type, item.children, current.children, f"{where}: {field.name}")
            result.append(replace(field, name=current.name, type=type_))
    return result


def _renamed_type(
    type_: AvroType, source: tuple[HistoryField, ...], target: tuple[HistoryField, ...], where: str
) -> AvroType:
    match type_:
        case RecordType(fields):
            return RecordType(tuple(renamed(fields, source, target, where)))
        case ArrayType(items):
            return replace(type_, items=_renamed_type(items, *_inner(source, target, where), where))
        case MapType(values):
            return replace(type_, values=_renamed_type(values, *_inner(source, target, where), where))
    return type_


def _inner(
    source: Sequence[HistoryField], target: Sequence[HistoryField], where: str
) -> tuple[tuple[HistoryField, ...], tuple[HistoryField, ...]]:
    """The fields inside an array's element or a map's value, in both versions."""
    if not source or not target:
        raise SchemaMismatch(f"{where}: not of the type in the schema-on-read history")
    return source[-1].children, target[-1].children


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Maps the columns of one file to those of the table, by id."""

    own: tuple[HistoryField, ...]
    """The columns in the file's version."""
    table: tuple[HistoryField, ...]
    """The columns in the table's version."""
    where: str
    """Begins the text of errors."""

    def in_file(self, field: AvroField) -> AvroField:
        """A field of the table with its name in the file; a name that no column has if the file lacks the id."""
        return renamed([field], self.table, self.own, self.where)[0]

    def in_table(self, field: AvroField) -> AvroField:
        """A field of the file with its name in the table."""
        return renamed([field], self.own, self.table, self.where)[0]


def check_current(record: RecordSchema, history: SchemaHistory, without: Collection[str], where: str) -> None:
    """SchemaMismatch, beginning with `where`, unless the history's current version has every column of the table.

    `without`: columns that are not in data files.
    """
    fields = [field for field in record.fields if field.name not in without]
    current = history.current.columns
    for field, match in zip(fields, renamed(fields, current, current, where), strict=True):
        if match.name.startswith(_HIDDEN):
            raise SchemaMismatch(f"{where}: column {field.name!r} is not in the schema-on-read history")


def own_name(name: str) -> str:
    """The name of a field in its file, of a field that `ColumnMapping.in_table` gave a name that no column has."""
    return name.partition("=")[2] if name.startswith(_HIDDEN) else name


class _Reader:
    """Parses the columns of one version, and counts them."""

    def __init__(self, where: str) -> None:
        self._where, self._parts = where, 0

    def fields(self, node: Mapping[str, object], depth: int) -> tuple[HistoryField, ...]:
        listed = node.get("fields")
        if not isinstance(listed, list) or depth > MAX_DEPTH:
            raise self._corrupt(f"fields are {str(listed)[:80]!r}, or nest more than {MAX_DEPTH} levels")
        self._parts += len(listed)
        if self._parts > MAX_FIELDS:
            raise self._corrupt(f"more than {MAX_FIELDS} fields")
        fields = tuple(self._field(item, depth) for item in listed)
        if len({item.name for item in fields}) < len(fields) or len({item.id for item in fields}) < len(fields):
            raise self._corrupt("a name or id occurs twice")
        return fields

    def _field(self, item: object, depth: int) -> HistoryField:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise self._corrupt(f"field is {str(item)[:80]!r}, expected an object with a name")
        return HistoryField(
            _number(item.get("id"), self._where), item["name"], self._children(item.get("type"), depth + 1)
        )

    def _children(self, node: object, depth: int) -> tuple[HistoryField, ...]:
        if depth > MAX_DEPTH:
            raise self._corrupt(f"types nest more than {MAX_DEPTH} levels")
        if isinstance(node, str):
            return ()
        kind = node.get("type") if isinstance(node, dict) else None
        if isinstance(node, dict) and kind == "record":
            return self.fields(node, depth)
        if isinstance(node, dict) and kind in ("array", "map"):
            parts = ("element",) if kind == "array" else ("key", "value")
            return tuple(self._part(node, part, depth) for part in parts)
        raise self._corrupt(f"type is {str(node)[:80]!r}")

    def _part(self, node: Mapping[str, object], name: str, depth: int) -> HistoryField:
        return HistoryField(
            _number(node.get(f"{name}_id"), self._where), name, self._children(node.get(name), depth + 1)
        )

    def _corrupt(self, text: str) -> CorruptFile:
        return CorruptFile(f"{self._where}: schema history: {text}")


def _decoded(text: str, where: str) -> dict[str, object]:
    if len(text) > MAX_JSON_BYTES:
        raise CorruptFile(f"{where}: schema history of {len(text)} characters, at most {MAX_JSON_BYTES} are read")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{where}: schema history is not JSON ({str(error)[:200]})") from None
    if not isinstance(value, dict):
        raise CorruptFile(f"{where}: schema history is {text[:80]!r}, expected an object")
    return value


def _number(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise CorruptFile(f"{where}: schema history: got {str(value)[:40]!r} expected an id or version")
    return value
