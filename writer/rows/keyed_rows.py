"""The rows of a write with their keys, partitions, ordering values and kinds, and the combination of repeated keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import SchemaMismatch
from penstock.proto.model.splits import MergeMode
from penstock.reader.merge.fold import RecordKind, fold
from penstock.reader.merge.keys import number_keys
from penstock.reader.merge.ordering import OrderingTuples
from penstock.writer.rows.partition_paths import RowPartitions

IS_DELETED: Final = "_hoodie_is_deleted"
"""The column that marks a delete in upserted data (Hudi `HoodieRecord.HOODIE_IS_DELETED_FIELD`)."""


class Deletes(Enum):
    """Which rows delete their key."""

    MARKED = "marked"
    """Those whose delete marker is true. They delete with their ordering value."""
    ALL = "all"
    """Every row. A delete has no ordering value, so that it wins over any row."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyedRows:
    """Rows to be written. All arrays are parallel to the rows."""

    rows: pa.Table
    """The data columns of the write's schema; chunks are combined."""
    keys: pa.Array
    """The record keys: text, none null."""
    partitions: RowPartitions
    """The partitions."""
    kinds: np.ndarray
    """uint8 of `RecordKind`."""
    ordering: tuple[pa.Array, ...]
    """The values of each ordering column; () if the newer record always wins."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def take(self, places: np.ndarray) -> KeyedRows:
        """These rows, in this order."""
        indices = pa.array(places)
        return replace(
            self,
            rows=self.rows.take(indices),
            keys=self.keys.take(indices),
            partitions=RowPartitions(self.partitions.paths, self.partitions.numbers[places]),
            kinds=self.kinds[places],
            ordering=tuple(column.take(indices) for column in self.ordering),
        )


def one_batch(rows: pa.Table, where: str) -> pa.RecordBatch:
    """All rows as one batch. SchemaMismatch, beginning with `where`, if the text of a column is too long for that."""
    try:
        arrays = [column.combine_chunks() for column in rows.columns]
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(
            f"{where}: a column holds more than 2 GiB of text or bytes in {rows.num_rows} rows ({str(error)[:100]}): "
            "write fewer rows at a time; nothing was written"
        ) from None
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


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


def combined(rows: KeyedRows, mode: MergeMode, *, in_table: bool = False) -> KeyedRows:
    """One row for each key of a partition, or of the whole table: the one that wins by the table's merge rule; of
    equals the later one. The winners keep their order."""
    if len(rows) < 2:
        return rows
    if in_table or len(rows.partitions.paths) == 1:
        texts = rows.keys
    else:
        prefix = pa.array(rows.partitions.numbers).cast(pa.string())
        texts = pc.binary_join_element_wise(prefix, rows.keys, "/")
    table, numbers = number_keys([texts])
    if table.count == len(rows):
        return rows
    ranks = OrderingTuples(rows.ordering).ranks() if rows.ordering else None
    return rows.take(np.sort(fold(mode, numbers, table.count, rows.kinds, ranks).winning))


def check_keys(keys: pa.Array, fields: Sequence[str], where: str) -> None:
    """SchemaMismatch, beginning with `where`, if all key columns of a row are null or empty (Hudi `KeyGenUtils`)."""
    if len(fields) < 2:
        return
    pattern = ",".join(f"{name}:(__null__|__empty__)" for name in map(_quoted, fields))
    empty = pc.match_substring_regex(keys, f"^{pattern}$")
    if pc.any(empty).as_py():
        place = pc.index(empty, True).as_py()
        raise SchemaMismatch(
            f"{where}: all key columns {', '.join(fields)} are null or empty in row {place}: expected a value in at "
            "least one; nothing was written"
        )


def _quoted(name: str) -> str:
    import re

    return re.escape(name)
