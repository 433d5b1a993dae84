"""Which values of a record are gaps that another record's value fills, by Hudi's partial update modes.

Belongs here: one rule a mode, over one column of a batch. Not here: which record is above which (`chains`), putting
values together (`filling`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import UnsupportedFeature
from penstock.proto.splits import FillDefaults, FillMarked, FillMode, FillNulls, Scan
from penstock.table.schema.avro import ArrayType, AvroType, MapType, Primitive, RecordSchema

HELD: Final = "held: "
"""Before a column's name: the boolean column that tells which records have that column at all."""

Gaps = Callable[[pa.RecordBatch, str], pa.BooleanArray | None]
"""(a batch, a column of it) -> true where its value is a gap, never null; None if none is."""

_CACHED: Final = range(-128, 128)
_MILLIS: Final = ("time-millis", "timestamp-millis", "local-timestamp-millis")


def gaps_of(scan: Scan, record: RecordSchema) -> Gaps:
    """The rule of the scan's fill mode. UnsupportedFeature for a default whose comparison is not known here."""
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
    """Whether a newer record that does not win fills the gaps of the older one."""
    return fill.from_newer if isinstance(fill, FillMarked) else True


def shows_last_writer(fill: FillMode) -> bool:
    """Whether a filled row shows the meta columns of the record written last, not of the one that wins."""
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
        return _some(pc.equal(_lengths(column), 0).fill_null(False))
    return _some(pc.equal(column, value).fill_null(False))


def _lengths(column: pa.Array) -> pa.Array:
    if pa.types.is_map(column.type):
        lengths = pa.array(np.diff(column.offsets.to_numpy()), pa.int32())
        return pc.if_else(column.is_valid(), lengths, None)
    return pc.list_value_length(column)


def _defaults(scan: Scan, record: RecordSchema, by_identity: bool) -> dict[str, pa.Scalar | None]:
    """The defaults other than null by column; None for one that no value is taken for."""
    found: dict[str, pa.Scalar | None] = {}
    kinds = record.by_name()
    for field in json.loads(scan.schema_json)["fields"]:
        default = field.get("default")
        if default is not None:
            place = f"table {scan.table}: column {field['name']!r}"
            found[field["name"]] = _default(kinds[field["name"]].type, default, by_identity, place)
    return found


def _default(kind: AvroType, default: Any, by_identity: bool, place: str) -> pa.Scalar | None:
    """As a value that Arrow compares, or None if Hudi takes no value for it."""
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
            if len(default):
                raise UnsupportedFeature(f"{place}: default {json.dumps(default)[:60]} in a table of partial updates")
            return pa.scalar(0, pa.int32())
    return None


def _moment(logical: str, whole: int) -> pa.Scalar:
    if logical == "date":
        return pa.scalar(whole, pa.int32()).cast(pa.date32())
    if logical.startswith("time-"):
        return pa.scalar(whole, pa.int64()).cast(pa.time64("us"))
    return pa.scalar(whole, pa.int64()).cast(pa.timestamp("us", None if logical.startswith("local") else "UTC"))
