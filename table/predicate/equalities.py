"""The values to which a filter restricts a column: by `=`, `IN`, and their AND and OR. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from penstock.table.predicate.literals import Op
from penstock.table.predicate.tree import And, Column, Compare, Constant, OneOf, Operand, Or, Predicate

_NONE: Final[frozenset[str | int]] = frozenset()


def equal_values(predicate: Predicate, column: str) -> frozenset[str | int] | None:
    """The values one of which the column has in each row that matches; None if the filter allows any other value.

    Columns of text and whole numbers only. Empty if no row matches.
    """
    match predicate:
        case And(terms):
            restricted = [values for term in terms if (values := equal_values(term, column)) is not None]
            return _intersection(restricted) if restricted else None
        case Or(terms):
            union = _NONE
            for term in terms:
                values = equal_values(term, column)
                if values is None:
                    return None
                union |= values
            return union
        case Compare(operand, Op.EQ, value) if _is_plain(operand, column):
            return frozenset([value.as_py()])
        case OneOf(operand, values) if _is_plain(operand, column):
            return frozenset(values.to_pylist())
        case Constant(_, False):
            return _NONE
        case _:
            return None


def _intersection(restricted: Iterable[frozenset[str | int]]) -> frozenset[str | int]:
    first, *others = restricted
    return first.intersection(*others)


def _is_plain(operand: Operand, column: str) -> bool:
    return (
        isinstance(operand, Column)
        and operand.path == (column,)
        and (pa.types.is_string(operand.type) or pa.types.is_large_string(operand.type) or _is_whole(operand.type))
    )


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind))
