"""Values of events as Connect sends them, converted to the columns' types: numbers of days and of units of time,
unscaled decimals, bytes as Base64 in JSON, and timestamps with a zone as text. Pure, and without a loop over rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.sync.topics.connect_types import CONNECT_NAME, ZONED, Fields
from penstock.kafka.protocols import SchemaRegistry, UnusableSchema
from penstock.proto.errors import FormatError, SchemaMismatch, UndecodableRecord
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import RecordSchema, parse_record_schema

_INVALID: Final = 255
_PAD: Final = 61
_DAY: Final = {"ms": 86_400_000, "us": 86_400_000_000}
_DECIMAL_BYTES: Final = 16
_SIXES: Final = np.full(256, _INVALID, np.uint8)
_SIXES[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)] = np.arange(64)


def schema_text(fields: Fields) -> str:
    """The fields as an Avro schema."""
    return json.dumps({"type": "record", "name": "row", "fields": fields}, separators=(",", ":"))


def columns_of(text: str, where: str) -> pa.Schema:
    """The columns of a schema of `schema_text`. SchemaMismatch for types that no column can have."""
    return arrow_schema(_parsed(text, where))


def _parsed(text: str, where: str) -> RecordSchema:
    try:
        return parse_record_schema(text, where)
    except FormatError as error:
        raise SchemaMismatch(f"{where}: {error}") from None


def wire_fields(fields: Fields, *, is_json: bool) -> Fields:
    """The fields with the types with which events are decoded before `converted`: those that Connect sends, which are
    numbers and texts, and in Avro bytes."""
    return [{**one, "type": ["null", _wire(one, is_json)]} for one in fields]


def _wire(one: dict[str, Any], is_json: bool) -> Any:
    kind = one["type"][1]
    if _is_zoned(one) or (is_json and _is_bytes(one)):
        return "string"
    return kind["type"] if isinstance(kind, dict) and "logicalType" in kind else kind


def _is_bytes(one: dict[str, Any]) -> bool:
    kind = one["type"][1]
    return kind == "bytes" or (isinstance(kind, dict) and kind.get("type") == "bytes")


def _is_zoned(one: dict[str, Any]) -> bool:
    return one.get(CONNECT_NAME) == ZONED


class PhysicalSchemas:
    """A registry's schemas without logical types, for `wire_fields`. Any thread."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    def schema(self, schema_id: int) -> str:
        """See `SchemaRegistry.schema`."""
        try:
            return json.dumps(_physical(json.loads(self._registry.schema(schema_id))))
        except (ValueError, RecursionError) as error:
            raise UnusableSchema(f"schema {schema_id}: {str(error)[:200]}") from None


def _physical(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _physical(one) for name, one in node.items() if name != "logicalType"}
    return [_physical(one) for one in node] if isinstance(node, list) else node


def converted(rows: pa.RecordBatch, fields: Fields, where: str, *, is_json: bool) -> pa.RecordBatch:
    """Rows of `wire_fields` with the types of the fields; other columns stay. UndecodableRecord, naming the column, for
    a value that is none of its type."""
    columns = columns_of(schema_text(fields), where)
    for one in fields:
        at, target = rows.schema.get_field_index(one["name"]), columns.field(one["name"])
        values = rows.column(at)
        if values.type == target.type:
            continue
        try:
            rows = rows.set_column(at, target, _converted(values, one, target.type, is_json=is_json))
        except (ValueError, pa.ArrowException) as error:
            raise UndecodableRecord(
                f"{where}: column {target.name}: {str(error)[:200]}: expected {target.type}"
            ) from None
    return rows


def _converted(values: pa.Array, one: dict[str, Any], target: pa.DataType, *, is_json: bool) -> pa.Array:
    if _is_zoned(one):
        return pc.cast(values, target)  # more digits than microseconds are an error
    if _is_bytes(one):
        return _bytes(values, target) if is_json else decimals(values, target)
    logical = one["type"][1]["logicalType"]
    if logical == "date":
        return values.cast(target)
    unit = "ms" if logical.endswith("-millis") else "us"
    if pa.types.is_timestamp(target):
        return values.cast(pa.timestamp(unit, target.tz)).cast(target)
    ends = pc.min_max(values).as_py()
    if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < _DAY[unit]:
        raise ValueError("a time outside of the day")
    return values.cast(pa.time32(unit) if unit == "ms" else pa.time64(unit)).cast(target)


def _bytes(texts: pa.Array, target: pa.DataType) -> pa.Array:
    binary = decoded_base64(texts)
    return decimals(binary, target) if pa.types.is_decimal(target) else binary


def decoded_base64(texts: pa.Array) -> pa.Array:
    """The bytes of Base64 texts with padding; nulls stay. ValueError for other texts."""
    count = len(texts)
    bounds, data = _buffers(texts)
    lengths = np.diff(bounds)
    if (lengths % 4).any():
        raise ValueError("a text that is not Base64")
    sixes = _SIXES[data].reshape(-1, 4)
    is_pad = (data == _PAD).reshape(-1, 4)
    pads = is_pad.sum(axis=1)
    is_last = np.zeros(len(sixes), bool)
    is_last[bounds[1:][lengths > 0] // 4 - 1] = True
    is_valid = (sixes[:, :2] != _INVALID).all() and ((sixes != _INVALID) | is_pad).all()
    if not is_valid or (is_pad[:, 2] & ~is_pad[:, 3]).any() or (pads[~is_last] > 0).any():
        raise ValueError("a text that is not Base64")
    groups = np.where(is_pad, 0, sixes).astype(np.uint32)
    words = (groups[:, 0] << 18) | (groups[:, 1] << 12) | (groups[:, 2] << 6) | groups[:, 3]
    octets = np.stack([words >> 16, (words >> 8) & 255, words & 255], axis=1).astype(np.uint8)
    kept = np.arange(3) < (3 - pads)[:, None]
    sizes = np.concatenate([[0], np.cumsum(3 - pads)])
    offsets = sizes[bounds // 4].astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [_validity(texts), pa.py_buffer(offsets), pa.py_buffer(octets[kept].tobytes())]
    )


def decimals(values: pa.Array, target: pa.Decimal128Type) -> pa.Array:
    """Decimals of unscaled values, two's complement with the highest byte first. ValueError for too many digits."""
    bounds, data = _buffers(values)
    lengths = np.diff(bounds)
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    if (lengths[is_valid] == 0).any() or (lengths > _DECIMAL_BYTES).any():
        raise ValueError("a decimal with too many digits, or of no bytes")
    out = np.zeros((len(values), _DECIMAL_BYTES), np.uint8)
    for length in np.unique(lengths[is_valid]).tolist():
        rows = np.flatnonzero((lengths == length) & is_valid)
        part = data[bounds[rows][:, None] + np.arange(length)]
        out[rows] = np.where(part[:, :1] >= 128, 255, 0)
        out[rows, :length] = part[:, ::-1]
    read = pa.Array.from_buffers(target, len(values), [_validity(values), pa.py_buffer(out.tobytes())])
    read.validate(full=True)
    return read


def _buffers(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Where each value begins and ends, and the bytes of all; nulls are empty."""
    filled = pa.concat_arrays([pc.fill_null(values, "" if pa.types.is_string(values.type) else b"")])
    _, offsets, data = filled.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(filled) + 1, 4 * filled.offset).astype(np.int64)
    content = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]] if len(filled) else np.zeros(0, np.uint8)
    return bounds - bounds[0], content


def _validity(values: pa.Array) -> pa.Buffer | None:
    if not values.null_count:
        return None
    return pa.py_buffer(np.packbits(values.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))


def check_decimal_form(values: Sequence[bytes | None], fields: Fields, where: str) -> None:
    """SchemaMismatch if JSON has decimals as numbers (`decimal.format=NUMERIC`): of decimals without a fraction, some
    digits are also Base64."""
    names = [
        one["name"] for one in fields if _is_bytes(one) and one["type"][1] != "bytes" and not one["type"][1]["scale"]
    ]
    if not names:
        return
    number = re.compile(
        b'"(?:%s)" *: *-?[0-9]' % b"|".join(re.escape(json.dumps(name)[1:-1].encode()) for name in names)
    )
    for value in filter(None, values):
        if number.search(value) and any(type(one) in (int, float) for one in _members(value, names)):
            raise SchemaMismatch(
                f"{where}: decimals are JSON numbers: leave out decimal.format=NUMERIC of the JSON converter, or write "
                "Avro"
            )


def _members(value: bytes, names: Iterable[str]) -> list[Any]:
    """The values of these columns in both images."""
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return []  # the decoder names the record
    payload = document.get("payload", document) if isinstance(document, dict) else None
    images = [payload.get(side) for side in ("before", "after")] if isinstance(payload, dict) else []
    return [image.get(name) for image in images if isinstance(image, dict) for name in names]
