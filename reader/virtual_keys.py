"""Record keys of rows: the stored one, or in tables without meta columns made of the row's key columns. Vectorised.

Source: Hudi `KeyGenUtils.getRecordKey`. Belongs here: the text of a key. Not here: which columns (`table.record_keys`),
what records of one key become (`merge`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import CorruptFile, UnsupportedFeature

RECORD_KEY: Final = "_hoodie_record_key"
_NULL: Final = "__null__"
_EMPTY: Final = "__empty__"
_TYPES: Final = (pa.string(), pa.int32(), pa.int64(), pa.bool_())


class NoKey(ValueError):
    """A row without a record key; the message goes on "a row ..." and says which column is null or empty."""


def check_key_columns(fields: Sequence[str], schema: pa.Schema, where: str) -> None:
    """UnsupportedFeature, beginning with `where`, for key columns that the table lacks or whose text is not settled."""
    for name in fields:
        kind = schema.field(name).type if name in schema.names else None
        if kind not in _TYPES:
            raise UnsupportedFeature(
                f"{where}: key column {name!r} of type {kind or '(no such column)'} (virtual keys): only text, int, "
                "long and boolean columns have one form"
            )


def record_keys(batch: pa.RecordBatch, fields: Sequence[str]) -> pa.Array:
    """The key of each row, text, none null, from its key columns (the stored key is the one column of its own).

    NoKey if a row has none.
    """
    if len(fields) > 1:
        parts = [_part(name, batch.column(name)) for name in fields]
        return pc.binary_join_element_wise(*parts, ",")
    keys = batch.column(fields[0])
    if keys.null_count:
        raise NoKey(f"without {fields[0]}")
    if fields[0] == RECORD_KEY:
        return keys
    keys = keys.cast(pa.string())
    if pc.any(pc.equal(pc.binary_length(keys), 0)).as_py():
        raise NoKey(f"with an empty {fields[0]}")
    return keys


def _part(name: str, column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    texts = pc.if_else(pc.equal(pc.binary_length(texts), 0), _EMPTY, texts).fill_null(_NULL)
    return pc.binary_join_element_wise(pa.scalar(f"{name}:"), texts, "")


class _RowGroup(Protocol):
    def batches(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
class KeyedRowGroup:
    """A row group of a base file without meta columns, `_hoodie_record_key` behind its columns."""

    group: _RowGroup
    fields: tuple[str, ...]
    where: str

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows in file order. CorruptFile for a row without key."""
        for batch in self.group.batches():
            keys = self._keys(batch)
            yield pa.RecordBatch.from_arrays([*batch.columns, keys], names=[*batch.schema.names, RECORD_KEY])

    def keys(self) -> pa.Array:
        """The keys of all its rows, in file order."""
        made = [self._keys(batch).cast(pa.large_string()) for batch in self.group.batches()]
        return pa.concat_arrays(made) if made else pa.array([], pa.large_string())

    def _keys(self, batch: pa.RecordBatch) -> pa.Array:
        try:
            return record_keys(batch, self.fields)
        except NoKey as error:
            raise CorruptFile(f"{self.where}: a row {error}: the file is damaged, restore or rewrite it") from None
