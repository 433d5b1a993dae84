"""The page of semantics is readable: short paragraphs, lists and tables instead of long sentences."""

from __future__ import annotations

import re

from tests.docs.doc_pages import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "semantics.md"
LONGEST = 600
"""Characters of a paragraph, a list item or a cell of a table."""


def paragraphs(text: str) -> list[str]:
    """Paragraphs, list items and cells of tables. A list item and its continuation lines are one paragraph."""
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )|\n(?=\|)|(?<=\|)\n|(?<!\\)\|", text)
    return [" ".join(part.split()) for part in parts if part.strip()]


def test_paragraphs_are_split_at_blank_lines_list_items_and_cells() -> None:
    text = "a\nb\n\n* c\n  d\n* e\n1. f\n\n| g | h |\n|---|---|\n| i | j |\nk\n"
    assert [part for part in paragraphs(text) if part != "---"] == [
        *("a b", "* c d", "* e", "1. f"),
        *("g", "h", "i", "j", "k"),
    ]


def test_no_paragraph_is_long() -> None:
    assert [part for part in paragraphs(PAGE.read_text()) if len(part) > LONGEST] == []
