"""Reads a condition in SQL text, as sqlglot parses it, as an `Expression`. Imports sqlglot, which takes a while."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from penstock.engine.spark.query.expressions import Call, Constant, Expression, Kind, Name, Unknown

_COMPARISONS: Final[dict[type, str]] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_INTEGER = re.compile(r"\d+")
_DECIMAL = re.compile(r"\d+\.\d*|\.\d+")
_CASTS: Final = {
    "DATE": Kind.DATE,
    "TIMESTAMP": Kind.TIMESTAMP,
    "TIMESTAMPTZ": Kind.TIMESTAMP,
    "TIMESTAMPLTZ": Kind.TIMESTAMP,
    "TIMESTAMPNTZ": Kind.LOCAL_TIMESTAMP,
}


def condition_of(text: str) -> Expression:
    """The condition in `text`; Unknown if sqlglot cannot parse it."""
    try:
        return expression_of(parse_one(text, into=exp.Condition, dialect="spark"))
    except (SqlglotError, RecursionError, LookupError, AttributeError, TypeError, ValueError):
        return Unknown()


def expression_of(node: object) -> Expression:
    """The expression of a syntax tree. A node that may mean something else in Spark is Unknown."""
    match node:
        case exp.Paren():
            return expression_of(node.this)
        case exp.And() | exp.Or():
            operands = (expression_of(node.this), expression_of(node.expression))
            return Call("and" if isinstance(node, exp.And) else "or", operands)
        case exp.Not():
            return Call("not", (expression_of(node.this),))
        case exp.Is() if isinstance(node.expression, exp.Null):
            return Call("isnull", (expression_of(node.this),))
        case exp.In() if node.expressions and _only(node, "this", "expressions"):
            return Call("in", (expression_of(node.this), *(expression_of(each) for each in node.expressions)))
        case exp.Between() if _only(node, "this", "low", "high"):
            column = expression_of(node.this)
            low, high = expression_of(node.args["low"]), expression_of(node.args["high"])
            return Call("and", (Call(">=", (column, low)), Call("<=", (column, high))))
        case exp.Like() if _only(node, "this", "expression", "negate"):
            like = Call("like", (expression_of(node.this), expression_of(node.expression)))
            return Call("not", (like,)) if node.args.get("negate") else like
        case exp.Column() | exp.Dot():
            parts = _parts(node)
            return Name(parts) if parts else Unknown()
        case exp.Binary() if type(node) in _COMPARISONS:
            return Call(_COMPARISONS[type(node)], (expression_of(node.this), expression_of(node.expression)))
    return _constant(node)


def _constant(node: object) -> Expression:
    match node:
        case exp.Literal() if node.is_string:
            return Constant(Kind.TEXT, str(node.this))
        case exp.Literal():
            return _number(str(node.this), 1)
        case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return _number(str(node.this.this), -1)
        case exp.Boolean():
            return Constant(Kind.BOOLEAN, bool(node.this))
        case exp.Cast() if type(node) is exp.Cast and _is_text(node.this) and isinstance(node.to, exp.DataType):
            kind = _CASTS.get(node.to.this.name) if not node.to.expressions else None
            if kind is not None:
                return Constant(kind, str(node.this.this))
    return Unknown()


def _number(text: str, sign: int) -> Expression:
    if _INTEGER.fullmatch(text):
        return Constant(Kind.INTEGER, sign * int(text))
    if _DECIMAL.fullmatch(text):
        return Constant(Kind.DECIMAL, sign * Decimal(text))
    return Unknown()


def _is_text(node: object) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _parts(node: object) -> tuple[str, ...]:
    """The names of a dotted column, outermost first; () for any other node."""
    match node:
        case exp.Column():
            parts = node.parts
            return tuple(part.name for part in parts) if all(isinstance(part, exp.Identifier) for part in parts) else ()
        case exp.Dot() if isinstance(node.expression, exp.Identifier):
            outer = _parts(node.this)
            return (*outer, node.expression.name) if outer else ()
    return ()


def _only(node: exp.Condition, *names: str) -> bool:
    """Whether the node has no other argument than these."""
    return all(name in names or value in (None, False, []) for name, value in node.args.items())
