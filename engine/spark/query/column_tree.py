"""Reads the tree of a Spark `Column`, of a classic session or of Spark Connect, as an `Expression`.

Spark has no public access to it. What this module does not recognize becomes `Unknown`, which stays in Spark.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import types as st

from penstock.engine.spark.query.expressions import Call, Constant, Expression, Kind, Name, Unknown, names_in

_OPERATORS: Final = {
    "=": "=", "==": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "and", "or": "or", "not": "not",
    "!": "not", "in": "in", "isnull": "isnull", "startswith": "startswith", "like": "like",
}  # fmt: skip
_EPOCH: Final = datetime.date(1970, 1, 1)
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


def expression_of(column: Column) -> Expression:
    """The expression of a column."""
    own = vars(column)  # an attribute that a Column does not have is another Column: the field of that name
    if "_expr" in own:
        return _of_connect(own["_expr"])
    return _of_classic(own["_jc"].node()) if "_jc" in own else Unknown()


def name_of(text: str) -> Name | None:
    """The name that Spark reads in the text of a column: parts divided by dots, or in backticks; None if malformed."""
    parts: list[str] = []
    at = 0
    while True:
        match = _PART.match(text, at)
        if match is None:
            return None
        parts.append(match[2] if match[1] is None else match[1].replace("``", "`"))
        at = match.end()
        if at == len(text):
            return Name(tuple(parts))
        if text[at] != ".":
            return None
        at += 1


def _of_classic(node: Any) -> Expression:
    match node.getClass().getSimpleName():
        case "UnresolvedFunction":
            if node.isDistinct() or node.isUserDefinedFunction():
                return Unknown()
            return _call(node.functionName(), [_of_classic(each) for each in _sequence(node.arguments())])
        case "UnresolvedAttribute":
            return Name(tuple(_sequence(node.nameParts())))
        case "Literal":
            return _java_literal(node.value())
    return Unknown()


def _sequence(scala: Any) -> list[Any]:
    return [scala.apply(place) for place in range(scala.size())]


def _java_literal(value: Any) -> Expression:
    match value:
        case bool():
            return Constant(Kind.BOOLEAN, value)
        case int():
            return Constant(Kind.INTEGER, value)
        case float():
            return Constant(Kind.DOUBLE, value)
        case str():
            return Constant(Kind.TEXT, value)
        case Decimal():
            return Constant(Kind.DECIMAL, value)
        case None:
            return Unknown(())
    read = _JAVA_TIMES.get(value.getClass().getName()) if hasattr(value, "getClass") else None
    return Unknown(()) if read is None else read(value)


def _java_timestamp(value: Any) -> Constant:
    """`getTime` has milliseconds, `getNanos` the whole fraction of the second."""
    return Constant(Kind.INSTANT, value.getTime() // 1000 * 1_000_000 + value.getNanos() // 1000)


def _java_instant(value: Any) -> Constant:
    return Constant(Kind.INSTANT, value.getEpochSecond() * 1_000_000 + value.getNano() // 1000)


_JAVA_TIMES: Final[dict[str, Callable[[Any], Constant]]] = {
    "java.sql.Date": lambda value: Constant(Kind.DATE, value.toString()),
    "java.time.LocalDate": lambda value: Constant(Kind.DATE, value.toString()),
    "java.sql.Timestamp": _java_timestamp,
    "java.time.Instant": _java_instant,
}


def _of_connect(node: Any) -> Expression:
    match type(node).__name__:
        case "UnresolvedFunction":
            if node._is_distinct:
                return Unknown()
            return _call(node._name, [_of_connect(each) for each in node._args])
        case "ColumnReference":
            name = name_of(node._unparsed_identifier)
            return Unknown() if name is None else name
        case "LiteralExpression":
            return _connect_literal(node._value, node._dataType)
    return Unknown()


def _connect_literal(value: Any, kind: st.DataType) -> Expression:
    match kind, value:
        case _, None:
            return Unknown(())
        case st.BooleanType(), bool():
            return Constant(Kind.BOOLEAN, value)
        case st.ByteType() | st.ShortType() | st.IntegerType() | st.LongType(), int():
            return Constant(Kind.INTEGER, value)
        case st.DoubleType(), float():
            return Constant(Kind.DOUBLE, value)
        case st.StringType(), str():
            return Constant(Kind.TEXT, value)
        case st.DecimalType(), Decimal():
            return Constant(Kind.DECIMAL, value)
        case st.DateType(), int():
            return Constant(Kind.DATE, (_EPOCH + datetime.timedelta(days=value)).isoformat())
        case st.TimestampType(), int():
            return Constant(Kind.INSTANT, value)
    return Unknown(())


def _call(name: str, operands: Sequence[Expression]) -> Expression:
    """Spark writes the names of functions in several forms: `isNull` and `isnull`, `!` and `not`."""
    spelled = name.lower().replace("_", "")
    if spelled == "isnotnull":
        return Call("not", (Call("isnull", tuple(operands)),))
    if spelled not in _OPERATORS:
        return Unknown(names_in(operands))
    return Call(_OPERATORS[spelled], tuple(operands))
