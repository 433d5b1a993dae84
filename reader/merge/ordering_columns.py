"""The columns a table is ordered by, as the values that compare one after the other.

Belongs here: which columns, and how a batch's or a delete block's values become comparable. Not here: the order of
values (`merge.ordering`), what follows from it (`merge.fold`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import CorruptBlock, SchemaMismatch
from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering, Scan
from penstock.reader.merge.ordering import check_ordering_type
from penstock.table.log.delete_list import ARRAY, INT, LONG, NULL, TIME_MICROS
from penstock.table.log.deletes import DeleteRecords
from penstock.table.schema.avro import AvroField, Primitive, RecordSchema
from penstock.table.schema.compatibility import Same, compatible, type_name

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


_NONE_OF_ITS_OWN: Final = 0
"""IntWrapper 0: what Hudi writes for a delete without ordering value."""

_UNITS: Final = {
    "timestamp-millis": (LONG, LONG, 1000),
    "local-timestamp-millis": (LONG, LONG, 1000),
    "time-millis": (INT, TIME_MICROS, 1000),
    "time-micros": (LONG, TIME_MICROS, 1),
}
"""By the column's logical type: a plain number's wrapper as it is written, as which it is read, micros in one of it."""

_LARGEST: Final = (1 << 63) // 1000


def in_column_units(deletes: DeleteRecords, fields: Sequence[AvroField]) -> DeleteRecords:
    """The deletes with plain numbers of time columns in our unit. A plain number has the unit of the column's type
    (a run of 1.2.0 over a table of millis). CorruptBlock for one that is no moment."""
    units = [_UNITS.get(field.type.logical) if isinstance(field.type, Primitive) else None for field in fields]
    if not any(units):
        return deletes
    if len(units) == 1:
        kinds, numbers = _scaled(deletes, deletes.kinds, deletes.numbers, np.ones(len(deletes), bool), units[0])
        return replace(deletes, kinds=kinds, numbers=numbers)
    if deletes.items is None:
        return deletes
    counts = np.where(deletes.kinds == ARRAY, deletes.numbers, 0)
    place = np.arange(len(deletes.items.kinds)) - np.repeat(np.cumsum(counts) - counts, counts)
    fits = np.repeat(counts == len(units), counts)
    kinds, numbers = deletes.items.kinds, deletes.items.numbers
    for number, unit in enumerate(units):
        kinds, numbers = _scaled(deletes, kinds, numbers, fits & (place == number), unit)
    return replace(deletes, items=replace(deletes.items, kinds=kinds, numbers=numbers))


def _scaled(
    deletes: DeleteRecords, kinds: np.ndarray, numbers: np.ndarray, mine: np.ndarray, unit: tuple[int, int, int] | None
) -> tuple[np.ndarray, np.ndarray]:
    if unit is None:
        return kinds, numbers
    written, wanted, micros = unit
    mine = mine & (kinds == written) & ~((kinds == INT) & (numbers == _NONE_OF_ITS_OWN))
    if (np.abs(numbers[mine]) >= _LARGEST).any():
        raise CorruptBlock(f"{deletes.place}: a delete's ordering value is no moment of this era: restore the file")
    return np.where(mine, np.int8(wanted), kinds), np.where(mine, numbers * micros, numbers)


def has_foreign_values(deletes: DeleteRecords, default: np.ndarray) -> bool:
    """Whether some of the deletes carry an ordering value of another class than the column's (`default`, as
    `DeleteRecords.ordering_as` tells, and neither null nor Hudi's IntWrapper 0)."""
    blank = (deletes.kinds == NULL) | ((deletes.kinds == INT) & (deletes.numbers == _NONE_OF_ITS_OWN))
    return bool((default & ~blank).any())


def check_same_type(writer: RecordSchema, wanted: AvroField, where: str) -> None:
    """SchemaMismatch for deletes with foreign values from before the column's type changed: Hudi 1.2.0 cannot compare
    them either (ClassCastException)."""
    written = writer.by_name().get(wanted.name)
    if written is not None and compatible(written.type, wanted.type, wanted.name) != Same():
        raise SchemaMismatch(
            f"{where}: deletes with values of ordering column {wanted.name!r} as {type_name(written.type)}, which is "
            f"{type_name(wanted.type)} now; Hudi's reader fails on them too: compact the file group with the column's "
            "former type"
        )
