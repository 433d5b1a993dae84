"""Ordering values compared as Hudi compares them: which of two records is newer by event time.

Belongs here: the order of one column's values, nulls lowest; where an int or a date is all that orders a table, null
is 0, Hudi's `OrderingValues` default. Texts order by code point (their UTF-8 bytes), floats as Java's `Double.compare`:
-0.0 below 0.0, NaN equal to itself and above all. Not here: what follows from the order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.proto.errors import SchemaMismatch
from penstock.table.arrow_arrays import arrow_array, arrow_scalar, numpy_array, true_rows
from penstock.table.arrow_compute import pc

_QUIET_NAN = np.int64(0x7FF8000000000000)


def null_is_zero(kinds: Sequence[pa.DataType]) -> bool:
    """Whether a null compares as 0 in a table ordered by columns of these types. Else it is the lowest.

    Runs of 1.2.0: a null is Java's Integer 0, which compares with ints and the days of dates alone."""
    return len(kinds) == 1 and (pa.types.is_int32(kinds[0]) or pa.types.is_date32(kinds[0]))


class OrderingTuples:
    """The ordering values of records, one or several per record, compared one after the other. Immutable."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        """columns: the first, second, … value of each record; at least one. Errors as for `OrderingValues`."""
        self._columns = [OrderingValues(column) for column in _as_compared(columns)]

    def __len__(self) -> int:
        return len(self._columns[0])

    def ranks(self) -> np.ndarray:
        """As `OrderingValues.ranks`."""
        ranks = [column.ranks() for column in self._columns]
        if len(ranks) == 1:
            return ranks[0]
        order = np.lexsort(ranks[::-1])
        differs = np.zeros(len(order), bool)
        for column in ranks:
            differs[1:] |= column[order[1:]] != column[order[:-1]]
        together = np.empty(len(order), np.int64)
        together[order] = np.cumsum(differs)
        return together

    def take(self, rows: np.ndarray) -> OrderingTuples:
        """As `OrderingValues.take`."""
        taken = OrderingTuples.__new__(OrderingTuples)
        taken._columns = [column.take(rows) for column in self._columns]
        return taken

    def lowest(self, rows: np.ndarray) -> int | None:
        """As `OrderingValues.lowest`, of values as they compare; None where there are several values a record."""
        return self._columns[0].lowest(rows) if len(self._columns) == 1 else None

    def exceeded_by(self, others: Sequence[pa.Array], rows: np.ndarray) -> np.ndarray:
        """As `OrderingValues.exceeded_by`; `others` has an array for each value."""
        others = _as_compared(others)
        above = self._columns[0].exceeded_by(others[0], rows)
        if len(self._columns) == 1:
            return above
        tied = self._columns[0].equalled_by(others[0], rows)
        for column, other in zip(self._columns[1:], others[1:], strict=True):
            above |= tied & column.exceeded_by(other, rows)
            tied &= column.equalled_by(other, rows)
        return above


class OrderingValues:
    """One ordering value a record, of any type Arrow can sort. Immutable."""

    def __init__(self, values: pa.Array) -> None:
        """SchemaMismatch for a type without an order (nested, binary)."""
        check_ordering_type(values.type, "ordering column")
        self._values = values
        self._valid = None if values.null_count == 0 else numpy_array(values.is_valid())
        self._integers = _as_integers(values)

    def __len__(self) -> int:
        return len(self._values)

    def ranks(self) -> np.ndarray:
        """int64 a record: greater where the value is greater, equal where equal; nulls below all values."""
        if self._integers is not None and self._valid is None:
            return self._integers
        source = self._values if self._integers is None else arrow_array(self._integers)
        if self._valid is None:
            dense: np.ndarray = numpy_array(pc.rank(source, tiebreaker="dense")).astype(np.int64)
            return dense
        ranks = np.zeros(len(source), np.int64)
        ranks[self._valid] = numpy_array(pc.rank(source.filter(arrow_array(self._valid)), tiebreaker="dense"))
        return ranks

    def take(self, rows: np.ndarray) -> OrderingValues:
        """The values of these records, in this order."""
        return OrderingValues(pc.take(self._values, arrow_array(rows)))

    def lowest(self, rows: np.ndarray) -> int | None:
        """The lowest value of these records, at least one: days or microseconds of a date or time. None if one is null,
        and for types that are not whole numbers, dates, times."""
        whole = pa.types.is_integer(self._values.type) or pa.types.is_temporal(self._values.type)
        if self._integers is None or not whole or (self._valid is not None and not self._valid[rows].all()):
            return None
        return int(self._integers[rows].min())

    def exceeded_by(self, others: pa.Array, rows: np.ndarray) -> np.ndarray:
        """For each i whether others[i] is strictly above the value of record rows[i]. `others` has the same type."""
        above: np.ndarray
        if self._integers is not None:
            above = _integers_of(others) > self._integers[rows]
        else:
            greater = pc.greater(others, pc.take(self._values, arrow_array(rows)))
            above = true_rows(greater)
        if self._valid is not None:
            above = above | ~self._valid[rows]
        if others.null_count:
            above = above & numpy_array(others.is_valid())
        return above

    def equalled_by(self, others: pa.Array, rows: np.ndarray) -> np.ndarray:
        """For each i whether others[i] equals the value of record rows[i]; null equals null."""
        valid = numpy_array(others.is_valid())
        mine = np.ones(len(rows), bool) if self._valid is None else self._valid[rows]
        if self._integers is not None:
            same = _integers_of(others) == self._integers[rows]
        else:
            same = true_rows(pc.equal(others, pc.take(self._values, arrow_array(rows))))
        return np.asarray((valid & mine & same) | ~(valid | mine))


def _as_compared(columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
    if null_is_zero([column.type for column in columns]) and columns[0].null_count:
        return [columns[0].fill_null(arrow_scalar(0, columns[0].type))]
    return columns


def check_ordering_type(kind: pa.DataType, what: str) -> None:
    """SchemaMismatch, beginning with `what`, if values of this type have no order that Hudi knows."""
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (text or number or pa.types.is_boolean(kind) or pa.types.is_temporal(kind)):
        raise SchemaMismatch(
            f"{what} of type {kind}: only numbers, text, booleans, dates and times have an order; Hudi cannot compare "
            "such values either: name another ordering column"
        )


def _as_integers(values: pa.Array) -> np.ndarray | None:
    """int64 in the order of the values (any number for a null); None for text and decimals."""
    kind = values.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _integers_of(values)
    return _integers_of(values) if pa.types.is_temporal(kind) else None


def _integers_of(values: pa.Array) -> np.ndarray:
    kind = values.type
    if pa.types.is_floating(kind):
        bits = _filled(values.cast(pa.float64()), 0.0).view(np.int64)
        magnitude = bits & np.int64(0x7FFFFFFFFFFFFFFF)
        bits = np.where(magnitude > np.int64(0x7FF0000000000000), _QUIET_NAN, bits)
        return np.asarray(bits ^ ((bits >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF)))
    if pa.types.is_boolean(kind):
        return _filled(values.cast(pa.int8()), 0).astype(np.int64)
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return _filled(values, 0).astype(np.int64, copy=False)


def _filled(values: pa.Array, blank: float) -> np.ndarray:
    filled: np.ndarray = numpy_array(
        values.fill_null(arrow_scalar(blank, values.type)) if values.null_count else values
    )
    return filled
