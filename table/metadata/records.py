"""Decodes records of the metadata table (Avro `HoodieMetadataRecord`) with the schema in their file. Pure.

The schema in a file is untrusted: its size is checked before use (`avro_container`). Logical types are removed, so that
numbers keep their stored value.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

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


def _without_logical_types(schema: object) -> Any:
    """The schema without logical types. Its depth was checked before."""
    if isinstance(schema, list):
        return [_without_logical_types(item) for item in schema]
    if isinstance(schema, dict):
        return {key: _without_logical_types(item) for key, item in schema.items() if key != "logicalType"}
    return schema
