"""The Avro schema of the metadata table's records, for metadata tables that Penstock creates. Pure.

Source: Hudi `HoodieMetadataRecord` of release 1.2. An existing metadata table records the schema of its writers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from penstock.proto.errors import CorruptFile
from penstock.table.schema.avro import META_COLUMNS
from penstock.table.timeline.metadata_schemas.parts import (
    TEXT,
    Node,
    array,
    field,
    optional,
    record,
    text_map,
    top_level,
)

_DECIMAL: Final[Node] = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}
_TIME: Final[Node] = {"type": "long", "logicalType": "time-micros"}
_WRAPPED: Final[Mapping[str, Node]] = {
    "Boolean": "boolean",
    "Int": "int",
    "Long": "long",
    "Float": "float",
    "Double": "double",
    "Bytes": "bytes",
    "String": TEXT,
    "Date": "int",
    "Decimal": _DECIMAL,
    "TimeMicros": _TIME,
    "TimestampMicros": "long",
    "LocalDate": "int",
}
"""Type of a bound -> how it is stored."""
_WRAPPERS: Final[list[object]] = [f"{name}Wrapper" for name in _WRAPPED]
_BOUND: Final[list[object]] = [
    "null",
    *(record(f"{name}Wrapper", [field("value", kind)]) for name, kind in _WRAPPED.items()),
    record("ArrayWrapper", [optional("wrappedValues", array(["null", *_WRAPPERS]))]),
]

_FILE: Final = record("HoodieMetadataFileInfo", [field("size", "long"), field("isDeleted", "boolean")])

_BLOOM_FILTER: Final = record(
    "HoodieMetadataBloomFilter",
    [field("type", TEXT), field("timestamp", TEXT), field("bloomFilter", "bytes"), field("isDeleted", "boolean")],
)

_COLUMN_STATS: Final = record(
    "HoodieMetadataColumnStats",
    [
        optional("fileName", TEXT),
        optional("columnName", TEXT),
        {"name": "minValue", "type": _BOUND, "default": None},
        {"name": "maxValue", "type": ["null", *_WRAPPERS, "ArrayWrapper"], "default": None},
        optional("valueCount", "long"),
        optional("nullCount", "long"),
        optional("totalSize", "long"),
        optional("totalUncompressedSize", "long"),
        field("isDeleted", "boolean"),
        {"name": "isTightBound", "type": "boolean", "default": False},
        optional(
            "valueType",
            record("HoodieValueTypeInfo", [field("typeOrdinal", "int"), optional("additionalInfo", TEXT)]),
        ),
    ],
)

_RECORD_INDEX: Final = record(
    "HoodieRecordIndexInfo",
    [
        optional("partitionName", TEXT),
        optional("fileIdHighBits", "long"),
        optional("fileIdLowBits", "long"),
        optional("fileIndex", "int"),
        optional("fileId", TEXT),
        optional("instantTime", "long"),
        {"name": "fileIdEncoding", "type": "int", "default": 0},
        optional("position", "long"),
    ],
)

_RECORD: Final = top_level(
    "HoodieMetadataRecord",
    [
        field("key", TEXT),
        field("type", "int"),
        field("filesystemMetadata", ["null", text_map(_FILE)]),
        optional("BloomFilterMetadata", _BLOOM_FILTER),
        optional("ColumnStatsMetadata", _COLUMN_STATS),
        optional("recordIndexMetadata", _RECORD_INDEX),
        optional("SecondaryIndexMetadata", record("HoodieSecondaryIndexInfo", [field("isDeleted", "boolean")])),
    ],
)

RECORD_SCHEMA: Final = json.dumps(_RECORD, separators=(",", ":"))
"""The schema that commits record: without meta columns."""


def block_schema(schema_json: str, where: str) -> str:
    """The schema of log blocks and base files, which has meta columns, for the one that commits record.

    CorruptFile for a text that is no record; `where` names the file.
    """
    try:
        schema: dict[str, Any] = json.loads(schema_json)
        meta = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_COLUMNS]
        names = {column["name"] for column in schema["fields"]}
        fields = [*(column for column in meta if column["name"] not in names), *schema["fields"]]
        return json.dumps({**schema, "fields": fields}, separators=(",", ":"))
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise CorruptFile(f"{where} is damaged: its schema is {schema_json[:80]!r}, expected a record") from error
