"""Conditions of Polars as conditions of a scan.

Polars gives the tree of an expression only as JSON, whose form may change with its release. A node that is not
recognized is not pushed, and Polars' own expression is applied to every row in any case.
"""

from __future__ import annotations

import datetime
import functools
import io
import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

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

_COMPARISONS: Final = {"Eq": "=", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_BOUNDS: Final = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
_UNITS: Final = {"Nanoseconds": 1_000_000_000, "Microseconds": 1_000_000, "Milliseconds": 1000}
_EPOCH: Final = datetime.datetime.fromisoformat("1970-01-01T00:00:00")


def condition_of(predicate: pl.Expr, schema: pa.Schema) -> pc.Expression | None:
    """A condition that is true for each row for which `predicate` is true; None if there is none to push."""
    try:
        return _condition(json.loads(predicate.meta.serialize(format="json")), schema).expression
    except (*NOT_TRANSLATED, RecursionError, pl.exceptions.PolarsError):
        return None


def without_hints(predicate: pl.Expr) -> pl.Expr | None:
    """The predicate without the hints that Polars adds for the first rows of a sorted frame; None if nothing is left.

    A hint is a node `dynamic_pred: …`, joined by AND. It only excludes rows that the query drops later, and a frame
    cannot be filtered by it (Polars issue 22252).
    """
    text = predicate.meta.serialize(format="json")
    if "dynamic_pred" not in text:
        return predicate
    terms = [term for term in _terms(json.loads(text)) if not _is_hint(term)]
    if not terms:
        return None
    parsed = [pl.Expr.deserialize(io.BytesIO(json.dumps(term).encode()), format="json") for term in terms]
    return functools.reduce(operator.and_, parsed)


def _is_hint(term: Mapping[str, Any]) -> bool:
    return str(term.get("Display", {}).get("fmt_str", "")).startswith("dynamic_pred")


def _terms(tree: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The terms of a chain of ANDs."""
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            yield from _terms(left)
            yield from _terms(right)
        case _:
            yield tree


def _condition(tree: Mapping[str, Any], schema: pa.Schema) -> Condition:
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return every(lambda: _condition(left, schema), lambda: _condition(right, schema))
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return either([_condition(left, schema), _condition(right, schema)])
        case {"BinaryExpr": {"left": {"Literal": literal}, "op": op, "right": right}} if op in _COMPARISONS:
            return compare(_column(right, schema), MIRRORED[_COMPARISONS[op]], _value(literal))
        case {"BinaryExpr": {"left": left, "op": op, "right": {"Literal": literal}}} if op in _COMPARISONS:
            return compare(_column(left, schema), _COMPARISONS[op], _value(literal))
        case {"Function": {"input": inputs, "function": {"Boolean": function}}}:
            return _boolean(function, inputs, schema)
        case {"Column": _}:
            return compare(_column(tree, schema), "=", True)
    raise Untranslatable(tree)


def _boolean(function: str | Mapping[str, Any], inputs: Sequence[Mapping[str, Any]], schema: pa.Schema) -> Condition:
    match function:
        case "Not":
            return negated(_condition(inputs[0], schema))
        case "IsNull":
            return is_null(_column(inputs[0], schema))
        case "IsNotNull":
            return is_not_null(_column(inputs[0], schema))
        case {"IsBetween": {"closed": closed}}:
            operand, low, high = inputs
            between, (above, below) = _column(operand, schema), _BOUNDS[closed]
            return every(
                lambda: compare(between, above, _value(low["Literal"])),
                lambda: compare(between, below, _value(high["Literal"])),
            )
        case {"IsIn": {"nulls_equal": False}}:
            operand, held = inputs
            return one_of(_column(operand, schema), _values(held["Literal"]))
    raise Untranslatable(function)


def _column(tree: Mapping[str, Any], schema: pa.Schema) -> Column:
    path: list[str] = []
    while "Column" not in tree:
        path.insert(0, tree["Function"]["function"]["StructExpr"]["FieldByName"])
        (tree,) = tree["Function"]["input"]
    return column(schema, [tree["Column"], *path])


def _value(literal: Mapping[str, Any]) -> object:
    """The value of a literal whose type Polars has resolved."""
    ((kind, value),) = literal["Scalar"].items()
    if kind in _LITERALS:
        return _LITERALS[kind](value)
    if kind.startswith(("Int", "UInt")):
        return int(value)
    raise Untranslatable(kind)


def _moment(value: Sequence[Any]) -> datetime.datetime:
    count, unit, zone = value
    micros = count * 1_000_000
    if micros % _UNITS[unit]:
        raise Untranslatable(value)
    moment = _EPOCH + datetime.timedelta(microseconds=micros // _UNITS[unit])
    return moment if zone is None else moment.replace(tzinfo=datetime.UTC)


_LITERALS: Final[Mapping[str, Callable[[Any], object]]] = {
    "Boolean": bool,
    "String": str,
    "Float64": float,
    "Float32": lambda value: float(np.float32(value)),
    "Date": lambda days: _EPOCH.date() + datetime.timedelta(days=days),
    "Datetime": _moment,
    "Decimal": lambda value: _decimal(value[0], value[2]),
}


def _values(literal: Mapping[str, Any]) -> list[object]:
    """The values of a list, which Polars writes as the bytes of an Arrow stream with one column of one list."""
    series = pa.ipc.open_stream(bytes(literal["Scalar"]["List"])).read_all().column(0)
    values = series.combine_chunks()
    return list(values.to_pylist()[0] if pa.types.is_nested(values.type) else values.to_pylist())


def _decimal(unscaled: int, scale: int) -> Decimal:
    """Exact: `scaleb` and other operations round to the digits of the caller's context."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
