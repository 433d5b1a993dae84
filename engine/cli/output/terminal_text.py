"""Text for a terminal: on one line, without control characters, measured in columns.

Names, paths and values of a table are untrusted: they must not contain escape sequences.
"""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    """The text with control and other invisible characters escaped."""
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode("ascii") for mark in text)


def one_line(text: str) -> str:
    """The text on one line, printable."""
    return printable(" ".join(text.split()))


def width_of(text: str) -> int:
    """The number of terminal columns of the text."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(mark) in "WF" for mark in text)
    return len(text) + wide - sum(unicodedata.combining(mark) != 0 for mark in text)
