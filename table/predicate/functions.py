"""The functions of a filter: which calls of a syntax tree they are, and the types that they take and return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
from sqlglot import exp

from penstock.proto.errors import ConfigurationError
from penstock.table.predicate.tree import Call, Function, Operand

_CALLS: Final[dict[type[exp.Condition], Function]] = {exp.IsNan: Function.IS_NAN}
_ANONYMOUS: Final = {"signbit": Function.SIGN_BIT}


def is_call(node: exp.Condition) -> bool:
    """Whether the node is a call of a function that filters have."""
    return _function(node) is not None


def call_of(node: exp.Condition, operand: Callable[[exp.Condition], Operand]) -> Call | None:
    """The call that the node is, with arguments bound by `operand`; None if it is no function of a filter.

    ConfigurationError: an argument has a type that the function does not take.
    """
    match _function(node):
        case Function.IS_NAN | Function.SIGN_BIT as function:
            argument = operand(node.expressions[0] if isinstance(node, exp.Anonymous) else node.this)
            _check(_is_number(argument.type), function, argument, "numbers")
            return Call(function, (argument,), pa.bool_())
    return None


def _function(node: exp.Condition) -> Function | None:
    if isinstance(node, exp.Anonymous):
        return _ANONYMOUS.get(str(node.this).lower()) if len(node.expressions) == 1 else None
    return _CALLS.get(type(node))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind))


def _check(fits: bool, function: Function, argument: Operand, expected: str) -> None:
    if not fits:
        raise ConfigurationError(
            f"{function}({argument}) in the filter: {argument} is {argument.type}, expected {expected}"
        )
