"""Tests whether a predicate may match any row within given column bounds. Pure.

The result may be true although no row matches, but never false if one does. Bounds come from partition paths
(`table.partitions.pruning`), column statistics (enumerator) and Parquet footers (reader).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from decimal import Decimal
from typing import Final

import pyarrow as pa

from penstock.proto.errors import InvariantViolation
from penstock.proto.value_classes import dataclass
from penstock.table.predicate.literals import Op
from penstock.table.predicate.tree import (
    And,
    Column,
    Compare,
    Constant,
    IsNull,
    Like,
    Not,
    OneOf,
    Operand,
    Or,
    Predicate,
    StartsWith,
)

Comparable = bool | int | float | bytes | Decimal
"""A value in comparison order: texts as UTF-8 bytes, dates as days, times and timestamps as microseconds."""


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """The bounds of a column in a set of rows. NaN is greater than every number."""

    low: Comparable | None = None
    """No value is less; None if unknown."""
    high: Comparable | None = None
    """No value is greater; None if unknown."""
    nulls: bool = True
    """Whether a row may be null."""
    values: bool = True
    """Whether a row may have a value."""


UNKNOWN: Final = ColumnBounds()
ONLY_NULLS: Final = ColumnBounds(values=False)

BoundsLookup = Callable[[Column], ColumnBounds]
"""Column of a predicate -> its bounds in the rows."""


@dataclass(frozen=True, slots=True)
class _Results:
    """The results that a predicate may have for the rows. A possible result is never missing."""

    true: bool
    """It may be true."""
    false: bool
    """It may be false."""
    null: bool
    """It may be null."""


def range_bounds(low: Comparable | None, high: Comparable | None, *, nulls: bool) -> ColumnBounds:
    """Bounds of values from `low` to `high`, and of nulls if `nulls`. Inconsistent bounds and NaN count as unknown."""
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        return ColumnBounds(nulls=nulls)
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        return UNKNOWN
    return ColumnBounds(low, high, nulls=nulls)


def value_bounds(value: pa.Scalar) -> ColumnBounds:
    """Bounds of rows that all have this value, or are all null."""
    if not value.is_valid:
        return ONLY_NULLS
    exact = comparable(value)
    return range_bounds(exact, exact, nulls=False)


def comparable(value: pa.Scalar) -> Comparable | None:
    """The value in comparison order; None for null, NaN, and types that filters do not compare."""
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return bytes(value.as_buffer())
    if pa.types.is_floating(kind):
        number = float(value.as_py())
        return None if math.isnan(number) else number
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        exact: bool | int | Decimal = value.as_py()
        return exact
    if pa.types.is_date32(kind) or kind == pa.time64("us") or (pa.types.is_timestamp(kind) and kind.unit == "us"):
        return int(value.value)
    return None


def comparables(values: pa.Array) -> list[Comparable | None]:
    """`comparable` of each value, without an object of Arrow for each: a filter may have thousands, and each file of a
    read tests them."""
    kind = values.type
    if pa.types.is_string(kind):
        return values.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]
    if kind == pa.time64("us") or (pa.types.is_timestamp(kind) and kind.unit == "us"):
        return values.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return values.to_pylist()  # type: ignore[no-any-return]
    return [comparable(value) for value in values]


class MayMatch:
    """A predicate that is tested against bounds repeatedly."""

    def __init__(self, predicate: Predicate) -> None:
        self._predicate = predicate
        self._sorted_values: dict[int, list[Comparable] | None] = {}

    def __call__(self, bounds: BoundsLookup) -> bool:
        """Whether the predicate may be true for a row within these bounds."""
        return self._results(self._predicate, bounds).true

    def _results(self, node: Predicate, bounds: BoundsLookup) -> _Results:
        match node:
            case And(terms):
                results = [self._results(term, bounds) for term in terms]
                return _Results(
                    all(term.true for term in results),
                    any(term.false for term in results),
                    any(term.null for term in results),
                )
            case Or(terms):
                results = [self._results(term, bounds) for term in terms]
                return _Results(
                    any(term.true for term in results),
                    all(term.false for term in results),
                    any(term.null for term in results),
                )
            case Not(term):
                inner = self._results(term, bounds)
                return _Results(inner.false, inner.true, inner.null)
            case IsNull(operand):
                known = _operand_bounds(operand, bounds)
                return _Results(known.nulls, known.values, False)
            case _:
                known = _operand_bounds(node.operand, bounds)
                true, false = self._of_values(node, known) if known.values else (False, False)
                return _Results(true, false, known.nulls)

    def _of_values(self, node: Predicate, known: ColumnBounds) -> tuple[bool, bool]:
        """(whether the predicate may be true, whether it may be false) for values within the bounds."""
        match node:
            case Constant(_, result):
                return result, not result
            case StartsWith(_, prefix):
                return _starts_with(prefix.encode(), known)
            case Like(prefix=prefix):
                return _starts_with(prefix.encode(), known)[0], True
            case Compare(_, op, value):
                return _compare(op, comparable(value), known)
            case OneOf():
                return _one_of(self._values(node), known)
        raise InvariantViolation(f"unknown predicate type: {node!r}")

    def _values(self, node: OneOf) -> list[Comparable] | None:
        """The values of an IN list, sorted; None if one of them cannot be compared."""
        key = id(node)
        if key not in self._sorted_values:
            values = comparables(node.values)
            exact = [value for value in values if value is not None]
            self._sorted_values[key] = sorted(exact) if len(exact) == len(values) else None
        return self._sorted_values[key]


def _operand_bounds(operand: Operand, bounds: BoundsLookup) -> ColumnBounds:
    """Bounds of a column. The bounds of its functions are unknown."""
    return bounds(operand) if isinstance(operand, Column) else UNKNOWN


def _compare(op: Op, value: Comparable | None, known: ColumnBounds) -> tuple[bool, bool]:
    if value is None:
        return True, True
    below = known.low is None or known.low < value  # type: ignore[operator]
    above = known.high is None or known.high > value  # type: ignore[operator]
    equal = _within(value, known)
    match op:
        case Op.EQ:
            return equal, below or above
        case Op.NE:
            return below or above, equal
        case Op.LT:
            return below, equal or above
        case Op.LE:
            return below or equal, above
        case Op.GT:
            return above, below or equal
        case Op.GE:
            return above or equal, below


def _one_of(values: list[Comparable] | None, known: ColumnBounds) -> tuple[bool, bool]:
    if values is None:
        return True, True
    first = 0 if known.low is None else bisect_left(values, known.low)
    matches = first < len(values) and _within(values[first], known)
    only = matches and known.low is not None and known.low == known.high
    return matches, not only


def _starts_with(prefix: bytes, known: ColumnBounds) -> tuple[bool, bool]:
    low, high, size = known.low, known.high, len(prefix)
    if not isinstance(low, bytes | None) or not isinstance(high, bytes | None):
        return True, True
    true = (low is None or low[:size] <= prefix) and (high is None or high >= prefix)
    always = low is not None and high is not None and low[:size] == prefix == high[:size]
    return true, not always


def _within(value: Comparable, known: ColumnBounds) -> bool:
    return (known.low is None or known.low <= value) and (known.high is None or known.high >= value)  # type: ignore[operator]
