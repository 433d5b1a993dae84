"""The columns that a table is ordered by, and their values as they are compared.

`merge.ordering` defines the order of values, `merge.fold` the consequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptBlock, SchemaMismatch
from penstock.proto.model.splits import CommitTimeOrdering, CustomMerge, EventTimeOrdering, Scan
from penstock.proto.value_classes import dataclass
from penstock.reader.merge.ordering import check_ordering_type
from penstock.reader.values.field_paths import field_of, field_type, field_values, names_in, top_level
from penstock.table.arrow_arrays import numpy_array
from penstock.table.arrow_compute import pc
from penstock.table.log.delete_list import ARRAY, INT, LONG, NULL, TIME_MICROS
from penstock.table.schema.avro import AvroField, Primitive, RecordSchema
from penstock.table.schema.compatibility import Same, compatible, type_name

if TYPE_CHECKING:
    from penstock.table.log.deletes import DeleteRecords

_FILE_AND_POSITION: Final = r"^(?P<file>-?[0-9]{1,18})\.(?P<position>-?[0-9]{1,18})(?:\..*)?$"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderingColumns:
    """The ordering columns of a table."""

    names: tuple[str, ...]
    """The table's ordering fields: columns, or fields of structs (`struct.field`); none if the newer record always
    wins."""
    types: tuple[pa.DataType, ...]
    """The types of the values that are compared, in order."""
    dotted: bool
    """Whether the one column is text "file.position", compared by its two numbers."""
    deletes_win: bool
    """Whether deletes have no order and always win."""
    place: str
    """The beginning of error texts."""

    def __bool__(self) -> bool:
        return bool(self.names)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read for the values, each once."""
        return tuple(dict.fromkeys(top_level(name) for name in self.names))

    @property
    def is_nested(self) -> bool:
        """Whether one of them is a field of a struct."""
        return any("." in name for name in self.names)

    def parts(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The values of a batch that has the columns: one array for each of `types`. A field of a null is null."""
        if not self.dotted:
            return [field_values(batch, name) for name in self.names]
        texts = batch.column(self.names[0])
        numbers = pc.extract_regex(texts, _FILE_AND_POSITION)
        malformed = pc.and_(texts.is_valid(), pc.invert(numbers.is_valid()))
        if pc.any(malformed).as_py():
            raise SchemaMismatch(
                f"{self.place}: column {self.names[0]!r} holds {texts.filter(malformed)[0].as_py()[:60]!r}, expected "
                "the number of a binlog file and a position, as 000002.4711 (Hudi's payload class fails on it "
                "when it compares the two)"
            )
        return [pc.struct_field(numbers, [part]).cast(pa.int64()) for part in ("file", "position")]

    def of_deletes(self, deletes: DeleteRecords) -> tuple[list[pa.Array], np.ndarray]:
        """(the ordering values of a block's deletes, which of them have none and always win)."""
        if self.deletes_win:
            return [pa.nulls(len(deletes), kind) for kind in self.types], np.ones(len(deletes), bool)
        if len(self.types) == 1:
            values, default = deletes.ordering_as(self.types[0])
            return [values], default
        return deletes.ordering_tuples(self.types)

    def without_value(self, parts: list[pa.Array]) -> np.ndarray:
        """Which data records with a delete marker are default deletes: those without a value of their own. These are
        null, and the int 0 that Hudi treats as absent (`OrderingValues.isDefault`). With several ordering columns
        there are none."""
        if self.deletes_win or not parts:
            return np.ones(len(parts[0]) if parts else 0, bool)
        if len(parts) > 1:
            return np.zeros(len(parts[0]), bool)
        default: np.ndarray = numpy_array(parts[0].is_null())
        if pa.types.is_int32(parts[0].type):
            default = default | (numpy_array(parts[0].fill_null(0)) == 0)
        return default


def ordering_columns(scan: Scan, schema: pa.Schema) -> OrderingColumns:
    """The scan's ordering columns. SchemaMismatch for a column that the table lacks, or one without an order."""
    place, dotted, deletes_win = f"table {scan.table}", False, False
    match scan.merge:
        case CommitTimeOrdering():
            return OrderingColumns(names=(), types=(), dotted=False, deletes_win=False, place=place)
        case EventTimeOrdering(names, dotted, deletes_win):
            pass
        case CustomMerge(_, _, fields):  # the ordering values of its deletes
            names = names_in(schema, fields)
    kinds = []
    for name in names:
        kind = field_type(schema, name)
        if kind is None:
            raise SchemaMismatch(
                f"{place}: its ordering column {name!r} is not among its columns {', '.join(schema.names)[:1000]}"
            )
        check_ordering_type(kind, f"{place}: ordering column {name!r}")
        if dotted and not pa.types.is_string(kind):
            raise SchemaMismatch(f"{place}: ordering column {name!r} of type {kind}, not text")
        kinds.append(kind)
    types = (pa.int64(), pa.int64()) if dotted else tuple(kinds)
    return OrderingColumns(names=names, types=types, dotted=dotted, deletes_win=deletes_win, place=place)


_NO_VALUE: Final = 0
"""IntWrapper 0: Hudi writes it for a delete without an ordering value."""

_UNITS: Final = {
    "timestamp-millis": (LONG, LONG, 1000),
    "local-timestamp-millis": (LONG, LONG, 1000),
    "time-millis": (INT, TIME_MICROS, 1000),
    "time-micros": (LONG, TIME_MICROS, 1),
}
"""By the column's logical type: the wrapper a plain number is written in, the wrapper it is read as, and its unit in
microseconds."""

_LARGEST: Final = (1 << 63) // 1000


def in_microseconds(deletes: DeleteRecords, fields: Sequence[AvroField]) -> DeleteRecords:
    """The deletes with plain numbers of time columns converted to microseconds. A plain number has the unit of the
    column's type (observed with Hudi 1.2.0 on a table with milliseconds).

    CorruptBlock for a number that is not a valid time.
    """
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
    written, read_as, micros = unit
    mine = mine & (kinds == written) & ~((kinds == INT) & (numbers == _NO_VALUE))
    if (np.abs(numbers[mine]) >= _LARGEST).any():
        raise CorruptBlock(f"{deletes.place}: a delete's ordering value is beyond any timestamp: restore the file")
    return np.where(mine, np.int8(read_as), kinds), np.where(mine, numbers * micros, numbers)


def has_foreign_values(deletes: DeleteRecords, default: np.ndarray) -> bool:
    """Whether any delete has an ordering value of another class than the column's.

    `default`: those without a value of the column's class, from `DeleteRecords.ordering_as`. Null and Hudi's IntWrapper
    0 are no values.
    """
    blank = (deletes.kinds == NULL) | ((deletes.kinds == INT) & (deletes.numbers == _NO_VALUE))
    return bool((default & ~blank).any())


def check_same_types(writer: RecordSchema, names: Sequence[str], fields: Sequence[AvroField], where: str) -> None:
    """SchemaMismatch for deletes with values from before the type of an ordering field changed: Hudi 1.2.0 cannot
    compare them either (ClassCastException). `fields`: the table's, by `names`."""
    for name, field in zip(names, fields, strict=True):
        written = field_of(writer, name)
        if written is not None and compatible(written.type, field.type, name) != Same():
            raise SchemaMismatch(
                f"{where}: deletes with values of ordering column {name!r} as {type_name(written.type)}, which is "
                f"{type_name(field.type)} now; Hudi's reader fails on them too: compact the file group with the "
                "column's former type"
            )
