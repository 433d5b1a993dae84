"""Converts a row of an older schema to a newer one, value by value, in plain Python: the rules of type promotion.

Types are Avro's JSON, without logical types except date and decimal; unions are null and one type. Text of floats is
Java's, which equals Python's between 0.001 and 10000000.
"""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Mapping
from typing import Any


def widen_row(row: Mapping[str, Any], written: Mapping[str, Any], target: Mapping[str, Any]) -> dict[str, Any]:
    """The row with the fields of the record `target`; those that the record `written` lacks are None."""
    types = {field["name"]: field["type"] for field in written["fields"]}
    return {
        field["name"]: widen(row[field["name"]], types[field["name"]], field["type"])
        if field["name"] in types
        else None
        for field in target["fields"]
    }


def widen(value: Any, written: Any, expected: Any) -> Any:
    """One value."""
    written, expected = _not_null(written), _not_null(expected)
    if value is None:
        return None
    source = written["type"] if isinstance(written, dict) else written
    target = expected["type"] if isinstance(expected, dict) else expected
    if source == "record":
        return widen_row(value, written, expected)
    if source == "array":
        return [widen(item, written["items"], expected["items"]) for item in value]
    if source == "map":
        items = value.items() if isinstance(value, Mapping) else value
        return [(key, widen(item, written["values"], expected["values"])) for key, item in items]
    if isinstance(expected, dict) and expected.get("logicalType") == "decimal":
        exact = decimal.Decimal(_shortest_float(value) if source == "float" else str(value))
        rounded = exact.quantize(decimal.Decimal(1).scaleb(-expected["scale"]), decimal.ROUND_HALF_UP)
        return rounded if rounded else rounded.copy_abs()  # Java's BigDecimal has no negative zero
    if isinstance(expected, dict) and expected.get("logicalType") == "date" and source == "string":
        return datetime.date.fromisoformat(value)
    if source == target:
        return value
    if target == "string":
        return _text(value, source)
    if target == "bytes":
        return value.encode()
    if target == "float":
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if target == "double":
        return float(_shortest_float(value)) if source == "float" else float(value)
    assert (source, target) == ("int", "long"), (source, target)
    return value


def _text(value: Any, source: str) -> str:
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if source == "bytes":
        return _java_decoded(value)
    return _shortest_float(value) if source == "float" else str(value)


def _java_decoded(value: bytes) -> str:
    """UTF-8 with U+FFFD for invalid bytes; an encoded surrogate is one such character."""
    text, place = "", 0
    while place < len(value):
        piece = value[place : place + 3]
        if (
            len(piece) == 3
            and piece[0] == 0xED
            and piece[1] >= 0xA0
            and all(0x80 <= byte <= 0xBF for byte in piece[1:])
        ):
            text, place = text + "\ufffd", place + 3
            continue
        end = place + 1
        while end < len(value) and 0x80 <= value[end] <= 0xBF:
            end += 1
        text, place = text + value[place:end].decode("utf-8", "replace"), end
    return text


def _shortest_float(value: float) -> str:
    """The decimal with the fewest digits that is this 32-bit float."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("<f", float(text)) == struct.pack("<f", value):
            return repr(float(text))
    raise AssertionError(f"{value!r} is no 32-bit float")


def _not_null(node: Any) -> Any:
    return next(part for part in node if part != "null") if isinstance(node, list) else node
