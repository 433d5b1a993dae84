"""Finds in a query where given tables occur, and what is known of each occurrence. Pure; imports sqlglot.

sqlglot parses the query; the offsets come from the tokens of Spark's lexer (`lexer`). If both do not agree, or sqlglot
cannot parse the query, there is no analysis (None), and the caller lets Spark resolve the names.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from penstock.engine.spark.query.lexer import Token, TokenKind, expanding_stars, for_analysis
from penstock.engine.spark.query.time_travel import AsOf, as_of_at
from penstock.proto.errors import ConfigurationError

_PARSER_ERRORS: Final = (SqlglotError, RecursionError, LookupError, AttributeError, TypeError, ValueError)
_QUERY_WORDS: Final = ("select", "with", "from", "values", "table")


@dataclass(frozen=True, slots=True, eq=False)
class Occurrence:
    """One place of a query that reads a given table."""

    key: str
    """The name in `tables`."""
    start: int
    """Offset of the name in the query."""
    end: int
    """Offset after the name."""
    as_of: AsOf | None
    """The clause VERSION or TIMESTAMP AS OF."""
    alias: str
    """The name by which the query's columns refer to it."""
    alias_at: int | None
    """Offset at which the alias must be inserted; None if the query has one."""
    alias_text: str
    """The alias as it is written, with backticks."""
    renames: bool
    """Whether the alias renames columns by their position."""
    sampled: bool
    """Whether TABLESAMPLE follows, so that a filter would change the sample."""
    node: exp.Table
    """The table in sqlglot's tree."""
    select: exp.Select | None
    """The SELECT whose FROM has the table."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """A query with the places of its tables."""

    tree: exp.Query
    """The query in sqlglot's tree."""
    occurrences: tuple[Occurrence, ...]
    """The places of given tables, in the order of the text."""
    stars: tuple[exp.Star, ...] | None
    """The stars that stand for columns; None if the tree and the tokens disagree."""


def is_query(tokens: Sequence[Token]) -> bool:
    """Whether the text is a query, judged by its first word."""
    first = next((token for token in tokens if not token.is_sign("(")), None)
    return first is not None and first.is_word(*_QUERY_WORDS)


def analysis_of(
    text: str, tokens: Sequence[Token], tables: Mapping[tuple[str, ...], str], *, case_sensitive: bool
) -> Analysis | None:
    """The places of `tables` (parts of the name -> name) in a query, or None if it cannot be analyzed.

    ConfigurationError: the text is a statement other than a query, or a clause AS OF without a literal.
    """
    tree = _parsed(_without_times(text, tokens, {parts[-1].lower() for parts in tables}))
    if tree is None or _has_pipe(tokens):
        return None
    if not isinstance(tree, exp.Query):
        if isinstance(tree, exp.Insert | exp.Update | exp.Delete | exp.Merge | exp.Create | exp.Command):
            raise ConfigurationError(
                f"penstock.spark.sql runs queries: got {type(tree).__name__.upper()}, expected SELECT or WITH; write "
                "the DataFrame that it returns instead, or create a view of it"
            )
        return None
    if len([token for token in tokens if token.is_word("select")]) != len(list(tree.find_all(exp.Select))):
        return None
    finder = _Finder(text, tokens, tables, case_sensitive)
    occurrences = finder.occurrences(tree)
    if occurrences is None:
        return None
    stars = tuple(star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count))
    return Analysis(tree, occurrences, stars if len(stars) == len(expanding_stars(tokens)) else None)


def _without_times(text: str, tokens: Sequence[Token], names: Set[str]) -> str:
    """The text for sqlglot, with blanks for the clauses AS OF of these tables: `as_of_at` reads them."""
    blanked = for_analysis(text, tokens)
    for place, token in enumerate(tokens):
        if token.is_name and token.text.lower() in names:
            clause, _ = as_of_at(text, tokens, place + 1)
            if clause is not None:
                blanked = blanked[: clause.start] + " " * (clause.end - clause.start) + blanked[clause.end :]
    return blanked


def _parsed(text: str) -> object:
    logger = logging.getLogger("sqlglot")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # sqlglot warns about statements that it does not parse
    try:
        trees = parse(text, dialect="spark")
    except _PARSER_ERRORS:
        return None
    finally:
        logger.setLevel(level)
    return trees[0] if len(trees) == 1 else None


def _has_pipe(tokens: Sequence[Token]) -> bool:
    return any(
        one.is_sign("|") and other.is_sign(">") and one.end == other.start for one, other in itertools.pairwise(tokens)
    )


class _Finder:
    """Matches the tables of a tree with the tokens of the text."""

    def __init__(
        self, text: str, tokens: Sequence[Token], tables: Mapping[tuple[str, ...], str], case_sensitive: bool
    ) -> None:
        self._text, self._tokens, self._case_sensitive = text, tokens, case_sensitive
        self._tables = {tuple(map(self._folded, parts)): name for parts, name in tables.items()}
        self._places = {token.start: place for place, token in enumerate(tokens)}

    def occurrences(self, tree: exp.Query) -> tuple[Occurrence, ...] | None:
        result = []
        known: set[int] = set()
        for node in tree.find_all(exp.Table):
            parts = tuple(part for part in node.parts if isinstance(part, exp.Identifier))
            if not parts or len(parts) != len(node.parts):
                continue
            places = [self._place(part) for part in parts]
            key = self._tables.get(tuple(self._folded(part.name) for part in parts))
            if key is None or (len(parts) == 1 and self._is_cte(node, parts[0].name)):
                known.update(place for place in places if place is not None)
                continue
            if any(place is None for place in places):
                return None
            known.update(place for place in places if place is not None)
            occurrence = self._occurrence(node, key, [place for place in places if place is not None])
            if occurrence is None:
                return None
            result.append(occurrence)
        if any(place not in known for place in self._table_places()):
            return None
        return tuple(sorted(result, key=lambda occurrence: occurrence.start))

    def _occurrence(self, node: exp.Table, key: str, places: list[int]) -> Occurrence | None:
        last = self._tokens[places[-1]]
        start, end = self._tokens[places[0]].start, last.end
        after = places[-1] + 1
        as_of, after = as_of_at(self._text, self._tokens, after)
        sampled = after < len(self._tokens) and self._tokens[after].is_word("tablesample")
        if sampled:
            after = self._after_parentheses(after + 1)
        alias = node.args.get("alias")
        name = alias.this if isinstance(alias, exp.TableAlias) else None
        if not isinstance(name, exp.Identifier | None):
            return None
        follows = self._tokens[after] if after < len(self._tokens) else None
        if name is not None:
            place = self._place(name)
            if place not in (after, after + 1):
                return None
        elif follows is not None and (follows.is_word("as") or follows.kind is TokenKind.NAME):
            return None
        return Occurrence(
            key=key,
            start=start,
            end=end,
            as_of=as_of,
            alias=last.text if name is None else name.name,
            alias_at=self._tokens[after - 1].end if name is None else None,
            alias_text=self._text[last.start : last.end],
            renames=isinstance(alias, exp.TableAlias) and bool(alias.args.get("columns")),
            sampled=sampled or bool(node.args.get("sample")),
            node=node,
            select=node.parent_select if isinstance(node.parent_select, exp.Select) else None,
        )

    def _after_parentheses(self, place: int) -> int:
        """The place after a group in parentheses, and REPEATABLE with its group."""
        depth = 0
        while place < len(self._tokens):
            depth += self._tokens[place].is_sign("(") - self._tokens[place].is_sign(")")
            place += 1
            if depth == 0:
                break
        if place < len(self._tokens) and self._tokens[place].is_word("repeatable"):
            return self._after_parentheses(place + 1)
        return place

    def _place(self, identifier: exp.Identifier) -> int | None:
        """The place of the identifier's token; None if the tokens have another name there."""
        place = self._places.get(identifier.meta.get("start", -1))
        if place is None or not self._tokens[place].is_name or self._tokens[place].text != identifier.name:
            return None
        return place

    def _table_places(self) -> Iterator[int]:
        """The places of names of given tables that follow FROM, JOIN or TABLE."""
        names = {parts[0] for parts in self._tables}
        for place, token in enumerate(self._tokens[1:], start=1):
            if not token.is_name or self._folded(token.text) not in names:
                continue
            before = self._tokens[place - 1]
            if before.is_sign("(") and place >= 2:
                before = self._tokens[place - 2]
            if before.is_word("from", "join", "table"):
                yield place

    def _is_cte(self, node: exp.Table, name: str) -> bool:
        """Whether a common table expression that is visible here has this name."""
        inside: Any = None
        child: Any = node
        while child.parent is not None:
            parent = child.parent
            if isinstance(child, exp.CTE):
                inside = child
            clause = parent.args.get("with_") or parent.args.get("with")
            if isinstance(clause, exp.With):
                visible = list(clause.expressions)
                if child is clause:
                    place = next(place for place, cte in enumerate(visible) if cte is inside)
                    visible = visible[: place + bool(clause.args.get("recursive"))]
                if any(self._folded(cte.alias) == self._folded(name) for cte in visible):
                    return True
            child = parent
        return False

    def _folded(self, name: str) -> str:
        return name if self._case_sensitive else name.lower()
