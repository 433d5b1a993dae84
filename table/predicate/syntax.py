"""Parts of the syntax tree that sqlglot makes of a filter: literals, names, and the error for what is not supported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from penstock.proto.errors import ConfigurationError
from penstock.table.predicate.literals import (
    BinaryLiteral,
    BooleanLiteral,
    DateLiteral,
    DoubleLiteral,
    Literal,
    NumberLiteral,
    TextLiteral,
    TimeLiteral,
    TimestampLiteral,
    double,
    number,
)

MARK: Final = "\ue000"
"""First character of the text that replaces a list of literals in the parsed tokens."""
SHOWN_CHARS: Final = 120
"""Most characters of a filter in an error."""
ALLOWED: Final = (
    "allowed are: column = | != | <> | < | <= | > | >= literal, IN (…), BETWEEN … AND …, [I]LIKE, "
    "IS [NOT] NULL, a boolean column, NOT, AND, OR and parentheses; functions: abs, cast, coalesce, concat, contains, "
    "date, day, endswith, isnan, length, lower, month, signbit, startswith, substring, trim, upper, year; literals: "
    "numbers, 'text', TRUE, FALSE, DATE '…', TIMESTAMP '…', TIME '…', X'…'; write names with other characters in "
    "`backticks`"
)
TIMESTAMPS: Final = {"TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"}
"""sqlglot's names of the types of timestamps."""
_INTEGER_BITS: Final = {"BIGINT": 64, "INT": 32, "SMALLINT": 16, "TINYINT": 8}


def literal_of(node: exp.Condition) -> Literal:
    """The literal that the node is. ConfigurationError for any other node."""
    match node:
        case exp.Literal():
            return TextLiteral(node.this) if node.is_string else number(node.this)
        case exp.Neg():
            return _negative(node)
        case exp.Boolean():
            return BooleanLiteral(bool(node.this))
        case exp.Null():
            raise ConfigurationError("a comparison with NULL is never true: write IS NULL or IS NOT NULL")
        case exp.HexString():
            digits = str(node.this)
            return BinaryLiteral(bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}"))
        case exp.Cast() if isinstance(node.this, exp.Literal) and isinstance(node.to, exp.DataType):
            return _typed_literal(node)
        case exp.Concat():
            raise refused(node, " (write a quote inside a text as \\')")
    raise refused(node)


def _negative(node: exp.Neg) -> Literal:
    match node.this:
        case exp.Literal() if not node.this.is_string:
            return number(f"-{node.this.this}")
        case exp.Cast() if isinstance(node.this.this, exp.Literal) and isinstance(node.this.to, exp.DataType):
            match _typed_literal(node.this):
                case NumberLiteral(value):
                    return NumberLiteral(value.copy_negate())
                case DoubleLiteral(value):
                    return DoubleLiteral(-value)
    raise refused(node)


def _typed_literal(node: exp.Cast) -> Literal:
    """A literal with its type: DATE '…', 1.5D, 1L, CAST('Infinity' AS DOUBLE). ConfigurationError if the type changes
    its value."""
    text, kind = node.this.this, node.to.this.name
    if node.this.is_string and kind == "DATE":
        return DateLiteral(text)
    if node.this.is_string and kind == "TIME":
        return TimeLiteral(text)
    if node.this.is_string and kind == "BINARY":
        return BinaryLiteral(text.encode())
    if node.this.is_string and kind in TIMESTAMPS:
        return TimestampLiteral(text)
    if kind in ("DOUBLE", "FLOAT"):
        return double(text, single=kind == "FLOAT")
    if kind in _INTEGER_BITS:
        exact = number(text)
        if exact.value == exact.value.to_integral_value() and abs(exact.value) < 2 ** (_INTEGER_BITS[kind] - 1):
            return exact
    raise refused(node)


def names_of(node: exp.Condition) -> list[str]:
    """The names of a dotted column, outermost first; [] for any other node."""
    match node:
        case exp.Column():
            parts = node.parts
            return [part.name for part in parts] if all(isinstance(part, exp.Identifier) for part in parts) else []
        case exp.Dot():
            outer = names_of(node.this)
            inner = node.expression
            return [*outer, inner.name] if outer and isinstance(inner, exp.Identifier) else []
    return []


def is_text(node: exp.Condition) -> bool:
    """Whether the node is a quoted text."""
    return isinstance(node, exp.Literal) and bool(node.is_string)


def arguments_of(node: exp.Condition) -> Iterator[str]:
    """The names of a node's arguments that are set."""
    return (name for name, value in node.args.items() if value not in (None, False, []))


def refused(node: exp.Condition, hint: str = "") -> ConfigurationError:
    """The error for an expression that filters do not have."""
    shown = re.sub(f"'{MARK}[0-9]+'", "…", node.sql(dialect="spark"))[:SHOWN_CHARS]
    return ConfigurationError(f"{shown!r} in the filter is not supported{hint}; {ALLOWED}")
