"""The conditions of a query in one form, whether they come from SQL text or from a Spark `Column`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

COMPARISONS: Final = frozenset({"=", "!=", "<", "<=", ">", ">="})
MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


class Kind(StrEnum):
    """The type that Spark gives a literal."""

    INTEGER = "integer"
    """TINYINT to BIGINT: an int."""
    DECIMAL = "decimal"
    """DECIMAL: a Decimal with the digits of the literal."""
    DOUBLE = "double"
    """DOUBLE: a float."""
    TEXT = "text"
    """STRING: a str."""
    BOOLEAN = "boolean"
    """BOOLEAN: a bool."""
    DATE = "date"
    """DATE: a text such as 2026-01-31."""
    INSTANT = "instant"
    """TIMESTAMP: microseconds since 1970 UTC, an int."""
    TIMESTAMP = "timestamp"
    """TIMESTAMP: the text of the literal. Without a zone its instant depends on the session's time zone."""
    LOCAL_TIMESTAMP = "local timestamp"
    """TIMESTAMP_NTZ: the text of the literal."""


@dataclass(frozen=True, slots=True)
class Name:
    """A column, or a field of a struct column."""

    parts: tuple[str, ...]
    """The names, outermost first."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal that is not null."""

    kind: Kind
    """Its type in Spark."""
    value: int | float | str | bool | Decimal
    """Its value, in the form that the kind describes."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operator with operands.

    Operators: a comparison (COMPARISONS), `and`, `or`, `not`, `in` (a column, then constants), `isnull`, `like`,
    `startswith`.
    """

    operator: str
    """The operator."""
    operands: tuple[Expression, ...]
    """The operands, left to right."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """An expression that no scan can take."""

    names: tuple[Name, ...] | None = None
    """The columns in it; None if they are unknown."""


Expression = Name | Constant | Call | Unknown


def conjuncts(expression: Expression) -> Iterator[Expression]:
    """The terms of the outermost chain of ANDs, in order."""
    if isinstance(expression, Call) and expression.operator == "and":
        for operand in expression.operands:
            yield from conjuncts(operand)
    else:
        yield expression


def names_in(expressions: Sequence[Expression]) -> tuple[Name, ...] | None:
    """The columns in the expressions, each once; None if they are unknown."""
    names: dict[Name, None] = {}
    for expression in expressions:
        match expression:
            case Name():
                names[expression] = None
            case Call(_, operands):
                inner = names_in(operands)
                if inner is None:
                    return None
                names.update(dict.fromkeys(inner))
            case Unknown(None):
                return None
            case Unknown(known):
                names.update(dict.fromkeys(known or ()))
            case Constant():
                pass
    return tuple(names)
