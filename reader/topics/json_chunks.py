"""Records whose values are JSON objects of the table's columns: rows, deletes by mark, deletes without a value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.reader.topics.decoded import BAD, DELETE, UPSERT, Decoded, replaced, rows_of_cells
from penstock.reader.topics.json_columns import JsonColumns
from penstock.reader.topics.json_keys import JsonKeys
from penstock.reader.topics.json_rows import JsonRows
from penstock.reader.topics.problems import Unfit
from penstock.reader.topics.shape import TopicShape


class JsonChunks:
    """A `ChunkDecoder` of JSON objects. Not for two threads at once."""

    def __init__(self, shape: TopicShape, *, compiled: bool = True) -> None:
        self._shape = shape
        road = JsonColumns if compiled else JsonRows
        self._rows = road(shape.fields, shape.decoded, shape.known)
        self._keys = JsonKeys(shape.topic.key_fields, shape.table)

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Decoded:
        """See `ChunkDecoder`. A delete that its value marks has the value's columns, and from its key what those lack
        of the table's key."""
        found = self._rows.values(values)
        reasons = dict(found.reasons)
        kinds = np.full(len(values), UPSERT, np.uint8)
        kinds[[place for place, value in enumerate(values) if value is None]] = DELETE
        marked = self._shape.marks.marked(found.rows)
        if marked is not None:
            kinds[marked] = DELETE
        kinds[list(reasons)] = BAD
        rows = found.rows
        if self._shape.by_key:
            rows = self._with_keys(rows, keys, kinds, reasons, values)
        return Decoded(rows=rows, kinds=kinds, reasons=reasons, unknown=found.unknown)

    def _with_keys(
        self,
        rows: pa.RecordBatch,
        keys: Sequence[bytes | None],
        kinds: np.ndarray,
        reasons: dict[int, str],
        values: Sequence[bytes | None],
    ) -> pa.RecordBatch:
        """The rows with the key columns of deletes that lack them; a delete without them becomes BAD."""
        places: list[int] = []
        told: list[dict[str, object]] = []
        for place in np.flatnonzero((kinds == DELETE) & _lacking(rows, self._shape)).tolist():
            try:
                told.append(self._keys.cells(keys[place]))
                places.append(place)
            except Unfit as error:
                if values[place] is not None and not self._shape.topic.key_fields:
                    continue
                kinds[place] = BAD
                reasons[place] = f"{'a delete' if values[place] is not None else 'no value'}: {error}"
        if not places:
            return rows
        present = rows.take(pa.array(places))
        fresh = {name: [item.get(name) for item in told] for name in self._shape.key_columns}
        schema = rows.schema
        key_rows = rows_of_cells({**dict.fromkeys(schema.names, [None] * len(places)), **fresh}, schema)
        columns = [key_rows.column(name) if name in fresh else present.column(name) for name in schema.names]
        return replaced(rows, places, pa.RecordBatch.from_arrays(columns, schema=schema))


def _lacking(rows: pa.RecordBatch, shape: TopicShape) -> np.ndarray:
    """Of each row whether a key column is null; always so where the table has no key columns."""
    lacking = np.full(rows.num_rows, not shape.topic.key_fields)
    for path in shape.topic.key_fields:
        names = [path] if path in rows.schema.names else path.split(".")
        if names[0] not in rows.schema.names:
            return np.ones(rows.num_rows, bool)
        column = rows.column(names[0])
        if names[1:]:
            column = pc.struct_field(column, names[1:])
        lacking |= column.is_null().to_numpy(zero_copy_only=False)
    return lacking
