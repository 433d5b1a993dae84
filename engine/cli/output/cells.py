"""Arrow values as JSON values and as text for a terminal.

Belongs here: how one value looks. Not here: rows, files, streams (`output`). Nothing is rounded: what JSON has no exact
form for becomes text.
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
    number as text where Arrow has no year for it. Dates, times: ISO text; far dates as timestamps. Binary: base64. NaN
    and infinities: the texts NaN, Infinity, -Infinity. Structs and maps: objects (a map's keys are text in Hudi).
    Lists: arrays. Null: null.
    """
    kind = array.type
    if types.is_struct(kind):
        return _structs(array)
    if types.is_map(kind):
        return _maps(array)
    if types.is_list(kind) or types.is_large_list(kind):
        return _lists(array)
    if types.is_timestamp(kind):
        return _timestamps(array)
    if types.is_date32(kind):
        return _dates(array)
    if types.is_date(kind) or types.is_time(kind):
        return list(array.cast(pa.string()).to_pylist())
    if types.is_decimal(kind):
        return [None if value is None else format(value, "f") for value in array.to_pylist()]
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]
    if types.is_floating(kind):
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
    found: list[JsonValue] = []
    for text, raw in zip(texts, array.view(pa.int64()).to_pylist(), strict=True):
        if text is None:
            found.append(None)
        else:  # Arrow writes "<value out of range: …>" beyond the years it can format
            found.append(str(raw) if text.startswith("<") else text.replace(" ", "T") + zone)
    return found


def _structs(array: pa.StructArray) -> list[JsonValue]:
    names = [field.name for field in array.type]
    columns = [json_values(child) for child in array.flatten()]
    rows = zip(*columns, strict=True) if columns else ((),) * len(array)
    valid = array.is_valid().to_pylist()
    return [dict(zip(names, row, strict=True)) if there else None for row, there in zip(rows, valid, strict=True)]


def _maps(array: pa.MapArray) -> list[JsonValue]:
    keys, items = json_values(array.keys), json_values(array.items)
    found: list[JsonValue] = []
    for begin, end in _ranges(array):
        entries = zip(keys[begin:end], items[begin:end], strict=True)
        found.append(
            None if begin is None else {key if isinstance(key, str) else _text(key): item for key, item in entries}
        )
    return found


def _lists(array: pa.ListArray) -> list[JsonValue]:
    items = json_values(array.values)
    return [None if begin is None else items[begin:end] for begin, end in _ranges(array)]


def _ranges(array: pa.Array) -> list[tuple[int | None, int | None]]:
    """Where each row's entries lie in the child array; (None, None) for a null row."""
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [(offsets[i], offsets[i + 1]) if there else (None, None) for i, there in enumerate(valid)]


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
