"""Record keys of rows: the stored key, or, in tables without meta columns, made of the row's key columns. Vectorised.

Source: Hudi `KeyGenUtils.getRecordKey`, and the delete blocks that 1.2.0 writes: decimals with all digits of their
scale, dates as ISO dates, timestamps as numbers, bytes in hexadecimal. `table.config.record_keys` decides which columns
make the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import SchemaMismatch, TableError
from penstock.proto.value_classes import dataclass
from penstock.reader.values.field_paths import field_of, field_values, top_level
from penstock.reader.values.java_text import float_texts
from penstock.table.arrow_compute import pc
from penstock.table.schema.avro import Decimal, EnumType, Fixed, Primitive, RecordSchema

RECORD_KEY: Final = "_hoodie_record_key"
_NULL: Final = "__null__"
_EMPTY: Final = "__empty__"
_SCALARS: Final = (Primitive, Decimal, EnumType, Fixed)
_DIGITS: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_NO_TEXT: Final = np.zeros(1, np.int64)
_MILLIS: Final = ("timestamp-millis", "local-timestamp-millis", "time-millis")


class NoKey(ValueError):
    """A row without a record key. The message continues "a row ..." and names the column that is null or empty."""


@dataclass(frozen=True, slots=True)
class KeyMaker:
    """How a table's keys are made."""

    fields: tuple[str, ...]
    """The key's columns; `a.b` is a nested one."""
    millis: frozenset[str] = frozenset()
    """Those that are numbers of milliseconds."""
    may_be_named: bool = False
    """Whether deletes may have `<column>:` before a key of one column."""

    def columns(self) -> tuple[str, ...]:
        """The top-level columns that a key needs."""
        return tuple(dict.fromkeys(top_level(name) for name in self.fields))

    def keys(self, batch: pa.RecordBatch) -> pa.Array:
        """The key of each row: text, none null. The stored key is the only column of its key.

        NoKey if a row has none; TableError for a value that deletes cannot distinguish from a column's name.
        """
        if self.fields == (RECORD_KEY,):
            return _not_null(batch.column(RECORD_KEY), RECORD_KEY)
        texts = [self._texts(name, field_values(batch, name)) for name in self.fields]
        if len(texts) > 1:
            parts = (_part(name, text) for name, text in zip(self.fields, texts, strict=True))
            return pc.binary_join_element_wise(*parts, ",")
        keys = _not_null(texts[0], self.fields[0])
        if pc.any(pc.equal(pc.binary_length(keys), 0)).as_py():
            raise NoKey(f"with an empty {self.fields[0]}")
        if self.may_be_named and pc.any(pc.starts_with(keys, f"{self.fields[0]}:")).as_py():
            raise TableError(
                f"virtual keys: column {self.fields[0]!r} holds a value that begins with {self.fields[0]}:, which "
                "deletes of this key generator may mean as the column's name; let Hudi compact the table"
            )
        return keys

    def of_deletes(self, keys: pa.Array) -> pa.Array:
        """The keys of a delete block in the form of `keys`."""
        if not self.may_be_named:
            return keys
        name = f"{self.fields[0]}:"
        return pc.if_else(pc.starts_with(keys, name), pc.utf8_slice_codeunits(keys, len(name)), keys)

    def _texts(self, name: str, column: pa.Array) -> pa.Array:
        kind = column.type
        if pa.types.is_floating(kind):
            return float_texts(column)
        if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
            numbers = column.cast(pa.int64()) if pa.types.is_time64(kind) else column.view(pa.int64())
            return (pc.divide(numbers, 1000) if name in self.millis else numbers).cast(pa.string())
        if pa.types.is_binary(kind):
            return _hexadecimal(column)
        return column.cast(pa.string())


STORED_KEY: Final = KeyMaker((RECORD_KEY,))


def key_maker(fields: Sequence[str], record: RecordSchema, where: str, *, may_be_named: bool = False) -> KeyMaker:
    """How the keys of a table with this schema are made. SchemaMismatch, beginning with `where`, for key columns that
    the table lacks or that are lists, maps or records."""
    millis = set()
    for name in fields:
        field = field_of(record, name)
        kind = None if field is None else field.type
        if kind is None or not isinstance(kind, _SCALARS):
            raise SchemaMismatch(
                f"{where}: key column {name!r} (virtual keys) is {'nested' if kind else 'missing'}: expected a "
                "column of a plain type"
            )
        if isinstance(kind, Primitive) and kind.logical in _MILLIS:
            millis.add(name)
    return KeyMaker(tuple(fields), frozenset(millis), may_be_named)


def _not_null(keys: pa.Array, name: str) -> pa.Array:
    if keys.null_count:
        raise NoKey(f"without {name}")
    return keys


def _hexadecimal(column: pa.Array) -> pa.Array:
    """Two digits per byte."""
    texts = column.cast(pa.large_binary())
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1] if len(texts) else _NO_TEXT
    content = np.frombuffer(data if data is not None and data.size else b"\0", np.uint8)[bounds[0] : bounds[-1]]
    digits = _DIGITS[np.stack([content >> 4, content & 15], axis=1)]
    ends = pa.py_buffer((bounds - bounds[0]) * 2)
    hexadecimal = pa.Array.from_buffers(pa.large_string(), len(texts), [None, ends, pa.py_buffer(digits)])
    return pc.if_else(texts.is_valid(), hexadecimal, None).cast(pa.string())


def _part(name: str, texts: pa.Array) -> pa.Array:
    texts = pc.if_else(pc.equal(pc.binary_length(texts), 0), _EMPTY, texts).fill_null(_NULL)
    return pc.binary_join_element_wise(pa.scalar(f"{name}:"), texts, "")
