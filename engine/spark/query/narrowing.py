"""Combines the conditions that a scan can take into one `where`, and chooses its columns. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from pyspark.sql import types as st

from penstock.engine.spark.query.expressions import Expression
from penstock.engine.spark.query.handed_down import SessionRules, where_of
from penstock.engine.spark.query.lexer import Token
from penstock.engine.spark.schema.types import arrow_schema
from penstock.proto.errors import PenstockError
from penstock.table.predicate.parse import parse_predicate

_MAX_CHARS: Final = 32 << 10
_WIDTHS: Final[dict[type[st.DataType], int]] = {
    st.BooleanType: 1, st.ByteType: 1, st.ShortType: 2, st.IntegerType: 4, st.DateType: 4, st.FloatType: 4,
    st.LongType: 8, st.DoubleType: 8, st.TimestampType: 8, st.TimestampNTZType: 8,
}  # fmt: skip
_OTHER_WIDTH: Final = 100


def where_of_all(conditions: Sequence[Expression], schema: st.StructType, rules: SessionRules) -> str:
    """A `where` that is true for every row for which all conditions are; '' if no scan can take any of them.

    Each part has been parsed as the enumerator will parse it.
    """
    parts: dict[str, None] = {}
    for condition in conditions:
        text = where_of(condition, schema, rules)
        if text is not None and _parses(text, schema) and sum(map(len, parts)) + len(text) <= _MAX_CHARS:
            parts[text] = None
    where = " AND ".join(parts)
    return where if where and _parses(where, schema) else ""


def where_of_any(wheres: Sequence[str], schema: st.StructType) -> str:
    """A `where` that is true for every row for which one of `wheres` is; '' if it would be every row, or too long."""
    if not all(wheres):
        return ""
    where = " OR ".join(f"({text})" for text in dict.fromkeys(wheres))
    return where if len(where) <= _MAX_CHARS and _parses(where, schema) else ""


def has_reserved_name(tokens: Sequence[Token], rules: SessionRules) -> bool:
    """Whether USER is the function in this session, also of a table that has a column of that name."""
    return rules.reserved_words and any(token.is_word("user") for token in tokens)


def _parses(text: str, schema: st.StructType) -> bool:
    try:
        parse_predicate(text, arrow_schema(schema))
    except PenstockError:
        return False
    return True


def columns_in(schema: st.StructType, used: Collection[str]) -> tuple[str, ...]:
    """The columns whose name is in `used` (lower case), in the table's order. If there is none, the narrowest column,
    because a scan without columns has no rows."""
    columns = tuple(field.name for field in schema.fields if field.name.lower() in used)
    if columns:
        return columns
    narrowest = min(schema.fields, key=lambda field: _WIDTHS.get(type(field.dataType), _OTHER_WIDTH))
    return (narrowest.name,)
