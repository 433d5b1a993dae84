"""The tree of a filter, bound to a table's columns. `table.predicate.parse` creates it, the reader evaluates it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from penstock.table.predicate.literals import Op


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, or a field inside a struct column."""

    path: tuple[str, ...]
    """The column's name, then the names of nested fields."""
    type: pa.DataType
    """Type in the table's schema."""

    def __str__(self) -> str:
        return ".".join(self.path)


class Function(StrEnum):
    """A function of values. Its docs say when it is null."""

    IS_NAN = "isnan"
    """Whether a number is NaN; never null: false for null."""
    SIGN_BIT = "signbit"
    """Whether a number is negative or -0.0; null for null."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function of a column."""

    function: Function
    """The function."""
    arguments: tuple[Operand, ...]
    """Its arguments, in order."""
    type: pa.DataType
    """Type of the result."""

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


Operand = Column | Call
"""What a condition tests."""


@dataclass(frozen=True, slots=True)
class Compare:
    """`operand op value`; null where the operand is null. A floating operand compares as double."""

    operand: Operand
    """Left side."""
    op: Op
    """Operator."""
    value: pa.Scalar
    """Right side."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A comparison with the same result for every value, such as `int_column = 3.5`; null where the operand is null."""

    operand: Operand
    """The compared operand."""
    result: bool
    """The result for every value."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """The operand equals one of the values; null where the operand is null."""

    operand: Operand
    """The compared operand."""
    values: pa.Array
    """The values, none of them null."""


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The operand's text starts with `prefix`; null where the operand is null."""

    operand: Operand
    """A text."""
    prefix: str
    """Not escaped."""


@dataclass(frozen=True, slots=True)
class IsNull:
    """The operand is null; never null itself."""

    operand: Operand
    """The tested operand."""


@dataclass(frozen=True, slots=True)
class Not:
    """Kleene negation: null stays null."""

    term: Predicate
    """The negated term."""


@dataclass(frozen=True, slots=True)
class And:
    """Kleene conjunction of two or more terms."""

    terms: tuple[Predicate, ...]
    """The terms, at least two."""


@dataclass(frozen=True, slots=True)
class Or:
    """Kleene disjunction of two or more terms."""

    terms: tuple[Predicate, ...]
    """The terms, at least two."""


Predicate = Compare | Constant | OneOf | StartsWith | IsNull | Not | And | Or


def columns_of(predicate: Predicate) -> tuple[str, ...]:
    """The table's columns in the predicate: top-level names, each once, in order of appearance."""

    def leaves(node: Predicate | Operand) -> Iterator[str]:
        match node:
            case And(terms) | Or(terms):
                for term in terms:
                    yield from leaves(term)
            case Not(term):
                yield from leaves(term)
            case Column(path):
                yield path[0]
            case Call(_, arguments):
                for argument in arguments:
                    yield from leaves(argument)
            case _:
                yield from leaves(node.operand)

    return tuple(dict.fromkeys(leaves(predicate)))
