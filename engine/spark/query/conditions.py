"""Which conditions and columns of a query each occurrence of a table needs. Pure; works on sqlglot's tree.

A condition may reach an occurrence only if rows that it excludes cannot change the answer: conditions of the WHERE that
follows, and of joins, never those that follow an outer join which fills this table with nulls.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pyspark.sql import types as st
from sqlglot import exp

from penstock.engine.spark.query.expressions import Call, Expression, Name, Unknown, conjuncts
from penstock.engine.spark.query.handed_down import SessionRules, column_of
from penstock.engine.spark.query.lexer import Token, TokenKind, names_by_text
from penstock.engine.spark.query.narrowing import columns_in, has_reserved_name, where_of_all
from penstock.engine.spark.query.occurrences import Analysis, Occurrence
from penstock.engine.spark.query.sql_tree import expression_of

_RESHAPING: Final = frozenset({"pivot", "unpivot", "match_recognize"})
"""Key words of clauses that make other columns, possibly with the names of the table's."""
_ALL_COLUMNS: Final = _RESHAPING | {"natural", "table"}
"""Key words of clauses that use columns without naming them."""
_NO_FILTERS: Final = frozenset(
    {
        "rand", "random", "randn", "uniform", "randstr", "uuid", "shuffle", "monotonically_increasing_id",
        "spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length", "recursive",
    }
)  # fmt: skip
"""Functions whose result depends on the rows of the scan, and recursion."""


def narrowed(
    analysis: Analysis, tokens: Sequence[Token], schemas: Mapping[Occurrence, st.StructType], rules: SessionRules
) -> dict[Occurrence, tuple[tuple[str, ...], str]]:
    """What each occurrence reads: its columns, () for all of them, and its `where`, '' for every row."""
    result = {}
    for occurrence, schema in schemas.items():
        used = used_columns(occurrence, analysis, tokens, rules)
        columns = () if used is None else columns_in(schema, used)
        where = where_of_all(conditions_for(occurrence, analysis, tokens, schemas, rules), schema, rules)
        result[occurrence] = (columns, where)
    return result


def used_columns(
    occurrence: Occurrence, analysis: Analysis, tokens: Sequence[Token], rules: SessionRules
) -> frozenset[str] | None:
    """The names, in lower case, that may be columns of the occurrence; None for every column.

    Every name in the query counts, wherever it is, except one after the alias of another table. So removing the other
    columns cannot change what a name refers to.
    """
    if occurrence.renames or _names_unnamed(tokens, rules) or _expands(occurrence, analysis):
        return None
    alias = occurrence.alias.lower()
    used = set()
    for chain in _chains(tokens):
        used.add(chain[0])
        used.update(after for before, after in itertools.pairwise(chain) if before == alias)
    return frozenset(used)


def _names_unnamed(tokens: Sequence[Token], rules: SessionRules) -> bool:
    if any(token.is_word(*_ALL_COLUMNS) for token in tokens):
        return True
    if rules.pattern_names and any(token.kind is TokenKind.NAME for token in tokens):
        return True
    return names_by_text(tokens)


def _chains(tokens: Sequence[Token]) -> Iterator[list[str]]:
    """The names that dots connect, in lower case."""
    chain: list[str] = []
    for place, token in enumerate(tokens):
        if token.is_name:
            if not (chain and tokens[place - 1].is_sign(".")):
                if chain:
                    yield chain
                chain = []
            chain.append(token.text.lower())
        elif not token.is_sign(".") and chain:
            yield chain
            chain = []
        if token.kind is TokenKind.HINT:
            yield from ([word] for word in re.findall(r"\w+|(?<=`)[^`]+(?=`)", token.text.lower()))
    if chain:
        yield chain


def _expands(occurrence: Occurrence, analysis: Analysis) -> bool:
    """Whether a star, or the alias of a relation in parentheses, stands for columns of the occurrence."""
    if analysis.stars is None or occurrence.select is None or _in_aliased_parentheses(occurrence):
        return True
    for star in analysis.stars:
        if isinstance(star.parent, exp.Column):
            if star.parent.table.lower() == occurrence.alias.lower():
                return True
        elif star.parent_select is None or star.parent_select is occurrence.select:
            return True
    return False


def _in_aliased_parentheses(occurrence: Occurrence) -> bool:
    """Whether the table is, or is joined, in parentheses with an alias, such as `(orders) AS o`."""
    node = occurrence.node.parent
    while node is not None and node is not occurrence.select:
        if isinstance(node, exp.Subquery) and node.args.get("alias") is not None:
            return True
        node = node.parent
    return False


def conditions_for(
    occurrence: Occurrence,
    analysis: Analysis,
    tokens: Sequence[Token],
    schemas: Mapping[Occurrence, st.StructType],
    rules: SessionRules,
) -> list[Expression]:
    """The conditions that rows of the occurrence must satisfy, with the names of its columns. A part that refers to
    anything else is Unknown."""
    select = occurrence.select
    if has_reserved_name(tokens, rules):
        return []
    if select is None or occurrence.renames or occurrence.sampled or select.args.get("sample"):
        return []
    if any(token.is_word(*_NO_FILTERS, *_RESHAPING) for token in tokens) or not isinstance(
        occurrence.node.parent, exp.From | exp.Join
    ):
        return []
    scope = _Scope(occurrence, analysis, schemas, rules)
    return [scope.bound(each) for node in _clauses(occurrence, select) for each in conjuncts(expression_of(node))]


def _clauses(occurrence: Occurrence, select: exp.Select) -> list[exp.Condition]:
    """The clauses that each row of the occurrence must satisfy to have any effect."""
    joins = [join for join in select.args.get("joins") or [] if isinstance(join, exp.Join)]
    if any(join.method or join.side in ("RIGHT", "FULL") or join.args.get("match_condition") for join in joins):
        return []
    own = occurrence.node.parent
    where = select.args.get("where")
    clauses = [where.this] if isinstance(where, exp.Where) else []
    if isinstance(own, exp.Join):
        if not any(own is join for join in joins):
            return []  # inside of parentheses, which an outer join may fill with nulls
        clauses = clauses if _is_inner(own) else []
        if own.kind in ("", "INNER", "OUTER", "SEMI", "ANTI") and own.args.get("on") is not None:
            clauses.append(own.args["on"])
    if all(_is_inner(join) for join in joins):
        clauses += [join.args["on"] for join in joins if join.args.get("on") is not None and join is not own]
    return clauses


def _is_inner(join: exp.Join) -> bool:
    return not join.side and not join.method and join.kind in ("", "INNER", "CROSS")


class _Scope:
    """Resolves names in the SELECT of an occurrence."""

    def __init__(
        self,
        occurrence: Occurrence,
        analysis: Analysis,
        schemas: Mapping[Occurrence, st.StructType],
        rules: SessionRules,
    ) -> None:
        self._rules, self._schema = rules, schemas[occurrence]
        self._alias = occurrence.alias.lower()
        select = occurrence.select
        sources = [
            node for node in analysis.tree.find_all(exp.Table, exp.Subquery, exp.Lateral, exp.Values, exp.Unnest)
            if node.parent_select is select and node is not occurrence.node
        ]  # fmt: skip
        self._others = {node.alias_or_name.lower() for node in sources}
        self._other_columns = {
            field.name.lower()
            for other, schema in schemas.items()
            if other is not occurrence and other.select is select
            for field in schema.fields
        }
        self._merged = {
            identifier.name.lower()
            for join in analysis.tree.find_all(exp.Join)
            for identifier in join.args.get("using") or []
        }

    def bound(self, expression: Expression) -> Expression:
        """The expression with names of the occurrence's columns. Unknown where a name may be another table's."""
        match expression:
            case Name(parts):
                return self._name(parts)
            case Call(operator, operands):
                return Call(operator, tuple(self.bound(operand) for operand in operands))
        return expression

    def _name(self, parts: tuple[str, ...]) -> Expression:
        first = parts[0].lower()
        own = column_of(parts[0], self._schema, self._rules)
        if len(parts) > 1 and first == self._alias and own is None and first not in self._others:
            return Name(parts[1:])
        ambiguous = first in self._other_columns | self._merged
        if own is None or ambiguous or (len(parts) > 1 and first in {self._alias, *self._others}):
            return Unknown(())
        return Name(parts)
