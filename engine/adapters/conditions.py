"""Conditions of other engines as conditions of a scan. Pure.

A condition of a scan is true at least for the rows for which the engine's is, so that the engine finds its rows among
those of the scan. What cannot be translated this way is not pushed: the engine applies its whole condition itself.
"""

from __future__ import annotations

import datetime
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.requests.where import where_part
from penstock.proto.errors import PenstockError
from penstock.table.predicate.parse import parse_predicate

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_OR_EQUAL: Final = {"<": "<=", ">": ">="}
"""The operator that is also true for equal values."""

MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator after the operands are exchanged."""


class Untranslatable(Exception):
    """No condition of a scan is true for all rows for which the engine's is."""


NOT_TRANSLATED: Final = (Untranslatable, LookupError, TypeError, ValueError, ArithmeticError)
"""What a translation raises for a condition that it does not recognize."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that is true at least for the rows for which the engine's is."""

    expression: pc.Expression
    """The condition, with PyArrow's meaning: NaN fulfils no comparison but `!=`, and `isin` is false for null."""
    exact: bool = True
    """Whether it is true and false for the same rows as the engine's; else it may be true for more rows."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a struct."""

    path: tuple[str, ...]
    """The names, outermost first."""
    type: pa.DataType
    """The type."""

    @property
    def reference(self) -> pc.Expression:
        """The column as an expression."""
        return pc.field(*self.path)


def column(schema: pa.Schema, path: Sequence[str]) -> Column:
    """The column at `path`. Untranslatable if the schema does not have exactly one."""
    index = schema.get_field_index(path[0])
    if index < 0:
        raise Untranslatable(path)
    kind = schema.field(index).type
    for name in path[1:]:
        child = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
        if child < 0:
            raise Untranslatable(path)
        kind = kind.field(child).type
    return Column(tuple(path), kind)


def compare(left: Column, op: str, value: object) -> Condition:
    """`left op value`, `op` one of = != < <= > >=. Untranslatable for a value that is not exactly of the column's type.

    For some engines NaN is the greatest value, and -0.0 is less than 0.0. The condition is therefore true for NaN and
    for both zeros if the engine's might be, and not exact on columns of floats.
    """
    scalar = _scalar(left.type, value)
    if pa.types.is_boolean(left.type) and op not in ("=", "!="):
        raise Untranslatable(op)
    if not pa.types.is_floating(left.type):
        return Condition(_OPERATORS[op](left.reference, scalar))
    if value == 0:
        if op == "!=":
            return Condition(left.reference.is_valid(), exact=False)
        op = _OR_EQUAL.get(op, op)
    compared = _OPERATORS[op](left.reference, scalar)
    return Condition(compared | pc.is_nan(left.reference) if op in (">", ">=") else compared, exact=False)


def one_of(left: Column, values: Sequence[object]) -> Condition:
    """`left IN (values)`. Untranslatable for an empty list, one with a null, or a value not of the column's type."""
    if not values:
        raise Untranslatable("an empty list")
    if pa.types.is_floating(left.type):  # `isin` distinguishes -0.0 from 0.0
        return either([compare(left, "=", value) for value in values])
    scalars = [_scalar(left.type, value) for value in values]
    return Condition(left.reference.isin(pa.array([scalar.as_py() for scalar in scalars], scalars[0].type)))


def is_null(operand: Column) -> Condition:
    """`operand IS NULL`."""
    return Condition(operand.reference.is_null())


def is_not_null(operand: Column) -> Condition:
    """`operand IS NOT NULL`."""
    return Condition(operand.reference.is_valid())


def negated(condition: Condition) -> Condition:
    """NOT `condition`. Untranslatable if it is not exact: its negation would be true for fewer rows."""
    if not condition.exact:
        raise Untranslatable("the negation of a condition that is not exact")
    return Condition(~condition.expression)


def either(conditions: Sequence[Condition]) -> Condition:
    """`conditions` joined by OR."""
    joined = functools.reduce(operator.or_, (one.expression for one in conditions))
    return Condition(joined, exact=all(one.exact for one in conditions))


def every(*parts: Callable[[], Condition]) -> Condition:
    """The conditions that `parts` translate, joined by AND, without those that are not translated.

    Untranslatable if none is.
    """
    conditions: list[Condition] = []
    for part in parts:
        try:
            conditions.append(part())
        except NOT_TRANSLATED:
            continue
    if not conditions:
        raise Untranslatable("a chain of ANDs")
    joined = functools.reduce(operator.and_, (one.expression for one in conditions))
    return Condition(joined, exact=len(conditions) == len(parts) and all(one.exact for one in conditions))


def pushed_where(given: str, condition: pc.Expression | None, schema: pa.Schema) -> str:
    """The option `where` of a read: the caller's own, and those terms of `condition` that a scan of `schema` accepts.

    Every row for which `condition` is true fulfils these terms.
    """
    text = ""
    if condition is not None:
        try:
            text = where_part(condition, schema)
            if text:
                parse_predicate(f"({text})", schema)
        except (PenstockError, RecursionError):  # too many terms for the grammar
            text = ""
    return f"({given}) AND ({text})" if given and text else given or text


def _scalar(kind: pa.DataType, value: object) -> pa.Scalar:
    """`value` as a value of the column's type: then all engines compare alike, but for NaN."""
    match value:
        case bool():
            fits = pa.types.is_boolean(kind)
        case int():
            fits = pa.types.is_integer(kind)
        case str():
            fits = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        case float():
            # an engine may compare a column of 32 bits with the literal as one of 32 bits
            fits = math.isfinite(value) and (
                pa.types.is_float64(kind) or (pa.types.is_float32(kind) and float(np.float32(value)) == value)
            )
        case Decimal():
            fits = pa.types.is_decimal(kind)
        case datetime.datetime():
            fits = pa.types.is_timestamp(kind) and (value.tzinfo is None) == (kind.tz is None)
        case datetime.date():
            fits = pa.types.is_date32(kind)
        case _:
            fits = False
    if not fits:
        raise Untranslatable(value)
    try:
        return pa.scalar(value, kind)
    except (pa.ArrowException, OverflowError, ValueError):
        raise Untranslatable(value) from None
