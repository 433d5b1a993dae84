"""The tree of a filter, bound to a table's columns. `table.predicate.parse` creates it, the reader evaluates it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import pyarrow as pa

from penstock.proto.value_classes import dataclass
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
    """A function of values, as in Spark. It is null if an argument is null, unless its line says otherwise."""

    IS_NAN = "isnan"
    """Whether a number is NaN; never null: false for null."""
    SIGN_BIT = "signbit"
    """Whether a number is negative or -0.0."""
    ABS = "abs"
    """The absolute value of a number, which always fits its type: that of int64 is unsigned."""
    UPPER = "upper"
    """The text in upper case, of any length."""
    LOWER = "lower"
    """The text in lower case, of any length."""
    LENGTH = "length"
    """The number of characters of a text, or of bytes."""
    TRIM = "trim"
    """The text without spaces (U+0020) at both ends."""
    LTRIM = "ltrim"
    """The text without spaces at its start."""
    RTRIM = "rtrim"
    """The text without spaces at its end."""
    SUBSTRING = "substring"
    """The characters of a text from a position (from 1; negative: from the end), at most as many as the third argument
    says."""
    CONCAT = "concat"
    """Texts, one after the other."""
    COALESCE = "coalesce"
    """The first argument that is not null; null if all are."""
    YEAR = "year"
    """The year of a date or time; of an instant in UTC."""
    MONTH = "month"
    """The month, from 1."""
    DAY = "day"
    """The day of the month, from 1."""
    CAST = "cast"
    """The value in another type that can represent every value of the argument's type, floats possibly rounded; the
    date of a time, of an instant in UTC."""


@dataclass(frozen=True, slots=True)
class Value:
    """A literal as an argument of a function."""

    scalar: pa.Scalar
    """The value, never null."""

    @property
    def type(self) -> pa.DataType:
        """Its type."""
        return self.scalar.type

    def __str__(self) -> str:
        return repr(self.scalar.as_py())


@dataclass(frozen=True, slots=True)
class Call:
    """A function of columns and literals."""

    function: Function
    """The function."""
    arguments: tuple[Operand, ...]
    """Its arguments, in order."""
    type: pa.DataType
    """Type of the result."""

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


Operand = Column | Call | Value
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
class Like:
    """The operand's text matches the pattern as a whole; null where the operand is null."""

    operand: Operand
    """A text."""
    pattern: str
    r"""`%` stands for any text, `_` for any character; after a backslash, `%`, `_` and the backslash are themselves."""
    prefix: str
    """The text with which every match starts."""


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


Predicate = Compare | Constant | OneOf | StartsWith | Like | IsNull | Not | And | Or


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
            case Value():
                return
            case Call(_, arguments):
                for argument in arguments:
                    yield from leaves(argument)
            case _:
                yield from leaves(node.operand)

    return tuple(dict.fromkeys(leaves(predicate)))
