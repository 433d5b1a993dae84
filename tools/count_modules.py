"""Counts the modules of the package, for docs/development/architecture.md: by folder, and those with one importer.

    python tools/count_modules.py [-v]

A module is a hand-written file other than `__init__.py`. With -v it prints the modules that at most one other module
imports, with their number of lines and their importer, the shortest first.
"""

from __future__ import annotations

import ast
import pathlib
import re
import sys
from collections import Counter, defaultdict

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("proto", "table", "kafka", "enumerator", "reader", "writer", "engine")
GENERATED = re.compile(r"_pb2(_grpc)?\.py$")


def name_of(path: pathlib.Path) -> str:
    """The dotted name of a file of the package."""
    relative = path.relative_to(ROOT).as_posix().removeprefix("src/penstock/")
    return "penstock." + relative.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported_by(path: pathlib.Path) -> set[str]:
    """The names that a file imports, anywhere in it: modules, and what it imports from them."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def main() -> None:
    """Prints the counts."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    files = [path for path in files if not GENERATED.search(path.name)]
    modules = {name_of(path): path for path in files if path.name != "__init__.py"}
    importers: dict[str, set[str]] = defaultdict(set)
    for path in [*files, *(ROOT / "src" / "penstock").glob("*.py")]:
        for name in imported_by(path) & modules.keys() - {name_of(path)}:
            importers[name].add(name_of(path))
    sizes = Counter(path.parent for path in modules.values())
    for folder in FOLDERS:
        inside = {place: size for place, size in sizes.items() if place.relative_to(ROOT).parts[0] == folder}
        print(
            f"{folder}: {sum(inside.values())} modules, {len(inside)} folders, the largest with {max(inside.values())}"
        )
    single = [name for name in modules if len(importers[name]) <= 1]
    entries = [
        name
        for name in single
        if importers[name] <= {"penstock.engine.cli.command_line"} or _is_public(importers[name])
    ]
    print(
        f"{len(modules)} modules in {len(sizes)} folders; {len(single)} with at most one importer, "
        f"of which {len(entries)} are commands or entry points"
    )
    if "-v" in sys.argv:
        lines = {name: len(modules[name].read_text().splitlines()) for name in single}
        for name in sorted(single, key=lines.__getitem__):
            print(f"{lines[name]:5} {name} <- {', '.join(importers[name]) or '(none)'}")


def _is_public(importers: set[str]) -> bool:
    return all(importer.count(".") <= 1 for importer in importers)


if __name__ == "__main__":
    main()
