"""The Avro schema of logged changes. Pure.

Source: Hudi `HoodieCDCUtils.schemaBySupplementalLoggingMode`.
"""

from __future__ import annotations

import json

from penstock.table.config.change_logging import ChangeLogging


def logged_changes_json(mode: ChangeLogging, data_schema_json: str) -> str:
    """The Avro JSON of the changes that a table logs. `data_schema_json`: of its rows, without meta columns."""
    if mode is ChangeLogging.OP_KEY_ONLY:
        keys = [{"name": name, "type": ["string", "null"]} for name in ("op", "record_key")]
        return _text({"type": "record", "name": "Record", "fields": keys})
    row = json.loads(data_schema_json)
    namespace, _, name = row["name"].rpartition(".")
    namespace = namespace or row.get("namespace", "")
    fields = [_field("op", "string")]
    if mode is ChangeLogging.DATA_BEFORE:
        fields += [_field("record_key", "string"), _field("before", row)]
    else:
        fields += [_field("ts_ms", "string"), _field("before", row)]
        fields += [_field("after", f"{namespace}.{name}" if namespace else name)]
    record = {"type": "record", "name": "CDC", "namespace": namespace, "doc": "", "fields": fields}
    return _text(record if namespace else {key: part for key, part in record.items() if key != "namespace"})


def _field(name: str, kind: object) -> dict[str, object]:
    return {"name": name, "type": ["null", kind], "doc": "", "default": None}


def _text(record: object) -> str:
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)
