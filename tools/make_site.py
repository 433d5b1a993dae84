"""Builds the documentation site in build/site from the repository's own files. A warning of MkDocs fails the build.

    .venv/bin/python tools/make_site.py [--out FOLDER]

Links between the files work unchanged, because each page has its path of the repository: the tool copies the pages and
every file that they link to into build/site-pages. tools/site has the configuration and the navigation.
"""

from __future__ import annotations

import argparse
import logging
import pathlib
import re
import shutil
import sys
from collections.abc import Iterator
from typing import Final

REPOSITORY: Final = pathlib.Path(__file__).resolve().parents[1]
SETTINGS: Final = REPOSITORY / "tools" / "site" / "mkdocs.yml"
STYLE: Final = SETTINGS.parent / "site.css"
_LINK: Final = re.compile(r"\]\(([^()\s#]+)[^()\s]*\)")
_CODE: Final = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def records() -> list[str]:
    """The records of measurements, newest first."""
    return sorted((f"docs/results/{path.name}" for path in (REPOSITORY / "docs/results").glob("2*.md")), reverse=True)


def targets(page: str) -> Iterator[str]:
    """The files of the repository to which a page links, by their paths in it."""
    text = _CODE.sub("", (REPOSITORY / page).read_text("utf-8"))
    for link in _LINK.findall(text):
        path = ((REPOSITORY / page).parent / link).resolve()
        if ":" not in link and path.is_file() and path.is_relative_to(REPOSITORY):
            yield str(path.relative_to(REPOSITORY))


def files() -> set[str]:
    """README.md, the records, and what they link to, directly or through other pages."""
    collected: set[str] = set()
    remaining = ["README.md", *records()]
    while remaining:
        file = remaining.pop()
        if file in collected:
            continue
        collected.add(file)
        if file.endswith(".md"):
            remaining.extend(targets(file))
    return collected


def build(out: pathlib.Path | None = None) -> pathlib.Path:
    """The folder of the site, `out` or build/site. mkdocs.exceptions.Abort: the build has a warning."""
    from mkdocs.commands.build import build as mkdocs_build
    from mkdocs.config import load_config

    pages = REPOSITORY / "build" / "site-pages"
    shutil.rmtree(pages, ignore_errors=True)
    for file in files():
        (pages / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / file, pages / file)
    shutil.copy(STYLE, pages)
    more = {} if out is None else {"site_dir": str(out)}
    config = load_config(str(SETTINGS), **more)
    section = next(entry["Development"] for entry in config.nav if "Development" in entry)
    by_name = {pathlib.Path(record).stem: record for record in records()}
    section[-1] = {"Records": ["docs/results/README.md", *({name: record} for name, record in by_name.items())]}
    mkdocs_build(config)
    return pathlib.Path(config.site_dir)


def main() -> int:
    """Builds the site; the exit code is 1 if the build has a warning."""
    from mkdocs.exceptions import Abort

    parser = argparse.ArgumentParser(description="Builds the documentation site.")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the site; default build/site")
    out = parser.parse_args().out
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    try:
        print(build(out))
    except Abort as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
