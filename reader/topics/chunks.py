"""Decodes the records of a chunk to rows, deletes by marker, and deletes without a value, for all formats."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kafka.protocols import RecordChunk
from penstock.reader.topics.record.decoded import (
    BAD,
    DELETE,
    PASSED,
    UPSERT,
    Decoded,
    Unfit,
    ValuesDecoder,
    replaced,
    rows_of_cells,
)
from penstock.reader.topics.record.read_schema import TopicReadSchema


class KeysDecoder(Protocol):
    """Decodes keys of one format."""

    def cells(self, key: bytes | None) -> dict[str, object]:
        """The key columns' values by name, as `pyarrow.array` takes them. Unfit for a key without all of them."""
        ...


class Chunks:
    """Decodes one range's chunks, in order."""

    def __init__(
        self, read_schema: TopicReadSchema, values: ValuesDecoder, keys: KeysDecoder, *, tombstone_pairs: bool
    ) -> None:
        """tombstone_pairs: a record without a value directly after a delete of the same key belongs to it."""
        self._read_schema, self._values, self._keys = read_schema, values, keys
        self._pairs = tombstone_pairs
        self._deleted: tuple[int, bytes | None] | None = None

    @property
    def looks_back(self) -> bool:
        """Whether the result of a record depends on the record before it."""
        return self._pairs

    def decode(self, chunk: RecordChunk) -> Decoded:
        """The records' columns (`TopicReadSchema.decoded`). Never raises for the content of a record.

        A delete whose value says so has the value's columns. Columns of the table's key that the value lacks are taken
        from the record's key.
        """
        values = self._values.values(chunk.values)
        reasons = dict(values.reasons)
        kinds = np.full(len(chunk.values), UPSERT, np.uint8) if values.kinds is None else values.kinds.copy()
        if None in chunk.values:
            kinds[[place for place, value in enumerate(chunk.values) if value is None]] = DELETE
        marked = self._read_schema.marks.marked(values.rows)
        if marked is not None:
            kinds[marked & (kinds == UPSERT)] = DELETE
        kinds[list(reasons)] = BAD
        if self._pairs:
            self._pass_pairs(chunk, kinds)
        rows = self._with_keys(values.rows, chunk, kinds, reasons) if self._read_schema.by_key else values.rows
        return Decoded(rows=rows, kinds=kinds, reasons=reasons, unknown=values.unknown)

    def _pass_pairs(self, chunk: RecordChunk, kinds: np.ndarray) -> None:
        """Passes over records without a value whose delete is at the offset before them."""
        deleted = self._deleted
        for place in np.flatnonzero(kinds == DELETE).tolist():
            offset, key = int(chunk.offsets[place]), chunk.keys[place]
            if chunk.values[place] is not None:
                deleted = (offset, key)
            elif key is not None and deleted == (offset - 1, key):
                kinds[place] = PASSED
        self._deleted = deleted

    def _with_keys(
        self, rows: pa.RecordBatch, chunk: RecordChunk, kinds: np.ndarray, reasons: dict[int, str]
    ) -> pa.RecordBatch:
        """The rows, with the key columns of deletes whose value lacks them. Records without a key become BAD."""
        places: list[int] = []
        cells_of_keys: list[dict[str, object]] = []
        some, all_of_it = _null_keys(rows, self._read_schema)
        for place in np.flatnonzero((kinds == UPSERT) & all_of_it).tolist():
            kinds[place] = BAD
            reasons[place] = f"value has no {', '.join(self._read_schema.topic.key_fields)}, the table's record key"
        for place in np.flatnonzero((kinds == DELETE) & some).tolist():
            try:
                cells_of_keys.append(self._keys.cells(chunk.keys[place]))
                places.append(place)
            except Unfit as error:
                valued = chunk.values[place] is not None
                if valued and not self._read_schema.topic.key_fields:
                    continue
                kinds[place] = BAD
                reasons[place] = f"{'a delete' if valued else 'no value'}: {error}"
        if not places:
            return rows
        present = rows.take(pa.array(places))
        key_schema = pa.schema([rows.schema.field(name) for name in self._read_schema.key_columns])
        keys = rows_of_cells(
            {name: [cells.get(name) for cells in cells_of_keys] for name in key_schema.names}, key_schema
        )
        columns = [
            keys.column(name) if name in key_schema.names else present.column(name) for name in rows.schema.names
        ]
        return replaced(rows, places, pa.RecordBatch.from_arrays(columns, schema=rows.schema))


def _null_keys(rows: pa.RecordBatch, read_schema: TopicReadSchema) -> tuple[np.ndarray, np.ndarray]:
    """For each row whether a part of its key is null, and whether all parts are. If the table has no key columns, only
    deletes lack their key."""
    paths = read_schema.topic.key_fields
    some, all_of_it = np.full(rows.num_rows, not paths), np.full(rows.num_rows, bool(paths))
    for path in paths:
        names = [path] if path in rows.schema.names else path.split(".")
        if names[0] not in rows.schema.names:
            return np.ones(rows.num_rows, bool), np.zeros(rows.num_rows, bool)
        column = rows.column(names[0])
        if names[1:]:
            column = pc.struct_field(column, names[1:])
        nulls = column.is_null().to_numpy(zero_copy_only=False)
        some, all_of_it = some | nulls, all_of_it & nulls
    return some, all_of_it
