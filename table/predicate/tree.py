"""A filter as a small typed tree, bound to a table's columns. Values only: made by `table.predicate.parse`,
evaluated by the reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.table.predicate.literals import Op


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, or a field inside a struct column: names from the outside in, and the type found."""

    path: tuple[str, ...]
    type: pa.DataType

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Compare:
    """`column op value`; null where the column is null. A floating column compares as double."""

    column: Column
    op: Op
    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class Constant:
    """A comparison whose answer is the same for every value, such as `int_column = 3.5`; null where null."""

    column: Column
    answer: bool


@dataclass(frozen=True, slots=True)
class OneOf:
    """The column equals one of these values (none of them null); null where the column is null."""

    column: Column
    values: pa.Array


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The column's text starts with `prefix`; null where the column is null."""

    column: Column
    prefix: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """The column is null; never null itself."""

    column: Column


@dataclass(frozen=True, slots=True)
class Not:
    """Kleene negation: null stays null."""

    term: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """Kleene conjunction of two or more terms."""

    terms: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Kleene disjunction of two or more terms."""

    terms: tuple[Predicate, ...]


Predicate = Compare | Constant | OneOf | StartsWith | IsNull | Not | And | Or


def columns_of(predicate: Predicate) -> tuple[str, ...]:
    """The table's columns that the predicate looks at: outermost names, each once, in order of appearance."""

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
