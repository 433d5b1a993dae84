"""Decodes JSON objects to columns in bulk: two compiled passes, and `JsonRows` for objects they cannot decode exactly.

`json.values` defines the value of each JSON token; the kernels only decode tokens for which they give the same value.
Columns of other types are decoded value by value, without their records.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.reader.kernels import json_scan as scan
from penstock.reader.kernels import json_values as kernel
from penstock.reader.topics.json.objects import JsonObjects, Spans, Tokens, spans_of
from penstock.reader.topics.json.rows import JsonRows
from penstock.reader.topics.json.texts import parse_json
from penstock.reader.topics.json.values import Converter, converter
from penstock.reader.topics.record.decoded import Unfit, Values, replaced
from penstock.table.schema.avro import AvroField, AvroType, Primitive

_INT_MAX: Final = (1 << 31) - 1
_LONG_MAX: Final = (1 << 63) - 1
_EXACT: Final = {"double": (1 << 53, 22), "float": (1 << 24, 10)}
"""The digits and powers of ten for which one multiplication or division rounds once."""


class JsonColumns:
    """Decodes to these columns, with the results of `JsonRows`. For one thread at a time."""

    def __init__(self, fields: Sequence[AvroField], schema: pa.Schema, known: Collection[str]) -> None:
        self._rows = JsonRows(fields, schema, known)
        self._schema = schema
        self._columns = [JsonColumn(field.type, schema.field(field.name).type) for field in fields]
        self._objects = JsonObjects([field.name for field in fields], known)

    def values(self, texts: Sequence[bytes | None]) -> Values:
        """See `JsonRows.values`. A name without a column that is in a record twice counts twice."""
        parsed, slow, unknown_members = self.parsed(spans_of(texts))
        unknown = int(unknown_members[slow == 0].sum())
        places = [place for place in np.flatnonzero(slow).tolist() if texts[place] is not None]
        if not places:
            return Values(rows=parsed, reasons={}, unknown=unknown)
        others = self._rows.values([texts[place] for place in places])
        reasons = {places[number]: reason for number, reason in others.reasons.items()}
        return Values(rows=replaced(parsed, places, others.rows), reasons=reasons, unknown=unknown + others.unknown)

    def parsed(self, spans: Spans) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray]:
        """(columns; which rows `JsonRows` must decode (not 0; their values here are undefined); for the others, how
        many members have no column)."""
        objects = self._objects.scanned(spans)
        columns = [column.array(tokens) for column, tokens in zip(self._columns, objects.members, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema), objects.slow, objects.unknown_members


class JsonColumn:
    """Decodes one column's tokens. Immutable."""

    def __init__(self, kind: AvroType, target: pa.DataType) -> None:
        self._kind = kind if isinstance(kind, Primitive) else Primitive("")
        self._target = target
        self._convert: Converter = converter(kind)

    def array(self, tokens: Tokens) -> pa.Array:
        """The column; rows that cannot be decoded are marked in `tokens.slow`."""
        match self._kind:
            case Primitive("boolean"):
                return self._booleans(tokens)
            case Primitive("float" | "double" as kind):
                return self._reals(tokens, *_EXACT[kind])
            case Primitive("string" | "bytes"):
                return self._texts(tokens)
            case Primitive("int", "" | "date") | Primitive("long", ""):
                return self._wholes(tokens)
            case Primitive("long", logical) if "timestamp" in logical:
                return self._stamps(tokens, logical)
        return self._others(tokens)

    def _booleans(self, tokens: Tokens) -> pa.Array:
        wide, valid = _lanes(tokens)
        kernel.booleans(tokens.at, wide, valid, tokens.slow)
        return self._array(valid, np.packbits(wide.astype(np.uint8), bitorder="little"))

    def _wholes(self, tokens: Tokens) -> pa.Array:
        wide, valid = _lanes(tokens)
        limit = _INT_MAX if self._kind.kind == "int" else _LONG_MAX
        if self._kind.logical == "date":
            kernel.days(tokens.data, tokens.at, wide, valid, tokens.slow)
        else:
            kernel.whole_numbers(tokens.data, tokens.at, limit, 1, wide, valid, tokens.slow)
        return self._array(valid, wide.astype(np.int32) if limit == _INT_MAX else wide)

    def _stamps(self, tokens: Tokens, logical: str) -> pa.Array:
        wide, valid = _lanes(tokens)
        scale = 1000 if logical.endswith("-millis") else 1
        local = logical.startswith("local-")
        kernel.stamps(tokens.data, tokens.at, _LONG_MAX // scale, scale, local, wide, valid, tokens.slow)
        return self._array(valid, wide)

    def _reals(self, tokens: Tokens, most_digits: int, largest_power: int) -> pa.Array:
        _, valid = _lanes(tokens)
        real, undecoded = np.zeros(tokens.rows, np.float64), np.zeros(tokens.rows, np.uint8)
        kernel.reals(tokens.data, tokens.at, most_digits, largest_power, real, valid, undecoded, tokens.slow)
        rows = np.flatnonzero(undecoded)
        if len(rows):
            numbers = pa.array([tokens.cut(row).decode("ascii") for row in rows.tolist()], pa.string())
            values = numbers.cast(self._target).to_numpy().astype(np.float64)
            real[rows] = values + 0.0
            tokens.slow[rows[~np.isfinite(values)]] = 1
        return self._array(valid, real.astype(np.float32) if self._target == pa.float32() else real)

    def _texts(self, tokens: Tokens) -> pa.Array:
        _, valid = _lanes(tokens)
        offsets = np.zeros(tokens.rows + 1, np.int32)
        lengths = (tokens.at[2] - tokens.at[1])[tokens.at[0] != scan.ABSENT]
        text = np.empty(int(lengths.sum()) + 1, np.uint8)
        kernel.texts(tokens.data, tokens.at, offsets, text, valid, tokens.slow)
        return self._array(valid, offsets, text[: offsets[-1]])

    def _others(self, tokens: Tokens) -> pa.Array:
        cells: list[object] = [None] * tokens.rows
        for row in np.flatnonzero(tokens.at[0] != scan.ABSENT).tolist():
            try:
                cells[row] = self._convert(parse_json(tokens.cut(row)))
            except Unfit:
                tokens.slow[row] = 1
        return pa.array(cells, self._target)

    def _array(self, valid: np.ndarray, *lanes: np.ndarray) -> pa.Array:
        """The column of these buffers."""
        validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [validity, *(pa.py_buffer(lane) for lane in lanes)]
        return pa.Array.from_buffers(self._target, len(valid), buffers)


def _lanes(tokens: Tokens) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(tokens.rows, np.int64), np.zeros(tokens.rows, np.uint8)
