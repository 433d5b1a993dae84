"""The syntax of Java `.properties` files, as `java.util.Properties` reads and writes them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_BLANKS: Final = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX4 = re.compile(r"[0-9A-Fa-f]{4}")
_ESCAPES: Final = str.maketrans(
    {char: f"\\{name}" for name, char in _NAMED.items()} | {char: f"\\{char}" for char in "\\=:#!"}
)
_NOT_PRINTABLE = re.compile(r"[^\x20-\x7e]")


def format_properties(properties: Mapping[str, str], comments: Sequence[str] = ()) -> bytes:
    r"""The bytes of a properties file: a line for each comment, then one for each entry, in the mapping's order.

    The inverse of `parse_properties`, as `java.util.Properties.store` escapes: `=`, `:`, `#`, `!`, `\`, blanks of a key
    and a first blank of a value by `\`, and characters outside of printable ASCII by `\uXXXX` for each UTF-16 unit.
    ValueError for text with a lone surrogate, which no file can hold.
    """
    lines = [f"#{_unicode_escaped(part)}\n" for comment in comments for part in _LINE_END.split(comment)]
    lines += [f"{_escaped(key).replace(' ', chr(92) + ' ')}={_value(text)}\n" for key, text in properties.items()]
    return "".join(lines).encode("ascii")


def _value(text: str) -> str:
    escaped = _escaped(text)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _escaped(text: str) -> str:
    return _unicode_escaped(text.translate(_ESCAPES))


def _unicode_escaped(text: str) -> str:
    return _NOT_PRINTABLE.sub(_units, text)


def _units(match: re.Match[str]) -> str:
    """The escapes of a character, one for each of its UTF-16 units."""
    hexadecimal = match.group().encode("utf-16-be").hex().upper()
    return "".join(f"\\u{hexadecimal[at : at + 4]}" for at in range(0, len(hexadecimal), 4))


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
