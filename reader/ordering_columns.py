"""The columns a table is ordered by, as the values that compare one after the other.

Belongs here: which columns, and how a batch's or a delete block's values become comparable. Not here: the order of
values (`merge.ordering`), what follows from it (`merge.fold`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import SchemaMismatch
from penstock.proto.splits import CommitTimeOrdering, EventTimeOrdering, Scan
from penstock.reader.merge.ordering import check_ordering_type

if TYPE_CHECKING:
    from penstock.table.log.deletes import DeleteRecords

_FILE_AND_POSITION: Final = r"^(?P<file>-?[0-9]{1,18})\.(?P<position>-?[0-9]{1,18})(?:\..*)?$"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderingColumns:
    """names: the table's columns, none where the newer always wins. types: of the values that compare, in order.

    dotted: the one column is text "file.position", compared by its two numbers. deletes_win: deletes have no order.
    """

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    dotted: bool
    deletes_win: bool
    place: str

    def __bool__(self) -> bool:
        return bool(self.names)

    def parts(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The values of a batch that has the columns: one array for each of `types`."""
        if not self.dotted:
            return [batch.column(name) for name in self.names]
        texts = batch.column(self.names[0])
        numbers = pc.extract_regex(texts, _FILE_AND_POSITION)
        odd = pc.and_(texts.is_valid(), pc.invert(numbers.is_valid()))
        if pc.any(odd).as_py():
            raise SchemaMismatch(
                f"{self.place}: column {self.names[0]!r} holds {texts.filter(odd)[0].as_py()[:60]!r}, expected the "
                "text of a binlog file's number and a position, as 000002.4711 (Hudi's payload class fails on it "
                "where it has to compare the two)"
            )
        return [pc.struct_field(numbers, [part]).cast(pa.int64()) for part in ("file", "position")]

    def of_deletes(self, deletes: DeleteRecords) -> tuple[list[pa.Array], np.ndarray]:
        """(the values of a block's deletes, which of them have none and win whatever they meet)."""
        if self.deletes_win:
            return [pa.nulls(len(deletes), kind) for kind in self.types], np.ones(len(deletes), bool)
        if len(self.types) == 1:
            values, default = deletes.ordering_as(self.types[0])
            return [values], default
        return deletes.ordering_tuples(self.types)

    def without_value(self, parts: list[pa.Array]) -> np.ndarray:
        """Which data records with a delete mark are default deletes: those without a value of their own (null, or the
        int 0 that Hudi takes for none, `OrderingValues.isDefault`); of several values never."""
        if self.deletes_win or not parts:
            return np.ones(len(parts[0]) if parts else 0, bool)
        if len(parts) > 1:
            return np.zeros(len(parts[0]), bool)
        default: np.ndarray = parts[0].is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_int32(parts[0].type):
            default = default | (parts[0].fill_null(0).to_numpy() == 0)
        return default


def ordering_columns(scan: Scan, schema: pa.Schema) -> OrderingColumns:
    """The scan's. SchemaMismatch for a column that the table lacks, or one without an order."""
    place = f"table {scan.table}"
    match scan.merge:
        case CommitTimeOrdering():
            return OrderingColumns(names=(), types=(), dotted=False, deletes_win=False, place=place)
        case EventTimeOrdering(names, dotted, deletes_win):
            pass
    for name in names:
        if name not in schema.names:
            raise SchemaMismatch(
                f"{place}: its ordering column {name!r} is not among its columns {', '.join(schema.names)[:1000]}"
            )
        check_ordering_type(schema.field(name).type, f"{place}: ordering column {name!r}")
        if dotted and not pa.types.is_string(schema.field(name).type):
            raise SchemaMismatch(f"{place}: ordering column {name!r} of type {schema.field(name).type}, not text")
    types = (pa.int64(), pa.int64()) if dotted else tuple(schema.field(name).type for name in names)
    return OrderingColumns(names=names, types=types, dotted=dotted, deletes_win=deletes_win, place=place)
