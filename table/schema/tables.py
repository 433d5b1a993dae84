"""The schema of a table: from the newest commit that recorded one, else the schema it was created with. Pure.

Source: Hudi `TableSchemaResolver`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, TypeAlias

from penstock.proto.errors import CorruptFile, SchemaMismatch
from penstock.table.config.properties import TableProperties
from penstock.table.partitions.values import text_fields
from penstock.table.schema.avro import MAX_JSON_BYTES, META_COLUMNS, OPERATION
from penstock.table.storage.uris import redacted_uri

_Record: TypeAlias = dict[str, list[dict[str, object]]]

SCHEMA_HISTORY_KEY: Final = "latest_schema"
"""Key in a commit's extra metadata that marks a schema-on-read table."""


def table_schema_json(
    schemas_newest_first: Iterable[str], properties: TableProperties, *, stores_operation: bool
) -> str:
    """The table's Avro schema, with the meta columns first as nullable strings, unless the table has none.

    Partition columns that the data files leave out, and formatted ones of a bootstrapped table
    (`partitions.values.text_fields`), are nullable strings, last if they are not in the recorded schema.

    `schemas_newest_first` are the schemas that commits recorded (for a time-travel query, up to its instant). Empty
    ones are ignored, as deletes and table services write them. Without any, `hoodie.table.create.schema` is used.

    `stores_operation`: whether `_hoodie_operation` is one of the meta columns. Data files determine it
    (`TableSchemaResolver.hasOperationField`), not a recorded schema with this column.

    CorruptFile for a recorded schema that is not an Avro record; SchemaMismatch if none is recorded.
    """
    recorded = next((text for text in schemas_newest_first if text.strip()), "") or properties.create_schema
    where = f"table {redacted_uri(properties.base_path)}"
    if not recorded.strip():
        raise SchemaMismatch(
            f"no schema: {where} has none in its commits, in hoodie.table.create.schema or in a data file"
        )
    record = _record(recorded, where)
    record = _with_texts(record, text_fields(properties))
    if not properties.populate_meta_fields:
        return json.dumps(record)
    own = [item for item in record["fields"] if item.get("name") not in (*META_COLUMNS, OPERATION)]
    names = (*META_COLUMNS, OPERATION) if stores_operation else META_COLUMNS
    meta = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in names]
    return json.dumps({**record, "fields": [*meta, *own]})


def has_operation(schema_json: str, where: str) -> bool:
    """Whether a data file's Avro schema has the column `_hoodie_operation`.

    CorruptFile, beginning with `where`, for text that is not an Avro record.
    """
    return any(item.get("name") == OPERATION for item in _record(schema_json, where)["fields"])


def _with_texts(record: _Record, columns: Iterable[str]) -> _Record:
    """Makes these columns nullable strings: at their position in the recorded schema, else added last."""
    text: dict[str, object] = {"type": ["null", "string"], "doc": "", "default": None}
    missing = {name.lower(): name for name in columns}
    fields = [
        {"name": item["name"], **text} if missing.pop(str(item.get("name")).lower(), None) is not None else item
        for item in record["fields"]
    ]
    return {**record, "fields": [*fields, *({"name": name, **text} for name in missing.values())]}


def _record(text: str, where: str) -> _Record:
    """Decodes a record schema, and checks that it has fields."""
    if len(text) > MAX_JSON_BYTES:
        raise CorruptFile(f"schema of {where} has {len(text)} characters, at most {MAX_JSON_BYTES} are read")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"schema of {where} is not JSON ({str(error)[:200]}): got {text[:80]!r}") from error
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not (isinstance(fields, list) and fields and all(isinstance(item, dict) for item in fields)):
        raise CorruptFile(f"schema of {where} is not an Avro record with fields: got {text[:80]!r}")
    return schema  # type: ignore[no-any-return]
