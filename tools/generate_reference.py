"""Writes the generated pages of docs/reference/; `--check` fails if a page is out of date.

The pages come from the descriptions of options, metrics, errors, commands, keys and messages in the code. To change a
description, change it there. The folder's other pages are written by hand: this tool only lists them.
"""

from __future__ import annotations

import pathlib
import sys

from reference import commands, errors, metrics, options, proto, server
from reference.rendering import WRITTEN_BY, Page, table

TARGET = pathlib.Path(__file__).resolve().parents[1] / "docs" / "reference"
MODULES = (options, commands, errors, metrics, server, proto)
BY_HAND = (
    ("Semantics", "semantics.md", "which rows each query returns, and where Penstock differs from Hudi"),
    ("Streams in Spark", "streaming.md", "guarantees of a stream: order, watermark, limits, schema changes, errors"),
    ("Hybrid reads", "hybrid.md", "guarantees of a read that continues in Kafka: offsets by writer, states, errors"),
    ("Targets of a sync", "sync-targets.md", "what each target of `penstock sync` stores: types, transactions, limits"),
    ("Command line", "cli.md", "the forms of input and output of each command, exit codes"),
    (
        "Compatibility",
        "compatibility.md",
        "which features are tested against Hudi's rows, by table version (`make docs`)",
    ),
)
"""Title, file and content of the pages that this tool does not write."""


def pages() -> dict[str, str]:
    """The text of each generated file of the folder. Undescribed: an entry of the code has no description."""
    generated = [module.page() for module in MODULES]
    return {f"{page.name}.md": page.text for page in generated} | {"README.md": contents(generated)}


def contents(generated: list[Page]) -> str:
    """The folder's first page."""
    heads = ("page", "content")
    by_hand = table(heads, ((f"[{title}]({file})", about) for title, file, about in BY_HAND))
    from_code = table(heads, ((f"[{page.title}]({page.name}.md)", page.about) for page in generated))
    body = f"{by_hand}\n`make docs` generates these pages from the code:\n\n{from_code}"
    return Page("README", "Reference", "", "the code and this tool", body).text


def stale(generated: dict[str, str]) -> list[str]:
    """Names of the generated files that are missing, out of date, or no longer generated."""
    present = {path.name: path.read_text("utf-8") for path in TARGET.glob("*.md")}
    differing = [name for name, text in generated.items() if present.get(name) != text]
    orphans = [name for name, text in present.items() if WRITTEN_BY in text and name not in generated]
    return sorted(differing + orphans)


def main() -> int:
    """Writes the files, or checks them. The exit code is 1 if a check finds a difference."""
    generated = pages()
    differing = stale(generated)
    if "--check" in sys.argv[1:]:
        for name in differing:
            sys.stderr.write(f"docs/reference/{name} is out of date: run `make docs`\n")
        return 1 if differing else 0
    for name in differing:
        if name in generated:
            (TARGET / name).write_text(generated[name], encoding="utf-8")
        else:
            (TARGET / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
