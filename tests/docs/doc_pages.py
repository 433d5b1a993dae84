"""Parses the pages of the documentation: fenced blocks, headings, links."""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass
from typing import Final

REPOSITORY: Final = pathlib.Path(__file__).resolve().parents[2]
RUN: Final = ("python", "bash", "console", "sql", "toml", "yaml")
"""Languages of blocks that are run. `console`: lines with `$ ` are commands, the other lines are their output."""
TEXT_ONLY: Final = ("text",)
_FENCE: Final = re.compile(r"^( *)```(\S*)\s*$")
_NOT_RUN: Final = re.compile(r"<!-- not run: (.+) -->")
_LINK: Final = re.compile(r"\]\(([^()\s]+)\)")
_HEADING: Final = re.compile(r"^#{1,6} (.+?)\s*$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `why_not` is the reason in `<!-- not run: reason -->` on the line above it."""

    page: str
    line: int
    language: str
    text: str
    why_not: str | None

    @property
    def place(self) -> str:
        """The place of the block, for messages."""
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        """Whether the test runs the block."""
        return self.language in RUN and self.why_not is None

    @property
    def needs_spark(self) -> bool:
        """Whether the block runs in Spark."""
        return self.runs and (
            self.language == "sql" or (self.language == "python" and "spark" in self.text) or self.needs_connect
        )

    @property
    def needs_ray(self) -> bool:
        """Whether the block runs in a Ray cluster."""
        return self.runs and self.language == "python" and "penstock.ray" in self.text

    @property
    def needs_connect(self) -> bool:
        """Whether the block is a client of Spark Connect."""
        return self.runs and "sc://" in self.text


def pages() -> list[str]:
    """README.md and all pages under docs/ except the measurement results."""
    results = [path.relative_to(REPOSITORY) for path in (REPOSITORY / "docs").rglob("*.md")]
    return ["README.md", *sorted(str(path) for path in results if path.parts[1] != "results")]


def blocks(page: str) -> list[Block]:
    """The page's fenced blocks in order. ValueError if one is not closed."""
    results: list[Block] = []
    begun: tuple[int, str, str | None] | None = None
    indent = ""
    inside: list[str] = []
    above = ""
    for number, line in enumerate((REPOSITORY / page).read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if begun is None and fence:
            reason = _NOT_RUN.search(above)
            indent, begun, inside = fence[1], (number, fence[2], reason[1] if reason else None), []
        elif begun is not None and fence and not fence[2]:
            results.append(Block(page, begun[0], begun[1], "\n".join(inside) + "\n", begun[2]))
            begun = None
        elif begun is not None:
            inside.append(line.removeprefix(indent))
        if line.strip():
            above = line
    if begun is not None:
        raise ValueError(f"{page}:{begun[0]}: a block that does not end")
    return results


def _prose(page: str) -> list[str]:
    """The lines of the page outside of fenced blocks."""
    lines, is_inside = [], False
    for line in (REPOSITORY / page).read_text().splitlines():
        if line.lstrip().startswith("```"):
            is_inside = not is_inside
        elif not is_inside:
            lines.append(line)
    return lines


def anchors(page: str) -> set[str]:
    """The anchors of the headings, as code hosts generate them."""
    results: set[str] = set()
    for line in _prose(page):
        if heading := _HEADING.match(line):
            name = re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")
            results.add(name if name not in results else f"{name}-{sum(one.startswith(name) for one in results)}")
    return results


def links(page: str) -> list[str]:
    """The targets of all links within the repository."""
    targets = [target for line in _prose(page) for target in _LINK.findall(re.sub(r"`[^`]*`", "", line))]
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def named_files(page: str) -> set[str]:
    """Pages that the text names by their path from the repository root, including blocks and comments of blocks."""
    return set(re.findall(r"(?<![\w/.])docs/[\w/-]+\.md", (REPOSITORY / page).read_text()))
