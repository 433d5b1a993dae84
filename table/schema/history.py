"""Schema-on-read histories: which column of an older file is which of the table's, by id instead of by name. Pure.

Source: Hudi `SerDeHelper` (the JSON), `InternalSchema`, `InternalSchemaCache.searchSchemaAndCache` (a file is of the
newest version not younger than its instant). Belongs here: ids and names. Not here: types (a file's own schema tells
them, `compatibility` judges them), where the history is stored (`hudi_table`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.proto.errors import CorruptFile, SchemaMismatch
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
"""In front of the name of a column that the table has no more: no column of any table is called so."""


@dataclass(frozen=True, slots=True)
class HistoryField:
    """A column or nested place: its id, its name, the places inside (a record's fields; an array's element; a map's
    key and value)."""

    id: int
    name: str
    children: tuple[HistoryField, ...] = ()


@dataclass(frozen=True, slots=True)
class Version:
    """The columns as of an instant."""

    id: int
    columns: tuple[HistoryField, ...]


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """The table's own version first, then the older ones, newest first."""

    versions: tuple[Version, ...]

    @property
    def current(self) -> Version:
        """The version that the table's schema is of."""
        return self.versions[0]

    def at(self, instant: str) -> Version:
        """The version that a file or block of this instant was written with; the oldest for what is older still: no
        column was renamed before the history began."""
        number = int(instant) if instant.isascii() and instant.isdigit() else -1
        return next((version for version in self.versions if version.id <= number), self.versions[-1])


def history_json(current: str, stored: str, where: str) -> str:
    """The text that `parse_history` reads: the version `current` (JSON of one schema), then those of `stored` (JSON
    `{"schemas": [...]}`) that are older. CorruptFile, beginning with `where`."""
    first = _decoded(current, where)
    older = _decoded(stored, where).get("schemas") if stored else []
    if not isinstance(older, list) or len(older) > MAX_VERSIONS or not all(isinstance(item, dict) for item in older):
        raise CorruptFile(f"{where}: schema history is no list of at most {MAX_VERSIONS} schemas")
    newest = _number(first.get("version_id"), where)
    kept = [item for item in older if _number(item.get("version_id"), where) < newest]
    kept.sort(key=lambda item: _number(item.get("version_id"), where), reverse=True)
    return json.dumps({"schemas": [first, *kept]}, separators=(",", ":"))


@functools.lru_cache(maxsize=16)
def parse_history(text: str, where: str) -> SchemaHistory:
    """The history of a text of `history_json`. CorruptFile, beginning with `where`, for anything else."""
    versions = _decoded(text, where).get("schemas")
    if not isinstance(versions, list) or not versions or len(versions) > MAX_VERSIONS:
        raise CorruptFile(f"{where}: schema history without schemas")
    found = []
    for version in versions:
        if not isinstance(version, dict):
            raise CorruptFile(f"{where}: schema history holds {str(version)[:80]!r}, expected a schema")
        found.append(Version(_number(version.get("version_id"), where), _Reader(where).fields(version, 0)))
    return SchemaHistory(tuple(found))


def renamed(
    fields: Sequence[AvroField], have: Sequence[HistoryField], want: Sequence[HistoryField], where: str
) -> list[AvroField]:
    """The fields with the names that `want` gives their ids; `have` tells the ids of their present names.

    A field whose id `want` has not, or that `have` does not know, gets a name that no column has. SchemaMismatch,
    beginning with `where`, for a nested field where the history has none.
    """
    known, wanted = {place.name: place for place in have}, {place.id: place for place in want}
    found = []
    for field in fields:
        place = known.get(field.name)
        if place is None and field.name in (*META_COLUMNS, OPERATION):
            found.append(field)
            continue
        if place is None:
            found.append(replace(field, name=f"{_HIDDEN}={field.name}"))
            continue
        now = wanted.get(place.id)
        if now is None:
            found.append(replace(field, name=f"{_HIDDEN}{place.id}"))
        else:
            type_ = _renamed_type(field.type, place.children, now.children, f"{where}: {field.name}")
            found.append(replace(field, name=now.name, type=type_))
    return found


def _renamed_type(
    type_: AvroType, have: tuple[HistoryField, ...], want: tuple[HistoryField, ...], where: str
) -> AvroType:
    match type_:
        case RecordType(fields):
            return RecordType(tuple(renamed(fields, have, want, where)))
        case ArrayType(items):
            return replace(type_, items=_renamed_type(items, *_inner(have, want, where), where))
        case MapType(values):
            return replace(type_, values=_renamed_type(values, *_inner(have, want, where), where))
    return type_


def _inner(
    have: Sequence[HistoryField], want: Sequence[HistoryField], where: str
) -> tuple[tuple[HistoryField, ...], tuple[HistoryField, ...]]:
    """What is inside an array's element or a map's value."""
    if not have or not want:
        raise SchemaMismatch(f"{where}: not of the kind that the schema-on-read history says")
    return have[-1].children, want[-1].children


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """One file's names of columns (`own`) and the table's (`table`), to be matched by id. `where` begins errors."""

    own: tuple[HistoryField, ...]
    table: tuple[HistoryField, ...]
    where: str

    def in_file(self, field: AvroField) -> AvroField:
        """A field of the table as the file calls it; a name that no column has if the file knows no such id."""
        return renamed([field], self.table, self.own, self.where)[0]

    def in_table(self, field: AvroField) -> AvroField:
        """A field of the file as the table calls it."""
        return renamed([field], self.own, self.table, self.where)[0]


def check_current(record: RecordSchema, history: SchemaHistory, without: Collection[str], where: str) -> None:
    """SchemaMismatch, beginning with `where`, unless the history's own version has every column of the table but
    those `without` a place in files."""
    fields = [field for field in record.fields if field.name not in without]
    current = history.current.columns
    for field, known in zip(fields, renamed(fields, current, current, where), strict=True):
        if known.name.startswith(_HIDDEN):
            raise SchemaMismatch(f"{where}: column {field.name!r} is not in the schema-on-read history")


class _Reader:
    """One version's places, counted."""

    def __init__(self, where: str) -> None:
        self._where, self._parts = where, 0

    def fields(self, node: Mapping[str, object], depth: int) -> tuple[HistoryField, ...]:
        listed = node.get("fields")
        if not isinstance(listed, list) or depth > MAX_DEPTH:
            raise self._corrupt(f"fields are {str(listed)[:80]!r}, or nest more than {MAX_DEPTH} levels")
        self._parts += len(listed)
        if self._parts > MAX_FIELDS:
            raise self._corrupt(f"more than {MAX_FIELDS} fields")
        found = tuple(self._field(item, depth) for item in listed)
        if len({place.name for place in found}) < len(found) or len({place.id for place in found}) < len(found):
            raise self._corrupt("a name or id is there twice")
        return found

    def _field(self, item: object, depth: int) -> HistoryField:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise self._corrupt(f"field is {str(item)[:80]!r}, expected an object with a name")
        return HistoryField(
            _number(item.get("id"), self._where), item["name"], self._inside(item.get("type"), depth + 1)
        )

    def _inside(self, node: object, depth: int) -> tuple[HistoryField, ...]:
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
        return HistoryField(_number(node.get(f"{name}_id"), self._where), name, self._inside(node.get(name), depth + 1))

    def _corrupt(self, text: str) -> CorruptFile:
        return CorruptFile(f"{self._where}: schema history: {text}")


def _decoded(text: str, where: str) -> dict[str, object]:
    if len(text) > MAX_JSON_BYTES:
        raise CorruptFile(f"{where}: schema history of {len(text)} characters, at most {MAX_JSON_BYTES} are read")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{where}: schema history is no JSON ({str(error)[:200]})") from None
    if not isinstance(found, dict):
        raise CorruptFile(f"{where}: schema history is {text[:80]!r}, expected an object")
    return found


def _number(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise CorruptFile(f"{where}: schema history: got {str(value)[:40]!r} where an id or version belongs")
    return value
