"""Divides a query into the tokens that Spark's own lexer reads: where a comment, a text or a quoted name ends. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class TokenKind(StrEnum):
    """What a token is."""

    WORD = "word"
    """A name without quotes, or a key word."""
    NAME = "name"
    """A name in backticks."""
    TEXT = "text"
    """A text literal."""
    NUMBER = "number"
    """A number, with its suffix."""
    HINT = "hint"
    """A hint, `/*+ … */`, as a whole."""
    SIGN = "sign"
    """Any other character, one by one."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token that is not a comment."""

    kind: TokenKind
    """What it is."""
    text: str
    """The name without backticks; otherwise as written."""
    start: int
    """Offset of its first character."""
    end: int
    """Offset after its last character."""

    @property
    def is_name(self) -> bool:
        """Whether it may name a column, a table or an alias."""
        return self.kind in (TokenKind.WORD, TokenKind.NAME)

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these key words, in lower case."""
        return self.kind is TokenKind.WORD and self.text.lower() in words

    def is_sign(self, sign: str) -> bool:
        """Whether it is this character."""
        return self.kind is TokenKind.SIGN and self.text == sign


class UnreadableText(Exception):
    """The text has a comment, text or quoted name without an end, or uses a form that this lexer does not read."""


_LINE_COMMENT: Final = re.compile(r"--(?:\\\n|[^\r\n])*")
_RAW_TEXT: Final = re.compile(r"[rR](?:'[^']*'|\"[^\"]*\")")
_TEXT: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL)
_NAME: Final = re.compile(r"`((?:[^`]|``)*)`")
_NUMBER: Final = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[lLsSyYdDfF]|[bB][dD])?(?!\w)")
_WORD: Final = re.compile(r"\w+")
_PLAIN_TEXT: Final = re.compile(r"'(?:[^'\\$]|\$(?!\{))*'")
_BEFORE_STARS: Final = frozenset({"select", "distinct", "all"})
ODD_CHARACTER: Final = "\ue001"
"""Stands for the characters of a text whose value is unknown. No scan takes a condition with it."""


def tokens_of(text: str) -> list[Token]:
    """The tokens of a query, in order. UnreadableText: see there."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif match := _LINE_COMMENT.match(text, at):
            at = match.end()
        elif text.startswith("/*", at) and not text.startswith("/*+", at):
            at = _comment_end(text, at)
        elif text.startswith("/*+", at):
            end = _comment_end(text, at)
            tokens.append(Token(TokenKind.HINT, text[at:end], at, end))
            at = end
        else:
            token = _token(text, at)
            tokens.append(token)
            at = token.end
    return tokens


def for_analysis(text: str, tokens: Sequence[Token]) -> str:
    """The query for a parser that may read texts and comments differently, with every token at its own offset.

    Comments and hints are blanks. A text with a backslash, a variable or another form of quotes, whose
    value depends on the session, becomes a text of as many ODD_CHARACTERs.
    """
    parts: list[str] = []
    at = 0
    for token in tokens:
        parts.append(" " * (token.start - at))
        written = text[token.start : token.end]
        if token.kind is TokenKind.TEXT and not _PLAIN_TEXT.fullmatch(written):
            written = "'" + ODD_CHARACTER * (len(written) - 2) + "'"
        if token.kind is TokenKind.HINT:
            written = " " * len(written)
        parts.append(written)
        at = token.end
    return "".join(parts)


def names_by_text(tokens: Sequence[Token]) -> bool:
    """Whether the clause IDENTIFIER(…) names something by the value of a text."""
    return any(token.is_word("identifier") and after.is_sign("(") for token, after in itertools.pairwise(tokens))


def expanding_stars(tokens: Sequence[Token]) -> list[int]:
    """The places of the tokens * that stand for columns. In doubt a multiplication counts as one."""
    places = []
    for place, token in enumerate(tokens):
        if not token.is_sign("*"):
            continue
        before = next((token for token in reversed(tokens[:place]) if token.kind is not TokenKind.HINT), None)
        counted = (
            place >= 2
            and tokens[place - 1].is_sign("(")
            and tokens[place - 2].is_word("count")
            and place + 1 < len(tokens)
            and tokens[place + 1].is_sign(")")
        )
        if not counted and (before is None or not _is_operand(before)):
            places.append(place)
    return places


def _is_operand(token: Token) -> bool:
    if token.kind is TokenKind.WORD:
        return token.text.lower() not in _BEFORE_STARS
    return token.kind is not TokenKind.SIGN or token.text in ")]"


def _token(text: str, at: int) -> Token:
    character = text[at]
    if match := _RAW_TEXT.match(text, at):
        return Token(TokenKind.TEXT, match[0], at, match.end())
    if character in "'\"`":
        match = (_NAME if character == "`" else _TEXT).match(text, at)
        if match is None:
            raise UnreadableText(f"{character} at character {at + 1} has no end")
        if character == "`":
            return Token(TokenKind.NAME, match[1].replace("``", "`"), at, match.end())
        return Token(TokenKind.TEXT, match[0], at, match.end())
    if match := _NUMBER.match(text, at):
        return Token(TokenKind.NUMBER, match[0], at, match.end())
    if match := _WORD.match(text, at):
        return Token(TokenKind.WORD, match[0], at, match.end())
    if character == "$":
        raise UnreadableText(f"$ at character {at + 1}")
    return Token(TokenKind.SIGN, character, at, at + 1)


def _comment_end(text: str, at: int) -> int:
    """The offset after a comment, which may contain others."""
    depth, place = 1, at + 2
    while depth:
        opening, closing = text.find("/*", place), text.find("*/", place)
        if closing < 0:
            raise UnreadableText(f"the comment at character {at + 1} has no end")
        if 0 <= opening < closing:
            depth, place = depth + 1, opening + 2
        else:
            depth, place = depth - 1, closing + 2
    return place
