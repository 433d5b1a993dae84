"""Whether a filter may hold for any of some rows of which only bounds are known. Pure, and never narrow.

Belongs here: what bounds of columns say about a predicate. Not here: where bounds come from (partition paths:
`table.partitions.pruning`; Parquet footers: the reader), evaluation over rows (`penstock.reader.split.filter`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import pyarrow as pa

from penstock.proto.errors import InvariantViolation
from penstock.table.predicate.literals import Op
from penstock.table.predicate.tree import (
    And,
    Column,
    Compare,
    Constant,
    IsNull,
    Not,
    OneOf,
    Or,
    Predicate,
    StartsWith,
)

Comparable = bool | int | float | bytes | Decimal
"""A value in the order filters compare in: texts as UTF-8, dates as days, times and timestamps as microseconds."""


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """What is known of a column in some rows: no value is below `low` or above `high` (None: not known).

    NaN is above every number. `nulls`, `values`: whether a null, whether a value may be among them.
    """

    low: Comparable | None = None
    high: Comparable | None = None
    nulls: bool = True
    values: bool = True


UNKNOWN: Final = ColumnBounds()
ONLY_NULLS: Final = ColumnBounds(values=False)

BoundsLookup = Callable[[Column], ColumnBounds]
"""What is known of each column that a predicate names, for the rows in question."""


@dataclass(frozen=True, slots=True)
class _Answers:
    """Which answers rows may give; each may be said to be possible where it is not, never the other way round."""

    true: bool
    false: bool
    null: bool


def range_bounds(low: Comparable | None, high: Comparable | None, *, nulls: bool) -> ColumnBounds:
    """Values from `low` to `high`, and nulls if `nulls`. Bounds that contradict themselves or are NaN say nothing."""
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        return ColumnBounds(nulls=nulls)
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        return UNKNOWN
    return ColumnBounds(low, high, nulls=nulls)


def value_bounds(value: pa.Scalar) -> ColumnBounds:
    """One value in every row, or null in every row."""
    if not value.is_valid:
        return ONLY_NULLS
    exact = comparable(value)
    return range_bounds(exact, exact, nulls=False)


def comparable(value: pa.Scalar) -> Comparable | None:
    """A value as it compares with others of its type; None for null, NaN, and types that filters do not compare."""
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


class MayMatch:
    """A predicate to be held against bounds, again and again."""

    def __init__(self, predicate: Predicate) -> None:
        self._predicate = predicate
        self._looked_up: dict[int, list[Comparable] | None] = {}

    def __call__(self, bounds: BoundsLookup) -> bool:
        """False only if the predicate is true for no row within these bounds."""
        return self._answers(self._predicate, bounds).true

    def _answers(self, node: Predicate, bounds: BoundsLookup) -> _Answers:
        match node:
            case And(terms):
                found = [self._answers(term, bounds) for term in terms]
                return _Answers(
                    all(term.true for term in found),
                    any(term.false for term in found),
                    any(term.null for term in found),
                )
            case Or(terms):
                found = [self._answers(term, bounds) for term in terms]
                return _Answers(
                    any(term.true for term in found),
                    all(term.false for term in found),
                    any(term.null for term in found),
                )
            case Not(term):
                inner = self._answers(term, bounds)
                return _Answers(inner.false, inner.true, inner.null)
            case IsNull(column):
                known = bounds(column)
                return _Answers(known.nulls, known.values, False)
            case _:
                known = bounds(node.column)
                true, false = self._of_values(node, known) if known.values else (False, False)
                return _Answers(true, false, known.nulls)

    def _of_values(self, node: Predicate, known: ColumnBounds) -> tuple[bool, bool]:
        """Whether values within the bounds may give true, and whether they may give false."""
        match node:
            case Constant(_, answer):
                return answer, not answer
            case StartsWith(_, prefix):
                return _starts_with(prefix.encode(), known)
            case Compare(_, op, value):
                return _compare(op, comparable(value), known)
            case OneOf():
                return _one_of(self._values(node), known)
        raise InvariantViolation(f"a predicate that is none: {node!r}")

    def _values(self, node: OneOf) -> list[Comparable] | None:
        """The values looked for, sorted; None if one of them does not compare."""
        key = id(node)
        if key not in self._looked_up:
            found = [comparable(value) for value in node.values]
            exact = [value for value in found if value is not None]
            self._looked_up[key] = sorted(exact) if len(exact) == len(found) else None
        return self._looked_up[key]


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
    found = first < len(values) and _within(values[first], known)
    alone = found and known.low is not None and known.low == known.high
    return found, not alone


def _starts_with(prefix: bytes, known: ColumnBounds) -> tuple[bool, bool]:
    low, high, size = known.low, known.high, len(prefix)
    if not isinstance(low, bytes | None) or not isinstance(high, bytes | None):
        return True, True
    true = (low is None or low[:size] <= prefix) and (high is None or high >= prefix)
    always = low is not None and high is not None and low[:size] == prefix == high[:size]
    return true, not always


def _within(value: Comparable, known: ColumnBounds) -> bool:
    return (known.low is None or known.low <= value) and (known.high is None or known.high >= value)  # type: ignore[operator]
