"""Replaces the names of tables in a query's text, by their offsets. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from penstock.engine.spark.query.lexer import Token
from penstock.engine.spark.query.occurrences import Analysis, Occurrence

Edit = tuple[int, int, str]
"""From, to, and the text to put there."""


def rewritten(text: str, analysis: Analysis, fields: Mapping[Occurrence, str]) -> str:
    """The query as a format string in which each occurrence is the field of its scan, such as `{t0}`."""
    edits: list[Edit] = []
    for occurrence in analysis.occurrences:
        edits.append((occurrence.start, occurrence.end, f"{{{fields[occurrence]}}}"))
        if occurrence.as_of is not None:
            edits.append((occurrence.as_of.start, occurrence.as_of.end, ""))
        if occurrence.alias_at is not None:
            edits.append((occurrence.alias_at, occurrence.alias_at, f" AS {occurrence.alias_text}"))
    edits += _qualifiers(text, analysis)
    return _applied(text, edits)


def with_definitions(text: str, tokens: Sequence[Token], fields: Mapping[str, str]) -> str:
    """The query as a format string that defines each table (its name in backticks -> field) as a common table
    expression. Spark itself then resolves the names."""
    definitions = ", ".join(f"{name} AS (SELECT * FROM {{{field}}})" for name, field in fields.items())
    if tokens and tokens[0].is_word("with"):  # in parentheses: the query may define the same name from this table
        last = next(token for token in reversed(tokens) if not token.is_sign(";"))
        return _applied(text, [(0, 0, f"WITH {definitions} ("), (last.end, last.end, ")")])
    return f"WITH {definitions} {_escaped(text)}"


def _qualifiers(text: str, analysis: Analysis) -> list[Edit]:
    """Removes the first parts of columns that name their table in full, such as the database."""
    prefixes = {
        tuple(part.name.lower() for part in occurrence.node.parts)
        for occurrence in analysis.occurrences
        if occurrence.alias_at is not None and len(occurrence.node.parts) > 1
    }
    edits = []
    for column in analysis.tree.find_all(exp.Column):
        names = tuple(part.name.lower() for part in column.parts)
        for prefix in prefixes:
            if len(names) > len(prefix) and names[: len(prefix)] == prefix:
                first, table = column.parts[0], column.parts[len(prefix) - 1]
                if "start" in first.meta and "start" in table.meta:
                    edits.append((int(first.meta["start"]), int(table.meta["start"]), ""))
    return edits


def _applied(text: str, edits: list[Edit]) -> str:
    parts = []
    at = 0
    for start, end, replacement in sorted(edits):
        parts += [_escaped(text[at:start]), replacement]
        at = end
    return "".join([*parts, _escaped(text[at:])])


def _escaped(text: str) -> str:
    """The text in a format string."""
    return text.replace("{", "{{").replace("}", "}}")
