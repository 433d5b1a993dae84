"""Decodes records of the metadata table (Avro `HoodieMetadataRecord`) with the schema in their file. Pure.

The schema in a file is untrusted: its size is checked before use (`avro_container`). Logical types are removed, so that
numbers keep their stored value.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import fastavro

from penstock.proto.errors import CorruptFile
from penstock.table.timeline.avro_container import DECODING_ERRORS, bounded_schema
from penstock.table.timeline.fields import Fields


class RecordReader:
    """Decodes values of one schema. A union of several records decodes to (short name of the record, its fields)."""

    def __init__(self, schema_json: str, where: str) -> None:
        self._where = where
        try:
            schema = _without_logical_types(bounded_schema(schema_json))
            self._schema = fastavro.parse_schema(schema, named_schemas={})
        except DECODING_ERRORS as error:
            raise self._damaged("its schema cannot be used", error) from error

    def read(self, value: bytes) -> Fields:
        """The fields of one value; CorruptFile unless it is exactly one record."""
        source = io.BytesIO(value)
        try:
            record = fastavro.schemaless_reader(
                source, self._schema, None, return_record_name=True, return_record_name_override=True
            )
        except DECODING_ERRORS as error:
            raise self._damaged(f"a value of {len(value)} bytes does not decode", error) from error
        if not isinstance(record, dict) or source.tell() != len(value):
            raise CorruptFile(f"{self._where} is damaged: a value of {len(value)} bytes is not exactly one record")
        return Fields(record, self._where)

    def _damaged(self, what: str, error: BaseException) -> CorruptFile:
        return CorruptFile(f"{self._where} is damaged: {what} ({type(error).__name__}: {str(error)[:200]})")


class RecordReaders:
    """Caches one reader for each schema, as the files of a table share a few."""

    def __init__(self) -> None:
        self._known: dict[str, RecordReader] = {}

    def of(self, schema_json: str, where: str) -> Callable[[bytes], Fields]:
        """The decoder for values of this schema; `where` names the first file with it."""
        reader = self._known.get(schema_json)
        if reader is None:
            reader = self._known[schema_json] = RecordReader(schema_json, where)
        return reader.read


class Records(Protocol):
    """Takes the records of keys, those of a key oldest first."""

    def add(self, key: str, value: bytes, read: Callable[[bytes], Fields]) -> None:
        """Adds a record of the key, newer than the others; `read` decodes it. b'' is a deletion."""

    def delete(self, key: str) -> None:
        """Adds a deletion of the key, if it has records."""


class StoredRecords(Mapping[str, Sequence[Fields | None]]):
    """Key -> its records, oldest first; None where the key was deleted.

    A value is decoded whenever it is requested, because the decoded records of a large table take several times the
    memory of the stored ones. CorruptFile for a value that is not one record.
    """

    def __init__(self) -> None:
        self._stored: dict[str, list[tuple[Callable[[bytes], Fields], bytes] | None]] = {}

    def add(self, key: str, value: bytes, read: Callable[[bytes], Fields]) -> None:
        """Adds a record of the key, newer than the others; `read` decodes it. b'' is a deletion."""
        self._stored.setdefault(key, []).append((read, value) if value else None)

    def delete(self, key: str) -> None:
        """Adds a deletion of the key, if it has records."""
        if key in self._stored:
            self._stored[key].append(None)

    def __getitem__(self, key: str) -> list[Fields | None]:
        return [None if item is None else item[0](item[1]) for item in self._stored[key]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


def _without_logical_types(schema: object) -> Any:
    """The schema without logical types. Its depth was checked before."""
    if isinstance(schema, list):
        return [_without_logical_types(item) for item in schema]
    if isinstance(schema, dict):
        return {key: _without_logical_types(item) for key, item in schema.items() if key != "logicalType"}
    return schema
