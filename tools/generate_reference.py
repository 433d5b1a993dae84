"""Writes docs/reference/ from the code; `--check` fails if a page is not what would be written.

A page tells of options, metrics, errors, commands, keys or messages by what each says of itself: a description is
changed where the thing is made.
"""

from __future__ import annotations

import pathlib
import sys

from reference import commands, errors, metrics, options, proto, server
from reference.rendering import Page, table

TARGET = pathlib.Path(__file__).resolve().parents[1] / "docs" / "reference"
MODULES = (options, commands, errors, metrics, server, proto)


def pages() -> dict[str, str]:
    """The text of each file of the folder. Undescribed: something says nothing of itself."""
    found = [module.page() for module in MODULES]
    return {f"{page.name}.md": page.text for page in found} | {"README.md": contents(found)}


def contents(found: list[Page]) -> str:
    """The folder's first page."""
    rows = ((f"[{page.title}]({page.name}.md)", page.about) for page in found)
    body = "Each page is made from the code by `make docs`.\n\n" + table(("page", "what it holds"), rows)
    return Page("README", "Reference", "", "what the pages come from", body).text


def stale(found: dict[str, str]) -> list[str]:
    """Names of the files that are not what they should be, or should not be there."""
    there = {path.name for path in TARGET.glob("*")}
    return sorted(
        [name for name, text in found.items() if name not in there or (TARGET / name).read_text("utf-8") != text]
        + list(there - found.keys())
    )


def main() -> int:
    """Writes the files, or checks them."""
    found = pages()
    differing = stale(found)
    if "--check" in sys.argv[1:]:
        for name in differing:
            sys.stderr.write(f"docs/reference/{name} is out of date: run `make docs`\n")
        return 1 if differing else 0
    for name in differing:
        if name in found:
            (TARGET / name).write_text(found[name], encoding="utf-8")
        else:
            (TARGET / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
