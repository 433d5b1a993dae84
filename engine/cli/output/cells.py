"""Converts Arrow values to JSON values, and to text for a terminal.

No value is rounded: a value without an exact JSON form becomes text.
"""

from __future__ import annotations

import base64
import json
import math

import pyarrow as pa
from pyarrow import types

from penstock.engine.cli.output.terminal_text import printable

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


def json_values(array: pa.Array) -> list[JsonValue]:
    """Each value of the array as JSON.

    Decimals: text, all digits. Timestamps: ISO text with microseconds, `Z` at the end if they are UTC instants; the
    number as text if Arrow has no such year. Dates, times: ISO text; far dates as timestamps. Binary: base64. NaN
    and infinities: the texts NaN, Infinity, -Infinity. Structs and maps: objects (a map's keys are text in Hudi).
    Lists: arrays. Null: null.
    """
    type_ = array.type
    if types.is_struct(type_):
        return _structs(array)
    if types.is_map(type_):
        return _maps(array)
    if types.is_list(type_) or types.is_large_list(type_):
        return _lists(array)
    if types.is_timestamp(type_):
        return _timestamps(array)
    if types.is_date32(type_):
        return _dates(array)
    if types.is_date(type_) or types.is_time(type_):
        return list(array.cast(pa.string()).to_pylist())
    if types.is_decimal(type_):
        return [None if value is None else format(value, "f") for value in array.to_pylist()]
    if types.is_binary(type_) or types.is_large_binary(type_) or types.is_fixed_size_binary(type_):
        return [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]
    if types.is_floating(type_):
        return [_float(value) for value in array.to_pylist()]
    return list(array.to_pylist())


def text_values(array: pa.Array) -> list[str]:
    """Each value as one line of text without control characters; nested values as JSON, null as `null`."""
    return [_text(value) for value in json_values(array)]


def _dates(array: pa.Date32Array) -> list[JsonValue]:
    pairs = zip(array.cast(pa.string()).to_pylist(), array.view(pa.int32()).to_pylist(), strict=True)
    return [str(raw) if text is not None and text.startswith("<") else text for text, raw in pairs]


def _timestamps(array: pa.TimestampArray) -> list[JsonValue]:
    zone = "Z" if array.type.tz is not None else ""
    texts = array.view(pa.timestamp(array.type.unit)).cast(pa.string()).to_pylist()
    values: list[JsonValue] = []
    for text, raw in zip(texts, array.view(pa.int64()).to_pylist(), strict=True):
        if text is None:
            values.append(None)
        else:  # Arrow writes "<value out of range: …>" beyond the years it can format
            values.append(str(raw) if text.startswith("<") else text.replace(" ", "T") + zone)
    return values


def _structs(array: pa.StructArray) -> list[JsonValue]:
    names = [field.name for field in array.type]
    columns = [json_values(child) for child in array.flatten()]
    rows = zip(*columns, strict=True) if columns else ((),) * len(array)
    valid = array.is_valid().to_pylist()
    return [dict(zip(names, row, strict=True)) if is_valid else None for row, is_valid in zip(rows, valid, strict=True)]


def _maps(array: pa.MapArray) -> list[JsonValue]:
    keys, items = json_values(array.keys), json_values(array.items)
    values: list[JsonValue] = []
    for begin, end in _ranges(array):
        entries = zip(keys[begin:end], items[begin:end], strict=True)
        values.append(
            None if begin is None else {key if isinstance(key, str) else _text(key): item for key, item in entries}
        )
    return values


def _lists(array: pa.ListArray) -> list[JsonValue]:
    items = json_values(array.values)
    return [None if begin is None else items[begin:end] for begin, end in _ranges(array)]


def _ranges(array: pa.Array) -> list[tuple[int | None, int | None]]:
    """The range of each row's entries in the child array; (None, None) for a null row."""
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [(offsets[i], offsets[i + 1]) if is_valid else (None, None) for i, is_valid in enumerate(valid)]


def _float(value: float | None) -> JsonValue:
    if value is None or math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _text(value: JsonValue) -> str:
    if isinstance(value, str):
        return printable(value)
    return printable(json.dumps(value, ensure_ascii=False))
