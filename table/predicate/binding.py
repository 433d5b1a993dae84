"""Binds the syntax tree of a filter to a table's schema: names to columns, literals to the types of their columns."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from sqlglot import exp

from penstock.proto.errors import ConfigurationError
from penstock.table.arrow_arrays import arrow_array
from penstock.table.columns import resolve_column
from penstock.table.predicate.functions import call_of, is_call
from penstock.table.predicate.like import escaped, like_of
from penstock.table.predicate.literals import (
    BooleanLiteral,
    Comparison,
    ConstantComparison,
    DoubleLiteral,
    Literal,
    Op,
    RangeComparison,
    comparison,
)
from penstock.table.predicate.syntax import arguments_of, is_text, literal_of, names_of, refused
from penstock.table.predicate.tree import (
    And,
    Call,
    Column,
    Compare,
    Constant,
    Function,
    IsNull,
    Not,
    OneOf,
    Operand,
    Or,
    Predicate,
    Value,
)

_COMPARISONS: Final[dict[type[exp.Condition], Op]] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
}
_MIRRORED: Final = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ, Op.NE: Op.NE}


class Binding:
    """Converts a syntax tree into a predicate, and binds names and literals to a schema."""

    def __init__(self, schema: pa.Schema, lists: Mapping[str, Sequence[Literal]]) -> None:
        """`lists`: replacement text -> literals of the IN lists that are not in the tree."""
        self._schema, self._lists = schema, lists

    def predicate(self, node: exp.Condition) -> Predicate:
        """The predicate of a node. ConfigurationError if filters do not have it, or a literal does not match a type."""
        match node:
            case exp.Paren():
                return self.predicate(node.this)
            case exp.And():
                return And(self._chain(node, exp.And))
            case exp.Or():
                return Or(self._chain(node, exp.Or))
            case exp.Not():
                return Not(self.predicate(node.this))
            case exp.In() if node.expressions and not set(arguments_of(node)) - {"this", "expressions"}:
                return self._one_of(self._operand(node.this, node), self._literals(node.expressions))
            case exp.Between() if not set(arguments_of(node)) - {"this", "low", "high"}:
                operand = self._operand(node.this, node)
                low = _compare(operand, Op.GE, literal_of(node.args["low"]))
                return And((low, _compare(operand, Op.LE, literal_of(node.args["high"]))))
            case exp.Like() | exp.ILike() | exp.Escape():
                return self._like(node)
            case exp.StartsWith() | exp.EndsWith() | exp.Contains():
                return self._contains(node)
            case exp.Is() if isinstance(node.expression, exp.Null):
                return IsNull(self._operand(node.this, node))
            case _ if type(node) in _COMPARISONS:
                return self._comparison(node, _COMPARISONS[type(node)])
        return _compare(self._operand(node, node), Op.EQ, BooleanLiteral(True))

    def _chain(self, node: exp.Condition, kind: type[exp.Condition]) -> tuple[Predicate, ...]:
        """The terms of a chain of ANDs or ORs. The tree is left-deep, and can be as deep as the text is long."""
        terms: list[Predicate] = []
        while isinstance(node, kind):
            terms.append(self.predicate(node.expression))
            node = node.this
        terms.append(self.predicate(node))
        return tuple(reversed(terms))

    def _comparison(self, node: exp.Condition, op: Op) -> Predicate:
        left, right = node.this, node.expression
        if self._is_operand(right) and not self._is_operand(left):
            left, right, op = right, left, _MIRRORED[op]
        return _compare(self._operand(left, node), op, literal_of(right))

    def _one_of(self, operand: Operand, literals: Sequence[Literal]) -> Predicate:
        bound = [_equality(operand, literal) for literal in literals]
        ranges: list[Predicate] = [
            _within(operand, against) for against in bound if isinstance(against, RangeComparison)
        ]
        values = [against.value for against in bound if isinstance(against, Comparison)]
        if values:
            ranges.append(OneOf(operand, arrow_array([value.as_py() for value in values], values[0].type)))
        if not ranges:
            return Constant(operand, result=False)
        return ranges[0] if len(ranges) == 1 else Or(tuple(ranges))

    def _like(self, node: exp.Condition) -> Predicate:
        escape = "\\"
        like = node
        if isinstance(node, exp.Escape):
            like, escape = node.this, node.expression.this if is_text(node.expression) else ""
        if set(arguments_of(like)) - {"this", "expression", "negate"} or not is_text(like.expression):
            raise refused(node)
        operand, pattern = self._text(like), str(like.expression.this)
        if isinstance(like, exp.ILike):  # as Spark, which compares both in lower case
            operand, pattern = Call(Function.LOWER, (operand,), pa.string()), pattern.lower()
        match = like_of(operand, pattern, escape)
        return Not(match) if like.args.get("negate") else match

    def _contains(self, node: exp.Condition) -> Predicate:
        if not is_text(node.expression):
            raise refused(node)
        text = escaped(str(node.expression.this))
        start = "" if isinstance(node, exp.StartsWith) else "%"
        end = "" if isinstance(node, exp.EndsWith) else "%"
        return like_of(self._text(node), f"{start}{text}{end}", "\\")

    def _literals(self, nodes: Sequence[exp.Condition]) -> Sequence[Literal]:
        if len(nodes) == 1 and is_text(nodes[0]) and nodes[0].this in self._lists:
            return self._lists[nodes[0].this]
        return [literal_of(node) for node in nodes]

    def _text(self, node: exp.Condition) -> Operand:
        operand = self._operand(node.this, node)
        if not (pa.types.is_string(operand.type) or pa.types.is_large_string(operand.type)):
            raise ConfigurationError(f"{_described(operand)} is {operand.type}: LIKE is for text")
        return operand

    def _is_operand(self, node: exp.Condition) -> bool:
        while isinstance(node, exp.Paren):
            node = node.this
        return isinstance(node, exp.Column | exp.Dot) or is_call(node)

    def _operand(self, node: exp.Condition, within: exp.Condition) -> Operand:
        if isinstance(node, exp.Paren):
            return self._operand(node.this, within)
        return call_of(node, lambda argument: self._operand(argument, within), _value) or self._column(node, within)

    def _column(self, node: exp.Condition, within: exp.Condition) -> Column:
        names = names_of(node)
        if not names:
            hint = " (double quotes delimit a text; quote a column name with `backticks`)" if is_text(node) else ""
            raise refused(within, hint)
        first = resolve_column(names[0], self._schema.names)
        path, kind = [first], self._schema.field(first).type
        for name in names[1:]:
            if not pa.types.is_struct(kind):
                raise ConfigurationError(f"column {'.'.join(path)!r} is {kind}: it has no field {name!r}")
            fields = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
            path.append(resolve_column(name, tuple(fields)))
            kind = fields[path[-1]]
        return Column(tuple(path), kind)


def _compare(operand: Operand, op: Op, literal: Literal) -> Predicate:
    match comparison(_described(operand), operand.type, op, literal):
        case Comparison(exact_op, value):
            return Compare(operand, exact_op, value)
        case ConstantComparison(result):
            return Constant(operand, result)
        case RangeComparison() as limits:
            return _within(operand, limits)


def _equality(operand: Operand, literal: Literal) -> Comparison | ConstantComparison | RangeComparison:
    """The comparison of an operand with a value of an IN list."""
    if isinstance(literal, DoubleLiteral) and pa.types.is_float32(operand.type) and not literal.is_single:
        raise ConfigurationError(
            f"{_described(operand)} is {operand.type}, which has no value {literal.value}: IN (…) compares exact "
            "values; compare with <, <=, > or >=, or give a value that the type has"
        )
    return comparison(_described(operand), operand.type, Op.EQ, literal)


def _within(operand: Operand, limits: RangeComparison) -> Predicate:
    both = And((Compare(operand, Op.GE, limits.low), Compare(operand, Op.LE, limits.high)))
    return Not(both) if limits.negated else both


def _described(operand: Operand) -> str:
    return f"column {str(operand)!r}" if isinstance(operand, Column) else str(operand)


def _value(node: exp.Condition, kind: pa.DataType) -> Value:
    """A literal as a value of a type. ConfigurationError if the type does not have exactly this value."""
    match comparison("an argument of a function", kind, Op.EQ, literal_of(node)):
        case Comparison(_, value) if not pa.types.is_float32(kind):
            with contextlib.suppress(pa.ArrowInvalid):  # finer than the type
                return Value(value.cast(kind))
    raise refused(node, f" (expected a value of type {kind})")
