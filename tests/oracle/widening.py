"""A row of an older schema as a newer one's, value by value, in plain Python: what type promotion means.

Types are Avro's JSON, without logical types but date and decimal; unions are null and one type. Text of floats is
Java's, which is Python's between 0.001 and 10000000.
"""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Mapping
from typing import Any


def widen_row(row: Mapping[str, Any], written: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The row with the fields of the record `wanted`; those that the record `written` lacks are None."""
    types = {field["name"]: field["type"] for field in written["fields"]}
    return {
        field["name"]: widen(row[field["name"]], types[field["name"]], field["type"])
        if field["name"] in types
        else None
        for field in wanted["fields"]
    }


def widen(value: Any, written: Any, wanted: Any) -> Any:
    """One value."""
    written, wanted = _not_null(written), _not_null(wanted)
    if value is None:
        return None
    source = written["type"] if isinstance(written, dict) else written
    target = wanted["type"] if isinstance(wanted, dict) else wanted
    if source == "record":
        return widen_row(value, written, wanted)
    if source == "array":
        return [widen(item, written["items"], wanted["items"]) for item in value]
    if source == "map":
        items = value.items() if isinstance(value, Mapping) else value
        return [(key, widen(item, written["values"], wanted["values"])) for key, item in items]
    if isinstance(wanted, dict) and wanted.get("logicalType") == "decimal":
        exact = decimal.Decimal(_shortest_float(value) if source == "float" else str(value))
        return exact.quantize(decimal.Decimal(1).scaleb(-wanted["scale"]))
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
    if source == "bytes":
        return value.decode()
    return _shortest_float(value) if source == "float" else str(value)


def _shortest_float(value: float) -> str:
    """The decimal with the fewest digits that is this 32-bit float."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("<f", float(text)) == struct.pack("<f", value):
            return repr(float(text))
    raise AssertionError(f"{value!r} is no 32-bit float")


def _not_null(node: Any) -> Any:
    return next(part for part in node if part != "null") if isinstance(node, list) else node
