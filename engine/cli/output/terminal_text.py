"""Text for a terminal: one line, nothing invisible, measured in columns.

Names, paths and values of a table are foreign bytes: they never steer a terminal.
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
    """Columns that the text takes on a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(mark) in "WF" for mark in text)
    return len(text) + wide - sum(unicodedata.combining(mark) != 0 for mark in text)
