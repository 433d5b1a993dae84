"""Which invariants a suite has, read from its source: each `fail("name", ...)` is one."""

from __future__ import annotations

import ast
import inspect
import pathlib
from collections.abc import Iterable
from types import ModuleType


def invariants_of(modules: Iterable[ModuleType]) -> set[str]:
    """The names of all invariants that the modules check. AssertionError for a name that is not a literal."""
    return invariants_in(pathlib.Path(inspect.getfile(module)) for module in modules)


def invariants_in(files: Iterable[pathlib.Path]) -> set[str]:
    """The names of all invariants that the source files check. AssertionError for a name that is not a literal."""
    names: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "fail":
                name = node.args[0]
                assert isinstance(name, ast.Constant), f"{file}, line {node.lineno}: a name as a literal"
                names.add(str(name.value))
    return names
