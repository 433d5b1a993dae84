"""The files of the package, parsed once for all checks of its structure."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import tomllib
from dataclasses import dataclass
from functools import cache

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
ROOMS = ("proto", "table", "kafka", "enumerator", "reader", "writer", "engine")
GENERATED = re.compile(r"_pb2(_grpc)?\.py$")


@dataclass(frozen=True)
class Source:
    """One parsed Python file of the package."""

    path: pathlib.Path
    module: str
    tree: ast.Module
    text: str

    @property
    def name(self) -> str:
        return self.path.relative_to(REPOSITORY).as_posix()

    @property
    def room(self) -> str:
        parts = self.module.split(".")
        if parts[0] != "penstock":
            return parts[0]
        return parts[1] if len(parts) > 1 and parts[1] in ROOMS else ""

    def matches(self, patterns: tuple[str, ...]) -> bool:
        return any(self.path.relative_to(REPOSITORY).match(pattern) for pattern in patterns)

    def imports(self) -> tuple[tuple[int, str], ...]:
        """(line, absolute dotted name) of everything imported, wherever in the file; relative ones start with a dot."""
        return _imports(self.tree)


@cache
def _imports(tree: ast.Module) -> tuple[tuple[int, str], ...]:
    imports: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            imports += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return tuple(imports)


@cache
def package_folders() -> dict[str, str]:
    """The folder of each package, relative to the repository; links of `src/penstock` are resolved."""
    folders = {"penstock": "src/penstock", "pyspark_penstock": "src/pyspark_penstock"}
    for room in ROOMS:
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            folder = path.parent.relative_to(REPOSITORY).as_posix()
            folders["penstock." + folder.replace("/", ".")] = folder
    return folders


@cache
def package_sources() -> tuple[Source, ...]:
    """Every hand-written module of the package; generated stubs are left out."""
    lines = []
    for package, folder in package_folders().items():
        for path in sorted((REPOSITORY / folder).glob("*.py")):
            if GENERATED.search(path.name):
                continue
            module = package if path.stem == "__init__" else f"{package}.{path.stem}"
            text = path.read_text()
            lines.append(Source(path, module, ast.parse(text, str(path)), text))
    return tuple(lines)


def scripts() -> list[pathlib.Path]:
    """Python files that belong neither to the package nor to tests."""
    return [path for folder in ("tools", "bench") for path in sorted((REPOSITORY / folder).rglob("*.py"))]


@cache
def committed_files() -> tuple[str, ...]:
    """Files that are, or would be, committed; the whole tree without git."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    if listing.returncode == 0:
        names = [name for name in listing.stdout.split("\0") if name]
    else:
        names = [path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.rglob("*") if path.is_file()]
        names = [name for name in names if not name.startswith((".venv", ".cache", ".git/"))]
    return tuple(name for name in names if (REPOSITORY / name).is_file())


def breaches(lines: list[str]) -> None:
    """Fails the test with one line per breach."""
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)
