"""The syntax of Java `.properties` files, as `java.util.Properties.load` reads them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_BLANKS: Final = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX4 = re.compile(r"[0-9A-Fa-f]{4}")


def parse_properties(data: bytes) -> dict[str, str]:
    r"""Keys and values of a properties file; of a repeated key the last value counts.

    Java's rules: the encoding is ISO-8859-1. `#` and `!` start a comment line. `=`, `:` or blanks separate key and
    value. `\` escapes the next character, `\uXXXX` is a UTF-16 unit, and an odd number of `\` at the end of a line
    continues it. ValueError for a malformed `\u`, with the line number (from 1).
    """
    properties: dict[str, str] = {}
    for number, line in _logical_lines(data.decode("iso-8859-1")):
        key_end, value_start = _split(line)
        try:
            properties[_unescape(line[:key_end])] = _unescape(line[value_start:])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines with the number of their first natural line: continuations joined, comments and blanks dropped.

    As in Java's LineReader, a comment sign in a continuation line is text, and a blank continuation line ends the
    logical line.
    """
    joined, first = "", 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not first:
            if not line or line[0] in "#!":
                continue
            first = number
        elif not joined and line[:1] in ("#", "!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined += line[:-1]
            continue
        joined += line
        if joined:
            yield first, joined
        joined, first = "", 0
    if joined:
        yield first, joined


def _split(line: str) -> tuple[int, int]:
    """The end of the key and the start of the value in a logical line."""
    escaped = False
    end = len(line)
    for index, char in enumerate(line):
        if not escaped and char in "=: \t\f":
            end = index
            break
        escaped = char == "\\" and not escaped
    start, separated = end, False
    while start < len(line):
        char = line[start]
        if char in "=:" and not separated:
            separated = True
        elif char not in _BLANKS:
            break
        start += 1
    return end, start


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    index = 0
    while index < len(text):
        char = text[index]
        index += 1
        if char != "\\":
            out.append(char)
            continue
        if index == len(text):
            break
        char = text[index]
        index += 1
        if char == "u":
            digits = _HEX4.match(text, index)
            if not digits:
                raise ValueError(
                    f"malformed \\u escape: got {text[index : index + 4]!r}, expected 4 hexadecimal digits"
                )
            out.append(chr(int(digits.group(), 16)))
            index += 4
        else:
            out.append(_NAMED.get(char, char))
    return "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
