"""The functions of a filter: which calls of a syntax tree they are, and the types that they take and return.

Only functions whose result is the same in every mode of Spark, and casts that never fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

import pyarrow as pa
from sqlglot import exp

from penstock.proto.errors import ConfigurationError
from penstock.table.predicate.casts import cast_type
from penstock.table.predicate.syntax import arguments_of, is_text, literal_of, refused
from penstock.table.predicate.tree import Call, Function, Operand, Value

MAX_CONCAT: Final = 32
"""Most texts that a call of `concat` joins, with those of the calls in it."""
_UNARY: Final[dict[type[exp.Condition], Function]] = {
    exp.IsNan: Function.IS_NAN,
    exp.Abs: Function.ABS,
    exp.Upper: Function.UPPER,
    exp.Lower: Function.LOWER,
    exp.Length: Function.LENGTH,
    exp.Year: Function.YEAR,
    exp.Month: Function.MONTH,
    exp.Day: Function.DAY,
    exp.DayOfMonth: Function.DAY,
}
_TRIMS: Final = {"": Function.TRIM, "LEADING": Function.LTRIM, "TRAILING": Function.RTRIM}
_POSITIONS: Final = 2**31
_OTHERS: Final = (exp.Trim, exp.Substring, exp.Concat, exp.DPipe, exp.Coalesce, exp.Cast, exp.TsOrDsToDate)

Bind = Callable[[exp.Condition], Operand]
"""Binds an argument that is a column or a call."""
Literals = Callable[[exp.Condition, pa.DataType], Value]
"""Binds an argument that is a literal to a type."""


def is_call(node: exp.Condition) -> bool:
    """Whether the node is a call of a function that filters have."""
    if isinstance(node, exp.Cast):
        return not isinstance(node.this, exp.Literal)
    return _unary(node) is not None or isinstance(node, _OTHERS)


def call_of(node: exp.Condition, bind: Bind, literal: Literals) -> Call | None:
    """The call that the node is; None if it is no function of a filter.

    ConfigurationError: an argument has a type that the function does not take.
    """
    if not is_call(node):
        return None
    match node:
        case exp.Cast():
            return _cast(node, bind(node.this))
        case exp.TsOrDsToDate() if set(arguments_of(node)) <= {"this", "safe"}:
            return _date(node, bind(node.this))
        case exp.Trim() if (position := str(node.args.get("position") or "")) in _TRIMS and not node.expression:
            return _of_text(_TRIMS[position], bind(node.this), pa.string())
        case exp.Substring():
            return _substring(node, bind(node.this))
        case exp.Concat() | exp.DPipe():
            return _concat(node, bind, literal)
        case exp.Coalesce() if node.expressions:
            return _coalesce([node.this, *node.expressions], bind, literal)
    function = _unary(node)
    if function is None:
        raise refused(node)
    return _of_one(function, bind(_argument(node)))


def _unary(node: exp.Condition) -> Function | None:
    if isinstance(node, exp.Anonymous):
        known = str(node.this).lower() == "signbit" and len(node.expressions) == 1
        return Function.SIGN_BIT if known else None
    return _UNARY.get(type(node))


def _argument(node: exp.Condition) -> exp.Condition:
    if isinstance(node, exp.Anonymous):
        argument: exp.Condition = node.expressions[0]
        return argument
    inner: exp.Condition = node.this
    # sqlglot reads year(d) as the year of the date of d
    return inner.this if isinstance(inner, exp.TsOrDsToDate) and not isinstance(node, exp.TsOrDsToDate) else inner


def _of_one(function: Function, argument: Operand) -> Call:
    kind = argument.type
    match function:
        case Function.IS_NAN | Function.SIGN_BIT:
            _check(_is_number(kind), function, argument, "numbers")
            return Call(function, (argument,), pa.bool_())
        case Function.ABS:
            _check(_is_number(kind), function, argument, "numbers")
            whole = pa.uint64() if pa.types.is_integer(kind) else kind
            return Call(function, (argument,), whole)
        case Function.LENGTH:
            _check(_is_text(kind) or _is_binary(kind), function, argument, "text or bytes")
            return Call(function, (argument,), pa.int64())
        case Function.YEAR | Function.MONTH | Function.DAY:
            _check(pa.types.is_date(kind) or pa.types.is_timestamp(kind), function, argument, "dates or timestamps")
            return Call(function, (argument,), pa.int64())
    return _of_text(function, argument, pa.string())


def _of_text(function: Function, argument: Operand, result: pa.DataType, *more: Operand) -> Call:
    _check(_is_text(argument.type), function, argument, "text")
    return Call(function, (argument, *more), result)


def _substring(node: exp.Substring, text: Operand) -> Call:
    bounds = [node.args.get("start"), node.args.get("length")]
    numbers = [literal_of(bound) for bound in bounds if bound is not None]
    values = [getattr(bound, "value", None) for bound in numbers]
    if not values or any(not _is_position(value) for value in values) or bounds[0] is None:
        raise refused(node, " (the position and the length of substring are whole numbers)")
    positions = [Value(pa.scalar(int(value), pa.int64())) for value in values if value is not None]
    return _of_text(Function.SUBSTRING, text, pa.string(), *positions)


def _is_position(value: object) -> bool:
    return isinstance(value, Decimal) and value == value.to_integral_value() and abs(value) < _POSITIONS


def _concat(node: exp.Condition, bind: Bind, literal: Literals) -> Call:
    texts: list[Operand] = []
    for part in node.expressions if isinstance(node, exp.Concat) else _piped(node):
        texts.append(literal(part, pa.string()) if is_text(part) else bind(part))
        _check(_is_text(texts[-1].type), Function.CONCAT, texts[-1], "text")
    if len(texts) < 2 or all(isinstance(text, Value) for text in texts):
        raise refused(node, " (write a quote inside a text as \\')")
    if sum(map(_joined, texts)) > MAX_CONCAT:
        raise ConfigurationError(f"the filter joins more than {MAX_CONCAT} texts: that is the limit of concat")
    return Call(Function.CONCAT, tuple(texts), pa.string())


def _joined(operand: Operand) -> int:
    """The number of texts that the operand joins."""
    if not isinstance(operand, Call):
        return 1
    counts = [_joined(argument) for argument in operand.arguments]
    return max(counts) if operand.function is not Function.CONCAT else sum(counts)


def _piped(node: exp.Condition) -> list[exp.Condition]:
    """The terms of `a || b || c`. The tree is left-deep."""
    parts: list[exp.Condition] = []
    while isinstance(node, exp.DPipe):
        parts.append(node.expression)
        node = node.this
    return [node, *reversed(parts)]


def _coalesce(parts: Sequence[exp.Condition], bind: Bind, literal: Literals) -> Call:
    first = bind(parts[0])
    values = [first]
    for part in parts[1:]:
        values.append(
            bind(part) if is_call(part) or isinstance(part, exp.Column | exp.Dot) else literal(part, first.type)
        )
        _check(values[-1].type == first.type, Function.COALESCE, values[-1], f"{first.type}, the type of {first}")
    return Call(Function.COALESCE, tuple(values), first.type)


def _cast(node: exp.Cast, argument: Operand) -> Call:
    if set(arguments_of(node)) - {"this", "to", "safe", "_type"} or not isinstance(node.to, exp.DataType):
        raise refused(node)
    kind = cast_type(argument.type, node.to)
    if kind is None:
        raise refused(node, f" ({argument} is {argument.type}; only casts that cannot fail are possible)")
    return Call(Function.CAST, (argument,), kind)


def _date(node: exp.Condition, argument: Operand) -> Call:
    if not (pa.types.is_date(argument.type) or pa.types.is_timestamp(argument.type)):
        raise refused(node, f" ({argument} is {argument.type}, expected a date or a timestamp)")
    return Call(Function.CAST, (argument,), pa.date32())


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _check(fits: bool, function: Function, argument: Operand, expected: str) -> None:
    if not fits:
        raise ConfigurationError(
            f"{function}({argument}) in the filter: {argument} is {argument.type}, expected {expected}"
        )
