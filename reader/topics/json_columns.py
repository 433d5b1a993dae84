"""JSON objects as columns in bulk: two compiled passes for what they take exactly, the row-wise road for the rest.

Belongs here: which column is made how, lanes handed to Arrow. What a value becomes is decided by `json_values`; the
kernels take only what they make the same of. Columns of other types go value by value, their records do not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.reader.avro_compiled import frozen
from penstock.reader.kernels import json_scan as scan
from penstock.reader.kernels import json_values as kernel
from penstock.reader.topics.decoded import Values, replaced
from penstock.reader.topics.json_rows import JsonRows
from penstock.reader.topics.json_texts import parse_json
from penstock.reader.topics.json_values import Converter, converter
from penstock.reader.topics.problems import Unfit
from penstock.table.schema.avro import AvroField, AvroType, Primitive

_INT_MAX: Final = (1 << 31) - 1
_LONG_MAX: Final = (1 << 63) - 1
_REMEMBERED: Final = 1024
_EXACT: Final = {"double": (1 << 53, 22), "float": (1 << 24, 10)}
"""Digits and powers of ten by which one multiplication or division rounds once."""


@dataclass(frozen=True, slots=True, eq=False)
class _Tokens:
    """One column of one chunk: the bytes, where its values are in them, and which records are for the other road."""

    data: np.ndarray
    at: np.ndarray
    slow: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.slow)


class JsonColumns:
    """Decodes to these columns, with the answers of `JsonRows`. Not for two threads at once."""

    def __init__(self, fields: Sequence[AvroField], schema: pa.Schema, known: Collection[str]) -> None:
        self._rows = JsonRows(fields, schema, known)
        self._schema = schema
        self._columns = [_Column(field.type, schema.field(field.name).type) for field in fields]
        own = {field.name for field in fields}
        names = [name.encode() for name in (*(f.name for f in fields), *sorted(n for n in known if n not in own))]
        self._names = frozen(np.frombuffer(b"".join(names) + b"\0", np.uint8))
        self._bounds = frozen(np.concatenate([[0], np.cumsum([len(name) for name in names])]).astype(np.int64))
        self._table = frozen(_table(names))
        self._order = np.full(_REMEMBERED, -1, np.int64)

    def values(self, texts: Sequence[bytes | None]) -> Values:
        """See `JsonRows.values`. A name that is no column's and comes twice in a record counts twice."""
        joined = pa.array(texts, pa.binary())
        if isinstance(joined, pa.ChunkedArray) or not len(joined):
            return self._rows.values(texts)
        data, tokens, strange = self._scanned(joined)
        slow = (strange < 0).astype(np.uint8)
        columns = [column.array(_Tokens(data, at, slow)) for column, at in zip(self._columns, tokens, strict=True)]
        parsed = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        unknown = int(strange[slow == 0].sum())
        there = joined.is_valid().to_numpy(zero_copy_only=False)
        places = np.flatnonzero((slow != 0) & there).tolist()
        if not places:
            return Values(rows=parsed, reasons={}, unknown=unknown)
        others = self._rows.values([texts[place] for place in places])
        reasons = {places[number]: reason for number, reason in others.reasons.items()}
        return Values(rows=replaced(parsed, places, others.rows), reasons=reasons, unknown=unknown + others.unknown)

    def _scanned(self, joined: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The bytes, the columns' tokens, and of each record the count of unknown fields or -1 (not taken)."""
        count = len(joined)
        _, offsets, content = joined.buffers()
        bounds = np.frombuffer(offsets, np.int32, count + 1).astype(np.int64)
        data = frozen(np.frombuffer(content or b"\0", np.uint8))
        tokens = np.full((len(self._columns), 3, count), -1, np.int64)
        strange = np.zeros(count, np.int64)
        begin, end = frozen(bounds[:-1]), frozen(bounds[1:])
        scan.scan_records(data, begin, end, self._names, self._bounds, self._table, self._order, tokens, strange)
        return data, tokens, strange


class _Column:
    """How one column is made."""

    def __init__(self, kind: AvroType, target: pa.DataType) -> None:
        self._kind = kind if isinstance(kind, Primitive) else Primitive("")
        self._target = target
        self._convert: Converter = converter(kind)

    def array(self, tokens: _Tokens) -> pa.Array:
        """The column; `tokens.slow` tells of records that it could not take."""
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

    def _booleans(self, tokens: _Tokens) -> pa.Array:
        wide, valid = _lanes(tokens)
        kernel.booleans(tokens.at, wide, valid, tokens.slow)
        return self._made(valid, np.packbits(wide.astype(np.uint8), bitorder="little"))

    def _wholes(self, tokens: _Tokens) -> pa.Array:
        wide, valid = _lanes(tokens)
        limit = _INT_MAX if self._kind.kind == "int" else _LONG_MAX
        if self._kind.logical == "date":
            kernel.days(tokens.data, tokens.at, wide, valid, tokens.slow)
        else:
            kernel.whole_numbers(tokens.data, tokens.at, limit, 1, wide, valid, tokens.slow)
        return self._made(valid, wide.astype(np.int32) if limit == _INT_MAX else wide)

    def _stamps(self, tokens: _Tokens, logical: str) -> pa.Array:
        wide, valid = _lanes(tokens)
        scale = 1000 if logical.endswith("-millis") else 1
        local = logical.startswith("local-")
        kernel.stamps(tokens.data, tokens.at, _LONG_MAX // scale, scale, local, wide, valid, tokens.slow)
        return self._made(valid, wide)

    def _reals(self, tokens: _Tokens, most_digits: int, furthest: int) -> pa.Array:
        _, valid = _lanes(tokens)
        real, left = np.zeros(tokens.rows, np.float64), np.zeros(tokens.rows, np.uint8)
        kernel.reals(tokens.data, tokens.at, most_digits, furthest, real, valid, left, tokens.slow)
        rows = np.flatnonzero(left)
        if len(rows):
            numbers = pa.array([_cut(tokens, row).decode("ascii") for row in rows.tolist()], pa.string())
            found = numbers.cast(self._target).to_numpy().astype(np.float64)
            real[rows] = found + 0.0
            tokens.slow[rows[~np.isfinite(found)]] = 1
        return self._made(valid, real.astype(np.float32) if self._target == pa.float32() else real)

    def _texts(self, tokens: _Tokens) -> pa.Array:
        _, valid = _lanes(tokens)
        offsets = np.zeros(tokens.rows + 1, np.int32)
        lengths = (tokens.at[2] - tokens.at[1])[tokens.at[0] != scan.ABSENT]
        text = np.empty(int(lengths.sum()) + 1, np.uint8)
        kernel.texts(tokens.data, tokens.at, offsets, text, valid, tokens.slow)
        return self._made(valid, offsets, text[: offsets[-1]])

    def _others(self, tokens: _Tokens) -> pa.Array:
        cells: list[object] = [None] * tokens.rows
        for row in np.flatnonzero(tokens.at[0] != scan.ABSENT).tolist():
            try:
                cells[row] = self._convert(parse_json(_cut(tokens, row)))
            except Unfit:
                tokens.slow[row] = 1
        return pa.array(cells, self._target)

    def _made(self, valid: np.ndarray, *lanes: np.ndarray) -> pa.Array:
        """The column of these buffers."""
        validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [validity, *(pa.py_buffer(lane) for lane in lanes)]
        return pa.Array.from_buffers(self._target, len(valid), buffers)


def _lanes(tokens: _Tokens) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(tokens.rows, np.int64), np.zeros(tokens.rows, np.uint8)


def _cut(tokens: _Tokens, row: int) -> bytes:
    """The bytes of a value."""
    return bytes(tokens.data[tokens.at[1, row] : tokens.at[2, row]])


def _table(names: Sequence[bytes]) -> np.ndarray:
    """The numbers of the names by `json_scan._find`'s hash, half of the places free."""
    size = 8
    while size < 2 * len(names) + 1:
        size *= 2
    table = np.full(size, -1, np.int64)
    for number, name in enumerate(names):
        key = scan.HASH_SEED
        for byte in name:
            key = ((key ^ byte) * scan.HASH_FACTOR) & scan.HASH_MASK
        at = key & (size - 1)
        while table[at] >= 0:
            at = (at + 1) & (size - 1)
        table[at] = number
    return table
