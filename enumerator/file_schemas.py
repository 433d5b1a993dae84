"""The schema of a table whose commits recorded none: that of its newest data file that tells one.

Shell: reads one footer or one log file at a time. Source: Hudi `TableSchemaResolver.getTableAvroSchemaFromDataFile`.
Not here: which recorded schema counts (`table.schema.tables`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.enumerator.bounds import read_footer
from penstock.enumerator.selection import TimelineFacts
from penstock.proto.errors import SchemaMismatch
from penstock.proto.splits import FileRef
from penstock.table.external_names import stored_path
from penstock.table.log.blocks import BlockKind, LogBlock, read_blocks
from penstock.table.names import LogName, parse_file_name
from penstock.table.storage import Storage

_AVRO_KEYS: Final = (b"parquet.avro.schema", b"avro.schema")
_MOST_LOG_BYTES: Final = 2 << 30
_PRIMITIVES: Final[dict[pa.DataType, object]] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
}


def schema_of_newest_file(storage: Storage, facts: TimelineFacts, instants: Iterable[str]) -> str:
    """The Avro schema (JSON) of the first file that the commits of these instants wrote, are still there and tell one;
    '' if none does. CorruptFile for one that cannot be read, SchemaMismatch for a type that Avro has not."""
    for instant in instants:
        for stat in facts.commits[instant].stats:
            name = parse_file_name(stat.file_name) if stat.path else None
            path = stored_path(stat.path)
            info = storage.file_info(path) if name is not None else None
            if info is None:
                continue
            if isinstance(name, LogName):
                found = "" if name.is_cdc else _schema_of_log(storage, path)
            else:
                found = schema_of_footer(read_footer(storage, FileRef(path, info.size_bytes)), path)
            if found:
                return found
    return ""


def schema_of_footer(footer: pq.FileMetaData, path: str) -> str:
    """The Avro schema that the writer left in a Parquet footer, else one of the same columns."""
    metadata = footer.metadata or {}
    written = next((metadata[key] for key in _AVRO_KEYS if key in metadata), None)
    if written is not None:
        return str(written, "utf-8", "replace")
    fields = [_field(field, path, str(place)) for place, field in enumerate(footer.schema.to_arrow_schema())]
    return json.dumps({"type": "record", "name": "table", "fields": fields})


def _schema_of_log(storage: Storage, path: str) -> str:
    """Of the last data block."""
    found = ""
    for block in read_blocks(memoryview(storage.read_bytes(path, _MOST_LOG_BYTES)), path):
        if isinstance(block, LogBlock) and block.kind in (BlockKind.AVRO_DATA, BlockKind.PARQUET_DATA):
            found = block.header.schema_json if not block.header.is_partial else found
    return found


def _field(field: pa.Field, path: str, number: str) -> dict[str, object]:
    kind = _avro(field.type, f"{path}: column {field.name!r}", number)
    if field.nullable:
        return {"name": field.name, "type": ["null", kind], "default": None}
    return {"name": field.name, "type": kind}


def _slot(field: pa.Field, where: str, number: str) -> object:
    kind = _avro(field.type, where, number)
    return ["null", kind] if field.nullable else kind


def _avro(kind: pa.DataType, where: str, number: str) -> object:
    """The Avro type of an Arrow type; `number` tells records apart that would bear one name."""
    if pa.types.is_timestamp(kind):
        unit = "millis" if kind.unit == "ms" else "micros"
        return {"type": "long", "logicalType": f"{'' if kind.tz else 'local-'}timestamp-{unit}"}
    if pa.types.is_decimal128(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "fixed", "name": f"fixed{number}", "size": kind.byte_width}
    if pa.types.is_map(kind):
        return {"type": "map", "values": _slot(kind.item_field, where, f"{number}_0")}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _slot(kind.value_field, where, f"{number}_0")}
    if pa.types.is_struct(kind):
        fields = [_field(child, where, f"{number}_{place}") for place, child in enumerate(kind)]
        return {"type": "record", "name": f"record{number}", "fields": fields}
    if kind not in _PRIMITIVES:
        raise SchemaMismatch(f"{where}: no schema is recorded, and type {kind} of the newest file has no Avro form")
    return _PRIMITIVES[kind]
