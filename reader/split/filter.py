"""Evaluates a filter on batches, with the three-valued (Kleene) logic of SQL: only rows that evaluate to true are kept.

`penstock.table.predicate.parse` parses and types filters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import InvariantViolation
from penstock.reader.split.filter_functions import function_values
from penstock.table.arrow_arrays import true_rows
from penstock.table.predicate.literals import Op
from penstock.table.predicate.tree import (
    And,
    Call,
    Compare,
    Constant,
    IsNull,
    Like,
    Not,
    OneOf,
    Operand,
    Or,
    Predicate,
    StartsWith,
    Value,
)

_ARROW: Final[Mapping[Op, Callable[[pa.Array, pa.Scalar], pa.Array]]] = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}


def evaluate(predicate: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
    """The predicate's value for each row: true, false or null. The batch has the predicate's columns by name.

    As in Spark, NaN is greater than any number, and -0.0 equals 0.0.
    """
    match predicate:
        case And(terms):
            return functools.reduce(pc.and_kleene, (evaluate(term, batch) for term in terms))
        case Or(terms):
            return functools.reduce(pc.or_kleene, (evaluate(term, batch) for term in terms))
        case Not(term):
            return pc.invert(evaluate(term, batch))
        case IsNull(operand):
            return pc.is_null(_values(operand, batch))
        case Constant(operand, answer):
            values = _values(operand, batch)
            return pc.if_else(pc.is_valid(values), pa.scalar(answer), pa.scalar(None, pa.bool_()))
        case StartsWith(operand, prefix):
            return pc.starts_with(_values(operand, batch), pattern=prefix)
        case Like(operand, pattern):
            return _like(_values(operand, batch), pattern)
        case Compare(operand, op, value):
            return _compare(_values(operand, batch), op, value)
        case OneOf(operand, candidates):
            values = _values(operand, batch)
            if pa.types.is_floating(values.type):
                values = pc.add(values.cast(pa.float64()), 0.0)  # -0.0 becomes 0.0, as in the values to compare with
                candidates = pc.add(candidates, 0.0)
            matches = pc.is_in(values, value_set=candidates)
            return pc.if_else(pc.is_valid(values), matches, pa.scalar(None, pa.bool_()))
    raise InvariantViolation(f"unknown predicate type: {predicate!r}")


def kept_rows(predicate: Predicate, batch: pa.RecordBatch) -> np.ndarray | None:
    """Offsets of the rows to keep, ascending int64; None if the filter keeps all."""
    answers = evaluate(predicate, batch)
    if answers.true_count == len(answers):
        return None
    return np.flatnonzero(true_rows(answers))


def _like(values: pa.Array, pattern: str) -> pa.BooleanArray:
    """PyArrow searches for the text of `%text`, `%text%` without removing the backslash that escapes another one
    (release 26). Such patterns are regular expressions."""
    if "\\\\" not in pattern:
        return pc.match_like(values, pattern)
    expression, at = "", 0
    while at < len(pattern):
        wildcard = {"%": ".*", "_": "."}.get(pattern[at])
        at += pattern[at] == "\\"
        expression += wildcard or f"\\x{{{ord(pattern[at]):x}}}"
        at += 1
    return pc.match_substring_regex(values, f"(?s)\\A{expression}\\z")


def _compare(values: pa.Array, op: Op, value: pa.Scalar) -> pa.BooleanArray:
    if not pa.types.is_floating(values.type):
        return _ARROW[op](values, value)
    doubles = values.cast(pa.float64())
    answers = _ARROW[op](doubles, value)
    return pc.or_(answers, pc.is_nan(doubles)) if op in (Op.GT, Op.GE) else answers


def _values(operand: Operand, batch: pa.RecordBatch) -> pa.Array:
    if isinstance(operand, Value):
        return pa.repeat(operand.scalar, batch.num_rows)
    if isinstance(operand, Call):
        return function_values(operand, [_values(argument, batch) for argument in operand.arguments])
    values = batch.column(operand.path[0])
    for name in operand.path[1:]:
        values = pc.struct_field(values, [name])
    return values
