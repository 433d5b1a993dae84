"""Which invariants a suite has, read from its source: each `fail("name", ...)` is one."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from types import ModuleType


def invariants_of(modules: Iterable[ModuleType]) -> set[str]:
    """The names of all invariants that the modules check. AssertionError for a name that is not a literal."""
    names: set[str] = set()
    for module in modules:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "fail":
                name = node.args[0]
                assert isinstance(name, ast.Constant), f"{module.__name__}, line {node.lineno}: a name as a literal"
                names.add(str(name.value))
    return names
