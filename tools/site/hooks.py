"""MkDocs hooks: renders pages like code hosts, where a list needs no empty line before it."""

from __future__ import annotations

import re
from typing import Any, Final

_ITEM: Final = re.compile(r"(?:[*-]|\d+\.) ")
_FENCE: Final = re.compile(r" *```")


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """The page with an empty line before each list and fence that follows a paragraph.

    The front page has no sidebar.
    """
    if page.file.src_uri == "README.md":
        page.meta["hide"] = ["navigation"]
    lines: list[str] = []
    is_inside = False
    for line in markdown.split("\n"):
        before = lines[-1] if lines else ""
        is_fence = bool(_FENCE.match(line))
        begins_list = bool(_ITEM.match(line)) and not before.startswith((" ", "*", "-")) and not _ITEM.match(before)
        if not is_inside and before.strip() and (begins_list or (is_fence and not line.startswith(" "))):
            lines.append("")
        lines.append(line)
        is_inside ^= is_fence
    return "\n".join(lines)
