"""Patterns of LIKE: to the simplest test that means the same."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError
from penstock.table.predicate.literals import Op
from penstock.table.predicate.tree import Compare, Like, Operand, Predicate, StartsWith

MAX_PATTERN: Final = 500
"""Most characters of a pattern with `_`, or with `%` at another place than the end: the time for a text grows with
them."""
_SHOWN_CHARS: Final = 120
_SPECIAL: Final = ("\\", "%", "_")


def like_of(operand: Operand, pattern: str, escape: str) -> Predicate:
    """The test of `operand LIKE pattern ESCAPE escape`. ConfigurationError for a malformed or long pattern."""
    parts = _parts(pattern, escape)
    text = "".join(part for part, _ in parts)
    wildcards = [index for index, (_, is_wildcard) in enumerate(parts) if is_wildcard]
    if not wildcards:
        return Compare(operand, Op.EQ, pa.scalar(text, operand.type))
    if wildcards == [len(parts) - 1] and parts[-1][0] == "%":
        return StartsWith(operand, text[:-1])
    if len(parts) > MAX_PATTERN:
        raise ConfigurationError(f"LIKE {pattern[:_SHOWN_CHARS]!r}: the pattern has more than {MAX_PATTERN} characters")
    return Like(
        operand,
        "".join(part if is_wildcard else escaped(part) for part, is_wildcard in parts),
        "".join(part for part, _ in parts[: wildcards[0]]),
    )


def escaped(text: str) -> str:
    """The pattern of the text itself."""
    for special in _SPECIAL:
        text = text.replace(special, f"\\{special}")
    return text


def _parts(pattern: str, escape: str) -> list[tuple[str, bool]]:
    """(character, whether it is a wildcard) for each character; successive `%` are one."""
    if len(escape) != 1 or escape in ("%", "_"):
        raise ConfigurationError(f"ESCAPE {escape[:_SHOWN_CHARS]!r} in the filter: expected one character, not % or _")
    parts: list[tuple[str, bool]] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == escape:
            at += 1
            if pattern[at : at + 1] not in ("%", "_", escape):
                raise ConfigurationError(
                    f"LIKE {pattern[:_SHOWN_CHARS]!r}: after the escape character {escape!r} only %, _ and {escape!r} "
                    "are possible"
                )
            parts.append((pattern[at], False))
        elif character != "%" or parts[-1:] != [("%", True)]:
            parts.append((character, character in ("%", "_")))
        at += 1
    return parts
