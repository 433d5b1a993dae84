"""`penstock.spark.table`: a table as a DataFrame, with its columns and filter handed down to the scan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from penstock.engine.spark.query.column_tree import expression_of
from penstock.engine.spark.query.expressions import Expression, Unknown, conjuncts, names_in
from penstock.engine.spark.query.handed_down import SessionRules
from penstock.engine.spark.query.lexer import UnreadableText, expanding_stars, for_analysis, names_by_text, tokens_of
from penstock.engine.spark.query.narrowing import columns_in, has_reserved_name, where_of_all
from penstock.engine.spark.query.scan import ScanRequest, scan, schema_of
from penstock.engine.spark.query.session import rules_of
from penstock.proto.errors import ConfigurationError
from penstock.table.columns import resolve_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_HINTS = {
    "columns": "the argument columns",
    "where": "the argument where",
    "server": "the argument server",
    "path": "the argument name",
}

_NOT_WITH_WHERE = {
    "limit": "it would count rows before Spark has filtered them; use limit() of the DataFrame",
    "eventtime": "a filter holds the watermark back; filter the DataFrame after with_source_watermark",
}


def table(
    spark: SparkSession,
    name: str,
    columns: Sequence[str] | None = None,
    where: str | Column | None = None,
    *,
    server: str | None = None,
    **options: object,
) -> DataFrame:
    """The table `name` as a DataFrame: a path or URI, or with `server` the name that the server gives it.

    `columns`: the columns to return, in this order; every column if not given. Names resolve by Spark's case rule.
    `where`: the rows to return, as SQL text or as a Spark `Column`. Spark evaluates it, with all its functions. The
    parts that mean the same to the scan reach it too: comparisons of a column with a literal, IN, null tests, prefixes,
    and AND, OR, NOT of them. `options`: further read options, such as `asOf` (docs/reference/options.md).

    Raises `penstock.errors.ConfigurationError`: an option that is an argument here, a column that is unknown or
    requested twice. Spark raises its own errors for a condition that it cannot analyze.
    """
    if isinstance(columns, str):
        raise ConfigurationError(f"columns={columns!r}: expected a list of names, such as ['id', 'amount']")
    request = ScanRequest(name, server, tuple(columns or ()), "", _texts(options))
    if where is None:
        return scan(spark, request).frame
    for option, _ in request.options:
        if option.lower() in _NOT_WITH_WHERE:
            raise ConfigurationError(f"option {option} with a where: {_NOT_WITH_WHERE[option.lower()]}")
    schema = schema_of(spark, ScanRequest(name, server, (), "", request.options))
    returned = resolve_columns(request.columns, schema.fieldNames())
    rules = rules_of(spark)
    condition, used = _read_text(where, rules) if isinstance(where, str) else _read_column(where)
    handed_down = where_of_all(list(conjuncts(condition)), schema, rules)
    if used is None:
        read = tuple(schema.fieldNames())
    else:
        read = columns_in(schema, {*used, *(column.lower() for column in returned)})
    narrow = ScanRequest(name, server, read, handed_down, request.options)
    filtered = scan(spark, narrow, type(schema)([schema[column] for column in read])).frame.where(where)
    return filtered if read == returned else filtered.select(*(f"`{column.replace('`', '``')}`" for column in returned))


def _texts(options: dict[str, object]) -> tuple[tuple[str, str], ...]:
    for option in options:
        if option.lower() in _HINTS:
            raise ConfigurationError(f"option {option}: give {_HINTS[option.lower()]} instead")
    return tuple((option, str(value)) for option, value in options.items() if value is not None)


def _read_column(where: Column) -> tuple[Expression, Collection[str] | None]:
    """The condition, and the first names of the columns in it, in lower case; None if they are unknown."""
    condition = expression_of(where)
    names = names_in([condition])
    return condition, None if names is None else {name.parts[0].lower() for name in names}


def _read_text(where: str, rules: SessionRules) -> tuple[Expression, Collection[str] | None]:
    """As `_read_column`. Every name in the text counts as a column."""
    from penstock.engine.spark.query.sql_tree import condition_of

    try:
        tokens = tokens_of(where)
    except UnreadableText:
        return Unknown(), None
    if "${" in where or (rules.quoted_names and '"' in where) or expanding_stars(tokens) or names_by_text(tokens):
        return Unknown(), None
    used = {token.text.lower() for token in tokens if token.is_name}
    if has_reserved_name(tokens, rules):
        return Unknown(), used
    return condition_of(for_analysis(where, tokens)), used
