"""The tree of a filter, bound to a table's columns. `table.predicate.parse` creates it, the reader evaluates it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Compare:
    """`column op value`; null where the column is null. A floating column compares as double."""

    column: Column
    """Left side."""
    op: Op
    """Operator."""
    value: pa.Scalar
    """Right side."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A comparison with the same result for every value, such as `int_column = 3.5`; null where the column is null."""

    column: Column
    """The compared column."""
    result: bool
    """The result for every value."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """The column equals one of the values; null where the column is null."""

    column: Column
    """The compared column."""
    values: pa.Array
    """The values, none of them null."""


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The column's text starts with `prefix`; null where the column is null."""

    column: Column
    """A text column."""
    prefix: str
    """Not escaped."""


@dataclass(frozen=True, slots=True)
class IsNull:
    """The column is null; never null itself."""

    column: Column
    """The tested column."""


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

    def leaves(node: Predicate) -> Iterator[str]:
        match node:
            case And(terms) | Or(terms):
                for term in terms:
                    yield from leaves(term)
            case Not(term):
                yield from leaves(term)
            case _:
                yield node.column.path[0]

    return tuple(dict.fromkeys(leaves(predicate)))
