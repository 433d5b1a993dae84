"""Which values of a record are gaps that another record's value fills, by Hudi's partial update modes.

One rule per mode, over one column of a batch. `chains` decides which record is above which, `filling` puts values
together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.proto.model.splits import FillDefaults, FillMarked, FillMode, FillNulls, Scan
from penstock.table.arrow_arrays import arrow_array, numpy_array, true_rows
from penstock.table.arrow_compute import pc
from penstock.table.schema.avro import ArrayType, AvroType, MapType, Primitive, RecordSchema

HELD: Final = "held: "
"""Prefix of a column's name: the boolean column that says which records have that column."""

Gaps = Callable[[pa.RecordBatch, str], pa.BooleanArray | None]
"""(a batch, a column of it) -> true where its value is a gap, never null; None if there is no gap."""

_CACHED: Final = range(-128, 128)
_PLAIN: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
_MOST_ELEMENTS: Final = 1000
_MILLIS: Final = ("time-millis", "timestamp-millis", "local-timestamp-millis")


def gaps_of(scan: Scan, record: RecordSchema) -> Gaps:
    """The rule of the scan's fill mode."""
    match scan.fill:
        case FillDefaults(by_identity):
            defaults = _defaults(scan, record, by_identity)
            return lambda batch, name: _default_gaps(batch.column(name), name, defaults)
        case FillMarked(marker, _):
            fields = record.by_name()
            texts = {name for name, field in fields.items() if _is_text(field.type)}
            return lambda batch, name: _marked(batch.column(name), marker) if name in texts else None
    return lambda batch, name: _some(batch.column(name).is_null())


def absent(batch: pa.RecordBatch, name: str) -> pa.BooleanArray | None:
    """The rule of partial update blocks (KEEP_VALUES): a gap is a column that the record does not have."""
    held = HELD + name
    return _some(pc.invert(batch.column(held))) if held in batch.schema.names else None


def fills_from_newer(fill: FillMode) -> bool:
    """Whether a newer record that loses fills the gaps of the older one."""
    return fill.from_newer if isinstance(fill, FillMarked) else True


def shows_last_writer(fill: FillMode) -> bool:
    """Whether a filled row has the meta columns of the record written last, not of the winner."""
    return isinstance(fill, FillNulls)


def _some(answers: pa.BooleanArray) -> pa.BooleanArray | None:
    return answers if answers.true_count else None


def _is_text(kind: AvroType) -> bool:
    return isinstance(kind, Primitive) and kind.kind in ("string", "bytes")


def _marked(column: pa.Array, marker: str) -> pa.BooleanArray | None:
    value = pa.scalar(marker.encode() if pa.types.is_binary(column.type) else marker, column.type)
    return _some(pc.equal(column, value).fill_null(False))


def _default_gaps(column: pa.Array, name: str, defaults: Mapping[str, pa.Scalar | None]) -> pa.BooleanArray | None:
    if name not in defaults:
        return _some(column.is_null())
    value = defaults[name]
    if value is None:
        return None
    if pa.types.is_nested(column.type):
        return _some(_is_list(column, value))
    return _some(pc.equal(column, value).fill_null(False))


def _is_list(column: pa.Array, value: pa.Scalar) -> pa.BooleanArray:
    """Which lists or maps have these elements."""
    elements = value.as_py()
    same = pc.equal(_lengths(column), len(elements)).fill_null(False)
    if not elements or not same.true_count:
        return same
    truths = numpy_array(same).copy()
    rows = np.flatnonzero(truths)
    lists = column.take(arrow_array(rows))
    equal = np.ones(len(rows), bool)
    for place, element in enumerate(value.values):
        equal &= true_rows(pc.equal(pc.list_element(lists, place), element))
    truths[rows] = equal
    return arrow_array(truths)


def _lengths(column: pa.Array) -> pa.Array:
    if pa.types.is_map(column.type):
        lengths = arrow_array(np.diff(numpy_array(column.offsets)), pa.int32())
        return pc.if_else(column.is_valid(), lengths, None)
    return pc.list_value_length(column)


def _defaults(scan: Scan, record: RecordSchema, by_identity: bool) -> dict[str, pa.Scalar | None]:
    """The defaults other than null, by column; None for a default that equals no value."""
    defaults: dict[str, pa.Scalar | None] = {}
    kinds = record.by_name()
    for field in json.loads(scan.schema_json)["fields"]:
        default = field.get("default")
        if default is not None:
            defaults[field["name"]] = _default(kinds[field["name"]].type, default, by_identity)
    return defaults


def _default(kind: AvroType, default: Any, by_identity: bool) -> pa.Scalar | None:
    """The default as a value that Arrow compares, or None if Hudi treats no value as the default."""
    match kind:
        case Primitive("boolean", _):
            return pa.scalar(bool(default), pa.bool_())
        case Primitive("int" | "long", logical):
            if by_identity and default not in _CACHED:
                return None
            whole = int(default) * (1000 if logical in _MILLIS else 1)
            if logical:
                return _moment(logical, whole)
            return pa.scalar(whole, pa.int32() if kind.kind == "int" else pa.int64())
        case Primitive("float" | "double" | "string", _) if not by_identity:
            return pa.scalar(default, {"float": pa.float32(), "double": pa.float64()}.get(kind.kind, pa.string()))
        case ArrayType() | MapType() if not by_identity:
            return _nested_default(kind, default)
    return None


def _nested_default(kind: ArrayType | MapType, default: Any) -> pa.Scalar | None:
    """Java treats a list as its default if all elements are equal. Numbers and booleans can be equal; text never is
    (its class differs), and the keys of a map are text."""
    if not len(default):
        return pa.scalar([], pa.list_(pa.int32()))
    items = kind.items if isinstance(kind, ArrayType) else None
    if not isinstance(items, Primitive) or items.logical or items.kind not in _PLAIN or len(default) > _MOST_ELEMENTS:
        return None
    return pa.scalar(default, pa.list_(_PLAIN[items.kind]))


def _moment(logical: str, whole: int) -> pa.Scalar:
    if logical == "date":
        return pa.scalar(whole, pa.int32()).cast(pa.date32())
    if logical.startswith("time-"):
        return pa.scalar(whole, pa.int64()).cast(pa.time64("us"))
    return pa.scalar(whole, pa.int64()).cast(pa.timestamp("us", None if logical.startswith("local") else "UTC"))
