"""The rows of a write with their keys, partitions, ordering values and kinds, and the combination of repeated keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import SchemaMismatch
from penstock.proto.model.splits import OrderingMode
from penstock.reader.merge.fold import RecordKind, fold
from penstock.reader.merge.keys import number_keys
from penstock.reader.merge.log_rows import rows_within
from penstock.reader.merge.ordering import OrderingTuples
from penstock.writer.rows.partition_paths import RowPartitions

IS_DELETED: Final = "_hoodie_is_deleted"
"""The column that marks a delete in upserted data (Hudi `HoodieRecord.HOODIE_IS_DELETED_FIELD`)."""

CHUNK_BYTES: Final = 256 << 20
"""About the most bytes of a chunk of rows."""
_BATCH_BYTES: Final = 16 << 20
_MAX_TEXT_BYTES: Final = (1 << 31) - 1


class Deletes(Enum):
    """Which rows delete their key."""

    MARKED = "marked"
    """Those whose delete marker is true. They delete with their ordering value."""
    ALL = "all"
    """Every row. A delete has no ordering value, so that it wins over any row."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyedRows:
    """Rows to be written. All arrays are parallel to the rows.

    `rows`, `keys` and `ordering` have the same chunks, of which each column is shorter than 2 GiB (`compacted`).
    """

    rows: pa.Table
    """The data columns of the write's schema."""
    keys: pa.ChunkedArray
    """The record keys: text, none null."""
    partitions: RowPartitions
    """The partitions."""
    kinds: np.ndarray
    """uint8 of `RecordKind`."""
    ordering: tuple[pa.ChunkedArray, ...]
    """The values of each ordering column; () if the newer record always wins."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def take(self, places: np.ndarray) -> KeyedRows:
        """The rows at these places, which ascend; a place may be repeated."""
        if len(places) == len(self) and (np.diff(places) > 0).all():
            return self
        starts = self._starts()
        columns = [_taken(column, places, starts) for column in self.rows.columns]
        return replace(
            self,
            rows=pa.Table.from_arrays(columns, schema=self.rows.schema) if columns else self.rows.slice(0, 0),
            keys=_taken(self.keys, places, starts),
            partitions=RowPartitions(self.partitions.paths, self.partitions.numbers[places]),
            kinds=self.kinds[places],
            ordering=tuple(_taken(column, places, starts) for column in self.ordering),
        )

    def written_as(self, partitions: RowPartitions, kinds: np.ndarray) -> KeyedRows:
        """The rows in other partitions, or as other kinds, than their columns say."""
        return replace(self, partitions=partitions, kinds=kinds)

    def keys_at(self, places: np.ndarray) -> pa.ChunkedArray:
        """The keys at these places, which ascend."""
        return self.keys if len(places) == len(self) else _taken(self.keys, places, self._starts())

    def data(self) -> KeyedRows:
        """The rows that are no deletes."""
        return self.take(np.flatnonzero(self.kinds == RecordKind.DATA))

    def batches(self) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """The rows with their keys, in their order, a few MiB at a time."""
        for batch, keys in zip(self.rows.to_batches(), self.keys.chunks, strict=True):
            step = rows_within(batch, batch.num_rows, _BATCH_BYTES)
            for begin in range(0, batch.num_rows, step):
                yield batch.slice(begin, step), keys.slice(begin, step)

    def _starts(self) -> np.ndarray:
        return np.cumsum([0, *(len(chunk) for chunk in self.keys.chunks)])

    def ordering_arrays(self) -> list[pa.Array]:
        """The values of each ordering column as one array."""
        return [one_array(column) for column in self.ordering]


def _taken(column: pa.ChunkedArray, places: np.ndarray, starts: np.ndarray) -> pa.ChunkedArray:
    """The values at ascending places, chunk by chunk: Arrow's own function joins all chunks first, which fails for more
    than 2 GiB of text. `starts`: the place of each chunk, and of the end."""
    edges = np.searchsorted(places, starts)
    chunks = [
        chunk.take(pa.array(places[first:last] - start))
        for chunk, start, first, last in zip(column.chunks, starts, edges, edges[1:], strict=False)
        if last > first
    ]
    return pa.chunked_array(chunks, column.type)


def compacted(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The rows of the batches as a table, whose columns have the same chunks: batches are joined up to CHUNK_BYTES, and
    a larger one is kept as it is. Empty ones are left out."""
    return pa.Table.from_batches(list(_joined(batches)), schema)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        if held and size_bytes + batch.nbytes > CHUNK_BYTES:
            yield pa.concat_batches(held) if len(held) > 1 else held[0]
            held, size_bytes = [], 0
        if batch.num_rows:
            held.append(batch)
            size_bytes += batch.nbytes
    if held:
        yield pa.concat_batches(held) if len(held) > 1 else held[0]


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array: `large_string` if it is text that is too long for another."""
    if pa.types.is_string(column.type) and column.nbytes > _MAX_TEXT_BYTES:
        column = column.cast(pa.large_string())
    return column.combine_chunks()


def kinds_of(rows: pa.Table, deletes: Deletes, marked: np.ndarray, default: np.ndarray) -> np.ndarray:
    """The kind of each row. `marked` says which rows have the delete marker; `default`, which of these have no ordering
    value of their own."""
    kinds = np.full(rows.num_rows, RecordKind.DATA, np.uint8)
    if deletes is Deletes.ALL:
        kinds[:] = RecordKind.DEFAULT_DELETE
        return kinds
    kinds[marked] = RecordKind.DELETE
    kinds[marked & default] = RecordKind.DEFAULT_DELETE
    return kinds


def marked_deletes(rows: pa.Table) -> np.ndarray:
    """Which rows have `_hoodie_is_deleted`=true."""
    place = rows.schema.get_field_index(IS_DELETED)
    if place < 0 or not pa.types.is_boolean(rows.schema.field(place).type):
        return np.zeros(rows.num_rows, bool)
    marked: np.ndarray = rows.column(place).combine_chunks().fill_null(False).to_numpy(zero_copy_only=False)
    return marked


def combined(rows: KeyedRows, mode: OrderingMode, *, in_table: bool = False) -> KeyedRows:
    """One row for each key of a partition, or of the whole table: the one that wins by the table's merge rule; of
    equals the later one. The winners keep their order."""
    if len(rows) < 2:
        return rows
    if in_table or len(rows.partitions.paths) == 1:
        texts = rows.keys
    else:
        prefix = pa.array(rows.partitions.numbers).cast(pa.string())
        texts = pc.binary_join_element_wise(prefix, rows.keys, "/")
    table, numbers = number_keys(texts.chunks)
    if table.count == len(rows):
        return rows
    ranks = OrderingTuples(rows.ordering_arrays()).ranks() if rows.ordering else None
    return rows.take(np.sort(fold(mode, numbers, table.count, rows.kinds, ranks).winning))


def check_keys(keys: pa.ChunkedArray, fields: Sequence[str], where: str, first_row: int = 0) -> None:
    """SchemaMismatch, beginning with `where`, if all key columns of a row are null or empty (Hudi `KeyGenUtils`).
    `first_row`: the number of the first row in error texts."""
    if len(fields) < 2:
        return
    pattern = ",".join(f"{name}:(__null__|__empty__)" for name in map(_quoted, fields))
    empty = pc.match_substring_regex(keys, f"^{pattern}$")
    if pc.any(empty).as_py():
        place = first_row + pc.index(empty, True).as_py()
        raise SchemaMismatch(
            f"{where}: all key columns {', '.join(fields)} are null or empty in row {place}: expected a value in at "
            "least one; nothing was written"
        )


def _quoted(name: str) -> str:
    import re

    return re.escape(name)
