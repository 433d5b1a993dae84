"""The clauses VERSION AS OF and TIMESTAMP AS OF of a query, which become the option `asOf`. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.engine.spark.query.handed_down import SessionRules, instant_us, utc_text
from penstock.engine.spark.query.lexer import Token, TokenKind
from penstock.proto.errors import ConfigurationError

_FORMS = (
    "expected VERSION AS OF an instant such as 20260131235959000, or TIMESTAMP AS OF a literal such as "
    "'2026-01-31T23:59:59Z'"
)


@dataclass(frozen=True, slots=True)
class AsOf:
    """A clause of time travel."""

    start: int
    """Offset of its first character in the query."""
    end: int
    """Offset after its last character."""
    text: str
    """The text of its literal."""
    in_session_zone: bool
    """Whether the literal is of type TIMESTAMP, so that without a zone it is in the session's time zone."""

    def option(self, rules: SessionRules) -> str:
        """The value of the option `asOf`. ConfigurationError: not a time, or one that depends on the time zone in a
        session of Spark Connect."""
        if not self.in_session_zone or re.fullmatch(r"\d{14}|\d{17}", self.text):
            return self.text
        micros = instant_us(self.text, rules)
        if micros is None:
            raise ConfigurationError(
                f"AS OF TIMESTAMP {self.text!r}: expected a time such as '2026-01-31 23:59:59'; in Spark Connect with "
                "its zone, such as '2026-01-31 23:59:59Z'"
            )
        return utc_text(micros)


def as_of_at(text: str, tokens: Sequence[Token], place: int) -> tuple[AsOf | None, int]:
    """The clause at this place, if there is one, and the place after it. ConfigurationError: it has no literal."""
    first = place
    words = [token.text.lower() if token.kind is TokenKind.WORD else "" for token in tokens[place : place + 5]]
    if words[:1] == ["for"]:
        words, place = words[1:], place + 1
    if len(words) < 3 or words[0] not in ("version", "system_version", "timestamp", "system_time"):
        return None, first
    if words[1:3] != ["as", "of"]:
        return None, first
    place += 3
    typed = place < len(tokens) and tokens[place].is_word("timestamp", "timestamp_ltz")
    place += typed
    literal = tokens[place] if place < len(tokens) else None
    following = tokens[place + 1] if place + 1 < len(tokens) else None
    ends = following is None or following.is_name or (following.kind is TokenKind.SIGN and following.text in "),;")
    if literal is None or literal.kind not in (TokenKind.TEXT, TokenKind.NUMBER) or not ends:
        raise ConfigurationError(
            f"{text[tokens[first].start : tokens[min(place, len(tokens) - 1)].end]!r} in the query: {_FORMS}"
        )
    value = literal.text if literal.kind is TokenKind.NUMBER else literal.text[1:-1]
    if not re.fullmatch(r"[0-9A-Za-z:.,+\- ]+", value):
        raise ConfigurationError(f"AS OF {literal.text} in the query: {_FORMS}")
    return AsOf(tokens[first].start, literal.end, value, typed), place + 1
