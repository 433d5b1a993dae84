"""Deletes as the ordering column sees them: values in its unit, and values from before its type changed.

Pure. Hudi compares the values of data records after their conversion to the table's type, whatever order they had when
they were written (runs of 1.2.0). A delete's value it takes as written. Not here: the conversion (`widening`), the
order itself (`merge.ordering`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from penstock.proto.errors import CorruptBlock, SchemaMismatch
from penstock.table.log.delete_walk import ARRAY, INT, LONG, NULL, TIME_MICROS
from penstock.table.log.deletes import DeleteRecords
from penstock.table.schema.avro import AvroField, Primitive, RecordSchema
from penstock.table.schema.compatibility import Same, compatible, type_name

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
