"""The writing half of docs/reference/compatibility.md: the comparisons that tests/interop/test_writes.py makes.

Each `check(…, what)` of a test compares the rows of real Hudi, of Penstock and of a model after a step. They are
counted from the source of the tests, for each set of parameters: the page names what is asserted, and nothing else.
"""

from __future__ import annotations

import ast
import itertools
import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
TESTS = REPOSITORY / "tests" / "interop" / "test_writes.py"
CHECK: Final = "check"
VERSIONS: Final = (6, 9)
HEAD: Final = """## Writes

Tables that Penstock creates and writes, and that real Hudi then reads and writes, in turn. Each number is that of kinds
of tables (copy on write and merge on read, with bucket and simple index) for which the rows of Hudi 1.2.0, of Penstock
and of a model are equal after the step. The [guide](../guides/write.md) says what is refused.

"""


def section() -> str:
    """The part of the page."""
    counts = counted(TESTS.read_text(encoding="utf-8"))
    steps = list(dict.fromkeys(step for step, _ in counts))
    lines = [f"| step | {' | '.join(f'version {version}' for version in VERSIONS)} |", "|---|---|---|"]
    for step in steps:
        cells = [f"equal ({counts[step, version]})" if counts[step, version] else "–" for version in VERSIONS]
        lines.append(f"| {step} | {' | '.join(cells)} |")
    return HEAD + "\n".join(lines) + "\n"


def counted(source: str) -> Counter[tuple[str, int]]:
    """(step, table version) -> the number of kinds of tables for which a test compares it, in the order of steps."""
    counts: Counter[tuple[str, int]] = Counter()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            for parameters in _parameters(node):
                if "version" in parameters:
                    counts.update((step, parameters["version"]) for step in _checks(node.body, parameters))
    return counts


def _parameters(test: ast.FunctionDef) -> Iterator[Mapping[str, Any]]:
    """Each set of parameters of a test."""
    sets: list[list[tuple[str, Any]]] = []
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.parametrize":
            name, values = (ast.literal_eval(argument) for argument in decorator.args[:2])
            sets.append([(name, value) for value in values])
    return (dict(chosen) for chosen in itertools.product(*sets))


def _checks(body: Sequence[ast.stmt], parameters: Mapping[str, Any]) -> Iterator[str]:
    """The steps that the statements compare, in their order."""
    for statement in body:
        if isinstance(statement, ast.If):
            condition = compile(ast.Expression(statement.test), str(TESTS), "eval")
            holds = eval(condition, {}, dict(parameters))
            yield from _checks(statement.body if holds else statement.orelse, parameters)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            if isinstance(call.func, ast.Name) and call.func.id == CHECK:
                yield str(ast.literal_eval(call.args[-1]))
