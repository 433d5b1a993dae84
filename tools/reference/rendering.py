"""Parts of a page of docs/reference/: the head with its source, tables, the check for missing descriptions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

WRITTEN_BY: Final = "<!-- written by tools/generate_reference.py from "
"""The beginning of the comment that marks a generated page."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page. `about` is its line in the folder's README, `source` the file to change instead of the page."""

    name: str
    title: str
    about: str
    source: str
    body: str

    @property
    def text(self) -> str:
        """The whole file."""
        mark = f"{WRITTEN_BY}{self.source}; do not edit -->"
        return f"# {self.title}\n\n{mark}\n\n{self.body.strip()}\n"


class Undescribed(Exception):
    """An entry of a page has no description."""


def described(what: str, text: str | None) -> str:
    """The description in one line. Undescribed: there is none."""
    line = " ".join((text or "").split())
    if len(line) < 4:
        raise Undescribed(f"{what} has no description: write it beside its definition")
    return line


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Line ends and bars in a cell are escaped."""
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(cell(each) for each in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """The text of a table's cell."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def code(text: object) -> str:
    """The text as code; empty for an empty text."""
    return f"`{text}`" if str(text) else ""


def sentence(text: str) -> str:
    """The text with a capital first letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", ":", "!")) else ".")
