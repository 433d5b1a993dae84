"""The writing half of docs/reference/compatibility.md: the comparisons that the tests of writes in tests/interop make.

Each `check(…, what)` of a test compares the rows of real Hudi, of Penstock and of a model after a step, and each
`compare_paths` the partition paths of a key generator. They are counted from the source of the tests, for each set of
parameters: the page names what is asserted, and nothing else.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import pathlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
TESTS: Final = ("test_writes", "test_write_partitions", "test_write_traps", "test_write_repeated_keys")
CHECKS: Final = ("check", "check_history")
PATHS: Final = "compare_paths"
VERSIONS: Final = (6, 9)
HEAD: Final = """## Writes

Tables that Penstock creates and writes, and that real Hudi then reads and writes, in turn. Each number is that of
tables (copy on write and merge on read, with bucket and simple index) for which the rows of Hudi 1.2.0, of Penstock and
of a model are equal after the step. The [guide](../guides/write.md) says what is refused.

"""
HISTORIES: Final = """
Random histories, in which Hudi or Penstock does each step: {new} tables of version 6 and 9 with Hudi {newest}, and
{old} of version 6 with Hudi {older}, of {steps} steps each. The steps are upsert, insert, bulk_insert, delete,
insert_overwrite and insert_overwrite_table by either, with added and widened columns; compaction, clean, archive and
rollback by Hudi; and writes that are killed. After each step snapshots are compared, at the end read-optimized rows,
time travel and a range.
"""


def section() -> str:
    """The part of the page."""
    if str(REPOSITORY) not in sys.path:
        sys.path.append(str(REPOSITORY))
    counts: Counter[tuple[str, int]] = Counter()
    for name in TESTS:
        module = importlib.import_module(f"tests.interop.{name}")
        source = (REPOSITORY / "tests" / "interop" / f"{name}.py").read_text(encoding="utf-8")
        counts += counted(source, vars(module))
    steps = list(dict.fromkeys(step for step, _ in counts))
    lines = [f"| step | {' | '.join(f'version {version}' for version in VERSIONS)} |", "|---|---|---|"]
    for step in steps:
        cells = [f"equal ({counts[step, version]})" if counts[step, version] else "–" for version in VERSIONS]
        lines.append(f"| {step} | {' | '.join(cells)} |")
    return HEAD + "\n".join(lines) + "\n" + _histories()


def _histories() -> str:
    from tests.interop.hudi_process import NEWEST
    from tests.interop.mixed import test_mixed_histories as mixed

    new, old = len(mixed.SEEDS), len(mixed.OLD_SEEDS)
    return HISTORIES.format(new=new, old=old, newest=NEWEST, older=mixed.OLD, steps=mixed.STEPS)


def counted(source: str, names: Mapping[str, Any] | None = None) -> Counter[tuple[str, int]]:
    """(step, table version) -> the number of tables for which a test compares it, in the order of steps. `names`: those
    of the module."""
    counts: Counter[tuple[str, int]] = Counter()
    known = dict(names or {"pytest": pytest})
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            for parameters in _parameters(node, known):
                for step, version in _checks(node.body, known | parameters):
                    counts[step, parameters.get("version", version)] += 1
    return counts


def _parameters(test: ast.FunctionDef, names: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Each set of parameters of a test."""
    sets: list[list[dict[str, Any]]] = []
    for decorator in test.decorator_list:
        mark = getattr(_value(decorator, names), "mark", None)
        if mark is None or mark.name != "parametrize":
            continue
        given, values = mark.args[:2]
        arguments = [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
        sets.append([dict(zip(arguments, _tuple(value, len(arguments)), strict=True)) for value in values])
    for chosen in itertools.product(*sets):
        yield {name: value for one in chosen for name, value in one.items()}


def _tuple(value: Any, count: int) -> Sequence[Any]:
    values = getattr(value, "values", None)  # of pytest.param
    if values is not None and not callable(values):
        return tuple(values)
    return (value,) if count == 1 else tuple(value)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "a test", "eval"), dict(names))


def _checks(body: Sequence[ast.stmt], names: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The steps that the statements compare, in their order, with the table version 9 that is the default of tests."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _checks(statement.body if _value(statement.test, names) else statement.orelse, names)
        elif isinstance(statement, ast.For):
            yield from _checks(statement.body, names)
        elif isinstance(statement, ast.Expr | ast.Assign) and isinstance(statement.value, ast.Call):
            call = statement.value
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if name in CHECKS and isinstance(call.args[-1], ast.Constant):
                yield str(call.args[-1].value), 9
            elif name == PATHS:
                yield f"partition paths of the key generator {ast.literal_eval(call.args[5])}", 9
