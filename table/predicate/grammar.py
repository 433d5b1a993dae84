"""The grammar of `where`: parses a filter and binds it to a table's schema.

The grammar (docs/reference/semantics.md) is a subset of Spark SQL: comparisons of a column or a function with literals,
IN, BETWEEN, LIKE, IS [NOT] NULL, a Boolean alone, AND, OR, NOT and parentheses. `binding` converts the syntax tree,
`literals` decides comparisons, `functions` and `casts` the types of functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from penstock.proto.errors import ConfigurationError
from penstock.table.predicate.binding import Binding
from penstock.table.predicate.literals import (
    BinaryLiteral,
    DateLiteral,
    Literal,
    TextLiteral,
    TimeLiteral,
    TimestampLiteral,
    double,
    number,
)
from penstock.table.predicate.syntax import ALLOWED, MARK, SHOWN_CHARS, TIMESTAMPS
from penstock.table.predicate.tree import Predicate

MAX_TEXT_CHARS: Final = 64 << 10
MAX_DEPTH: Final = 16
MAX_TOKENS: Final = 6000
"""Most names, operators and literals of a filter; parsing takes about 20 µs for each. Literals of an IN list do not
count, as lists of literals bypass the parser."""
MAX_ALL_TOKENS: Final = 24_000
"""The same limit with the literals and commas of IN lists: about 12,000 literals, at 10 µs for each token."""
_LONG_LIST: Final = 16
"""A longer IN list bypasses the parser."""
_SIGNS: Final = {"::", "||", "=", "==", "!=", "<>", "<", "<=", ">", ">=", "(", ")", ",", ".", "-"}
_QUOTED: Final = {"STRING", "NUMBER", "IDENTIFIER", "HEX_STRING"}
_NESTING: Final = {"L_PAREN", "NOT", "DASH"}


def parse_filter(text: str, schema: pa.Schema) -> Predicate:
    """See `predicate.parse_predicate`."""
    if len(text) > MAX_TEXT_CHARS:
        raise ConfigurationError(f"the filter has {len(text)} characters: at most {MAX_TEXT_CHARS} are allowed")
    try:
        node, lists = _parsed(text)
        return Binding(schema, lists).predicate(node)
    except RecursionError:
        raise _too_deep() from None


def _parsed(text: str) -> tuple[exp.Condition, Mapping[str, Sequence[Literal]]]:
    """The syntax tree, and replacement text -> literals of its long IN lists."""
    try:
        tokens = sqlglot.tokenize(text, dialect="spark")
        if len(tokens) > MAX_ALL_TOKENS:
            raise ConfigurationError(
                f"the filter has {len(tokens)} names, signs and literals: at most {MAX_ALL_TOKENS} are allowed, "
                f"about {MAX_ALL_TOKENS // 2} literals of an IN list; read in several parts"
            )
        _check_tokens([(token.token_type.name, token.text) for token in tokens])
        tokens, lists = _without_lists(_without_suffix(tokens))
        if len(tokens) > MAX_TOKENS:
            raise ConfigurationError(
                f"the filter has {len(tokens)} names, signs and literals: at most {MAX_TOKENS} are allowed, besides IN "
                "lists of literals; write column IN (…) instead of column = … OR column = …"
            )
        (node,) = Dialect.get_or_raise("spark").parser().parse_into(exp.Condition, tokens, text)
        if not isinstance(node, exp.Condition):
            raise ParseError("no expression")
        return node, lists
    except ParseError as error:
        place = error.errors[0] if error.errors else {}
        at = f" at line {place['line']}, column {place['col']}" if place.get("line") else ""
        raise ConfigurationError(f"cannot read the filter {text[:SHOWN_CHARS]!r}{at}; {ALLOWED}") from None
    except (
        SqlglotError,
        LookupError,
        AttributeError,
        TypeError,
        ValueError,
    ) as error:  # builders of sqlglot raise these too
        reason = str(error).partition("\n")[0][:SHOWN_CHARS]
        raise ConfigurationError(f"cannot read the filter {text[:SHOWN_CHARS]!r}: {reason}; {ALLOWED}") from None


def _check_tokens(tokens: Sequence[tuple[str, str]]) -> None:
    """Refuses unsupported operators, and limits the parser's recursion: open parentheses, successive NOT and minus."""
    depth = run = 0
    for kind, text in tokens:
        if kind not in _QUOTED and text not in _SIGNS and not text.replace("_", "a").isalnum():
            raise ConfigurationError(f"{text[:SHOWN_CHARS]!r} in the filter is not supported; {ALLOWED}")
        run = run + 1 if kind in _NESTING else 0
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if max(depth, run) > MAX_DEPTH:
            raise _too_deep()


def _without_suffix(tokens: Sequence[Token]) -> list[Token]:
    """Leaves out the suffix BD of numbers, which sqlglot makes a cast to DECIMAL: numbers are exact without it."""
    suffixes = {
        place
        for place in range(1, len(tokens) - 1)
        if tokens[place - 1].token_type == TokenType.NUMBER
        and tokens[place].token_type == TokenType.DCOLON
        and tokens[place + 1].text.upper() == "BD"
    }
    return [token for place, token in enumerate(tokens) if place not in suffixes and place - 1 not in suffixes]


def _without_lists(tokens: Sequence[Token]) -> tuple[list[Token], dict[str, Sequence[Literal]]]:
    """Replaces each long IN list of literals by a text; returns the tokens, and text -> literals."""
    result: list[Token] = []
    lists: dict[str, Sequence[Literal]] = {}
    marked = any(MARK in token.text for token in tokens)
    place = 0
    while place < len(tokens):
        result.append(tokens[place])
        place += 1
        if (
            marked
            or result[-1].token_type != TokenType.L_PAREN
            or place < 2
            or tokens[place - 2].token_type != TokenType.IN
        ):
            continue
        literals, end = _list_from(tokens, place)
        if len(literals) > _LONG_LIST:
            mark = f"{MARK}{len(lists)}"
            lists[mark] = literals
            result.append(Token.string(mark))
            place = end
    return result, lists


def _list_from(tokens: Sequence[Token], place: int) -> tuple[list[Literal], int]:
    """The literals from this token on, and the index of the closing parenthesis; no literals if the list has anything
    else."""
    literals: list[Literal] = []
    while place + 1 < len(tokens):
        literal, place = _list_item(tokens, place)
        if literal is None or place >= len(tokens):
            return [], place
        literals.append(literal)
        if tokens[place].token_type == TokenType.R_PAREN:
            return literals, place
        if tokens[place].token_type != TokenType.COMMA:
            return [], place
        place += 1
    return [], place


def _list_item(tokens: Sequence[Token], place: int) -> tuple[Literal | None, int]:
    """The literal at this token, and the index after it; None for anything else."""
    kinds = [token.token_type.name for token in tokens[place : place + 4]]
    texts = [token.text for token in tokens[place : place + 4]]
    match kinds:
        case ["DASH", "NUMBER", "DCOLON", "DOUBLE"]:
            return double(f"-{texts[1]}"), place + 4
        case ["NUMBER", "DCOLON", "DOUBLE", *_]:
            return double(texts[0]), place + 3
        case ["DASH", "NUMBER", following, *_] if following != "DCOLON":
            return number(f"-{texts[1]}"), place + 2
        case ["NUMBER", following, *_] if following != "DCOLON":
            return number(texts[0]), place + 1
        case ["STRING", *_]:
            return TextLiteral(texts[0]), place + 1
        case ["DATE", "STRING", *_]:
            return DateLiteral(texts[1]), place + 2
        case ["TIME", "STRING", *_]:
            return TimeLiteral(texts[1]), place + 2
        case [kind, "STRING", *_] if kind in TIMESTAMPS:
            return TimestampLiteral(texts[1]), place + 2
        case ["HEX_STRING", *_] if len(texts[0]) % 2 == 0:
            return BinaryLiteral(bytes.fromhex(texts[0])), place + 1
    return None, place


def _too_deep() -> ConfigurationError:
    return ConfigurationError(f"the filter is nested deeper than {MAX_DEPTH} levels: write it flatter")
