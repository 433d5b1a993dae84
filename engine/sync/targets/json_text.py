"""Arrow values as JSON, column by column. Pure.

Arrays, maps and structs become arrays and objects; numbers keep all their digits. NaN and infinities, which JSON does
not have, are strings, as are dates, times and timestamps (ISO 8601, those with a time zone in UTC and with `Z`). Bytes
are strings of `\\x` and hexadecimal digits, which PostgreSQL casts to `bytea`.
"""

from __future__ import annotations

import json
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import ConfigurationError

_CONTROL: Final = "[\\x00-\\x1f]"
_HEX: Final = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)


def has_json(arrow_type: pa.DataType) -> bool:
    """Whether `json_text` holds all values of the type. The keys of maps must be strings."""
    if pa.types.is_map(arrow_type):
        return arrow_type.key_type == pa.string() and has_json(arrow_type.item_type)
    if pa.types.is_list(arrow_type):
        return has_json(arrow_type.value_type)
    if pa.types.is_struct(arrow_type):
        names = {one.name for one in arrow_type.fields}
        return len(names) == arrow_type.num_fields and all(has_json(one.type) for one in arrow_type.fields)
    return any(is_kind(arrow_type) for is_kind in _SINGLE)


def json_text(values: pa.Array) -> pa.Array:
    """For each value its JSON; null for null. ConfigurationError for a date outside of the years that Arrow writes."""
    kind = values.type
    if pa.types.is_struct(kind):
        text = _objects(values)
    elif pa.types.is_map(kind):
        items = pc.binary_join_element_wise(
            _quoted(_range(values, values.keys)), _present(_range(values, values.items)), ":"
        )
        text = _joined(values, items, "{", "}")
    elif pa.types.is_list(kind):
        text = _joined(values, _present(_range(values, values.values)), "[", "]")
    elif pa.types.is_string(kind):
        return _quoted(values)
    elif pa.types.is_binary(kind):
        return _wrapped(_hexadecimal(values), '"\\\\x', '"')
    elif pa.types.is_floating(kind):
        return _floats(values)
    elif pa.types.is_temporal(kind):
        return _wrapped(_temporal(values), '"', '"')
    else:
        return pc.cast(values, pa.string())
    return pc.if_else(pc.is_valid(values), text, pa.scalar(None, pa.string()))


def _present(values: pa.Array) -> pa.Array:
    return pc.fill_null(json_text(values), "null")


def _wrapped(values: pa.Array, before: str, after: str) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(before), values, pa.scalar(after), "")


def _range(values: pa.Array, children: pa.Array) -> pa.Array:
    """The children of a list or map array, which may be a slice."""
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    return children.slice(first, last - first)


def _joined(values: pa.Array, children: pa.Array, before: str, after: str) -> pa.Array:
    offsets = pc.subtract(values.offsets, values.offsets[0])
    lists = pa.ListArray.from_arrays(offsets, children)
    return _wrapped(pc.binary_join(lists, ","), before, after)


def _objects(values: pa.Array) -> pa.Array:
    parts: list[pa.Array | pa.Scalar] = []
    for index, one in enumerate(values.type):
        parts += [pa.scalar(("," if index else "{") + json.dumps(one.name) + ":"), _present(values.field(index))]
    if not parts:
        return pa.array(["{}"]).take(pa.array(np.zeros(len(values), np.int32)))
    return pc.binary_join_element_wise(*parts, pa.scalar("}"), "")


def _quoted(values: pa.Array) -> pa.Array:
    text = pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(text, _CONTROL)).as_py():
        for code in range(32):
            text = pc.replace_substring(text, chr(code), f"\\u{code:04x}")
    return _wrapped(text, '"', '"')


def _hexadecimal(values: pa.Array) -> pa.Array:
    data = values.buffers()[2]
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    first, last = (int(offsets[0]), int(offsets[-1])) if len(values) else (0, 0)
    digits = _HEX[np.frombuffer(data, np.uint8)[first:last]] if data is not None else np.zeros(0, np.uint8)
    starts = ((offsets - first) * 2).astype(np.int32) if len(values) else np.zeros(1, np.int32)
    text = pa.StringArray.from_buffers(len(values), pa.py_buffer(starts), pa.py_buffer(np.ascontiguousarray(digits)))
    return pc.if_else(pc.is_valid(values), text, pa.scalar(None, pa.string()))


def _floats(values: pa.Array) -> pa.Array:
    text = pc.cast(values, pa.string())
    if pc.all(pc.is_finite(values)).as_py() is not False:
        return text
    text = pc.if_else(pc.is_nan(values), '"NaN"', text)
    infinity = pc.if_else(pc.greater(values, pa.scalar(0, values.type)), '"Infinity"', '"-Infinity"')
    return pc.if_else(pc.is_inf(values), infinity, text)


def _temporal(values: pa.Array) -> pa.Array:
    is_timestamp = pa.types.is_timestamp(values.type)
    text = pc.cast(pc.cast(values, pa.timestamp("us")) if is_timestamp else values, pa.string())
    if pc.any(pc.starts_with(text, "<")).as_py():  # Arrow writes `<value out of range: 4611686018427387904>`
        raise ConfigurationError(f"a {values.type} in a nested column: got a value outside of the years that JSON has")
    if not is_timestamp:
        return text
    text = pc.replace_substring(text, " ", "T", max_replacements=1)
    return text if values.type.tz is None else _wrapped(text, "", "Z")


_SINGLE: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
)
