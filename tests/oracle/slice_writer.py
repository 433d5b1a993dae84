"""Base and log files in Hudi's layout, for tests, as a small writer would write them."""

from __future__ import annotations

import base64
import io
import json
import pathlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.oracle.log_file import (
    AVRO_DATA,
    COMMAND,
    COMMAND_TYPE,
    COMPACTED,
    DELETE,
    DELETE_LIST,
    INSTANT_TIME,
    PARQUET_DATA,
    PARTIAL,
    POSITIONS,
    POSITIONS_BASE,
    SCHEMA,
    TARGET_INSTANT_TIME,
)

META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)


def table_schema(fields: Mapping[str, Any], *, with_meta: bool = True) -> dict[str, Any]:
    """An Avro record with the meta columns in front; every field nullable."""
    columns = {**dict.fromkeys(META if with_meta else (), "string"), **fields}
    return {
        "type": "record",
        "name": "row",
        "fields": [{"name": name, "type": ["null", kind], "default": None} for name, kind in columns.items()],
    }


def block(kind: int, headers: Mapping[int, str], content: bytes) -> bytes:
    """One whole block."""
    head = struct.pack(">i", len(headers))
    for ordinal, text in headers.items():
        encoded = text.encode()
        head += struct.pack(">ii", ordinal, len(encoded)) + encoded
    rest = struct.pack(">ii", 1, kind) + head + struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    size = len(rest) + 8
    return b"#HUDI#" + struct.pack(">q", size) + rest + struct.pack(">q", size + 6)


def data_block(
    schema: dict[str, Any],
    rows: Sequence[Mapping[str, Any]],
    instant: str,
    *,
    positions: tuple[str, Sequence[int]] | None = None,
    partial: bool = False,
    compacted: str = "",
    kind: int = AVRO_DATA,
) -> bytes:
    """An Avro data block; `positions` is (base instant, row of each record)."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    body = b""
    for row in rows:
        one = io.BytesIO()
        fastavro.schemaless_writer(one, parsed, {"_hoodie_commit_time": instant, **row})
        body += struct.pack(">i", one.tell()) + one.getvalue()
    headers = {SCHEMA: json.dumps(schema), INSTANT_TIME: instant, **_position_headers(positions)}
    if partial:
        headers[PARTIAL] = "true"
    if compacted:
        headers[COMPACTED] = compacted
    return block(kind, headers, struct.pack(">ii", 3, len(rows)) + body)


def delete_block(
    entries: Sequence[tuple[str, str, Any]],
    instant: str,
    *,
    positions: tuple[str, Sequence[int]] | None = None,
    compacted: str = "",
    schema: dict[str, Any] | None = None,
) -> bytes:
    """A delete block of version 3 of (key, wrapper's name or '', value)."""
    records = [
        {
            "recordKey": key,
            "partitionPath": "",
            "orderingVal": (wrapper, _wrapped(wrapper, value)) if wrapper else None,
        }
        for key, wrapper, value in entries
    ]
    body = io.BytesIO()
    fastavro.schemaless_writer(body, DELETE_LIST, {"deleteRecordList": records})
    content = struct.pack(">ii", 3, body.tell()) + body.getvalue()
    headers = {INSTANT_TIME: instant, SCHEMA: json.dumps(schema or {}), **_position_headers(positions)}
    if compacted:
        headers[COMPACTED] = compacted
    return block(DELETE, headers, content)


def parquet_block(
    schema: pa.Schema,
    rows: Sequence[Mapping[str, Any]],
    instant: str,
    *,
    positions: tuple[str, Sequence[int]] | None = None,
    row_group_rows: int = 1 << 20,
    compression: str = "snappy",
) -> bytes:
    """A Parquet data block: its content is a whole file."""
    body = io.BytesIO()
    table = pa.Table.from_pylist([{"_hoodie_commit_time": instant, **row} for row in rows], schema)
    pq.write_table(table, body, row_group_size=row_group_rows, compression=compression, store_schema=False)
    return block(PARQUET_DATA, {SCHEMA: "{}", INSTANT_TIME: instant, **_position_headers(positions)}, body.getvalue())


def _wrapped(wrapper: str, value: Any) -> dict[str, Any]:
    if wrapper != "ArrayWrapper":
        return {"value": value}
    return {"wrappedValues": [(name, {"value": item}) if name else None for name, item in value]}


def rollback_block(target: str, instant: str) -> bytes:
    """A command block that rolls back `target`."""
    return block(COMMAND, {INSTANT_TIME: instant, TARGET_INSTANT_TIME: target, COMMAND_TYPE: "0"}, b"")


def roaring(places: Sequence[int]) -> str:
    """Base64 of `Roaring64NavigableMap.serializePortable`; positions below 2^32, ascending."""
    containers: dict[int, list[int]] = {}
    for place in places:
        containers.setdefault(place >> 16, []).append(place & 0xFFFF)
    bitmap = struct.pack("<II", 12346, len(containers))
    bodies, at = b"", 8 + 8 * len(containers)
    offsets = b""
    for key, low in containers.items():
        bitmap += struct.pack("<HH", key, len(low) - 1)
        if len(low) > 4096:
            bits = bytearray(8192)
            for value in low:
                bits[value // 8] |= 1 << value % 8
            body = bytes(bits)
        else:
            body = struct.pack(f"<{len(low)}H", *low)
        offsets += struct.pack("<I", at)
        at += len(body)
        bodies += body
    return base64.b64encode(struct.pack("<QI", 1, 0) + bitmap + offsets + bodies).decode()


def _position_headers(positions: tuple[str, Sequence[int]] | None) -> dict[int, str]:
    if positions is None:
        return {}
    base_instant, places = positions
    return {POSITIONS: roaring(places), POSITIONS_BASE: base_instant}


def write_base(path: pathlib.Path, schema: pa.Schema, row_groups: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """A base file with exactly these row groups (an empty one is omitted)."""
    with pq.ParquetWriter(path, schema, compression="snappy", store_schema=False) as writer:
        for rows in row_groups:
            if rows:
                writer.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema), row_group_size=1 << 20)
