"""Conditions of Daft as conditions of a scan, and the columns that a query of Daft needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from daft.expressions import Expression
from daft.expressions.visitor import ExpressionVisitor, PredicateVisitor
from daft.io.pushdowns import Pushdowns

from penstock.engine.adapters.conditions import (
    MIRRORED,
    NOT_TRANSLATED,
    Column,
    Condition,
    Untranslatable,
    column,
    compare,
    either,
    every,
    is_not_null,
    is_null,
    negated,
    one_of,
)


@dataclass(frozen=True, slots=True)
class Value:
    """A literal."""

    value: object
    """Its value in Python."""


def required_columns(pushdowns: Pushdowns, schema: pa.Schema) -> list[str] | None:
    """The columns that the query returns and those of its condition, in the table's order, as Daft expects them; None:
    all columns."""
    if pushdowns.columns is None:
        return None
    try:
        needed = {*pushdowns.columns, *(() if pushdowns.filters is None else _Names().visit(pushdowns.filters))}
    except ValueError:  # Daft has expressions that it does not show to a visitor
        return None
    return [name for name in schema.names if name in needed]


def condition_of(predicate: Expression | None, schema: pa.Schema) -> pc.Expression | None:
    """A condition that is true for each row for which `predicate` is true; None if there is none to push."""
    try:
        return None if predicate is None else _Translation(schema).condition(predicate).expression
    except (*NOT_TRANSLATED, RecursionError):
        return None


class _Names(ExpressionVisitor[set[str]]):
    """The columns of an expression. Daft's own visitor for this fails for lists of literals (release 0.7.26)."""

    def visit_col(self, name: str) -> set[str]:
        return {name}

    def visit_lit(self, value: Any) -> set[str]:
        return set()

    def visit_alias(self, expr: Expression, alias: str) -> set[str]:
        return self.visit(expr)

    def visit_cast(self, expr: Expression, dtype: Any) -> set[str]:
        return self.visit(expr)

    def visit_function(self, name: str, args: Sequence[Expression | list[Expression]]) -> set[str]:
        nested = (arg if isinstance(arg, list) else [arg] for arg in args)
        return {column for group in nested for one in group for column in self.visit(one)}

    def visit_coalesce(self, args: Sequence[Expression]) -> set[str]:
        return self.visit_function("coalesce", args)


class _Translation(PredicateVisitor[Any]):
    """Translates an expression into a Condition, a Column or a Value; Untranslatable for what is none of them."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def condition(self, expression: Expression) -> Condition:
        match self.visit(expression):
            case Condition() as condition:
                return condition
            case Column() as operand:
                return compare(operand, "=", True)
        raise Untranslatable(expression)

    def _column(self, expression: Expression) -> Column:
        operand = self.visit(expression)
        if not isinstance(operand, Column):
            raise Untranslatable(expression)
        return operand

    def _compare(self, left: Expression, op: str, right: Expression) -> Condition:
        match self.visit(left), self.visit(right):
            case Column() as operand, Value(value):
                return compare(operand, op, value)
            case Value(value), Column() as operand:
                return compare(operand, MIRRORED[op], value)
        raise Untranslatable(left)

    def visit_col(self, name: str) -> Column:
        return column(self._schema, (name,))

    def visit_lit(self, value: Any) -> Value:
        return Value(value)

    def visit_and(self, left: Expression, right: Expression) -> Condition:
        return every(lambda: self.condition(left), lambda: self.condition(right))

    def visit_or(self, left: Expression, right: Expression) -> Condition:
        return either([self.condition(left), self.condition(right)])

    def visit_not(self, expr: Expression) -> Condition:
        return negated(self.condition(expr))

    def visit_equal(self, left: Expression, right: Expression) -> Condition:
        return self._compare(left, "=", right)

    def visit_not_equal(self, left: Expression, right: Expression) -> Condition:
        return self._compare(left, "!=", right)

    def visit_less_than(self, left: Expression, right: Expression) -> Condition:
        return self._compare(left, "<", right)

    def visit_less_than_or_equal(self, left: Expression, right: Expression) -> Condition:
        return self._compare(left, "<=", right)

    def visit_greater_than(self, left: Expression, right: Expression) -> Condition:
        return self._compare(left, ">", right)

    def visit_greater_than_or_equal(self, left: Expression, right: Expression) -> Condition:
        return self._compare(left, ">=", right)

    def visit_between(self, expr: Expression, lower: Expression, upper: Expression) -> Condition:
        return every(lambda: self._compare(expr, ">=", lower), lambda: self._compare(expr, "<=", upper))

    def visit_is_in(self, expr: Expression, items: Sequence[Expression]) -> Condition:
        values = [self.visit(item) for item in items]
        if not all(isinstance(one, Value) for one in values):
            raise Untranslatable(expr)
        return one_of(self._column(expr), [one.value for one in values])

    def visit_is_null(self, expr: Expression) -> Condition:
        return is_null(self._column(expr))

    def visit_not_null(self, expr: Expression) -> Condition:
        return is_not_null(self._column(expr))

    def visit_alias(self, expr: Expression, alias: str) -> Any:
        return self.visit(expr)

    def visit_cast(self, expr: Expression, dtype: Any) -> Any:
        raise Untranslatable(expr)

    def visit_function(self, name: str, args: Sequence[Expression]) -> Any:
        raise Untranslatable(name)

    def visit_coalesce(self, args: Sequence[Expression]) -> Any:
        raise Untranslatable(args)
