"""The writing half of docs/reference/compatibility.md: the features that the tests of writes in tests/interop use, and
the comparisons that they make.

Each `check(…, what)` of a test compares the rows of real Hudi, of Penstock and of a model after a step, and each
`compare_paths` the partition paths of a key generator. They are counted from the source of the tests, for each set of
parameters: the page names what is asserted, and nothing else. `write_features` has the table of features.
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
from write_features import OLDER, Case, facts_of, table_of

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
TESTS: Final = ("test_writes", "test_write_partitions", "test_write_traps", "test_write_repeated_keys")
"""The modules whose steps are listed."""
OTHER_TESTS: Final = ("test_table_services", "test_restore", "test_metadata_table", "test_clean_and_archive")
"""Modules beside `test_write*` whose cases count for features."""
COLUMNS: Final = {
    "6": "version 6",
    "9": "version 9",
    OLDER: "version 6, Hudi 0.15.0",
}
CHECKS: Final = ("check", "check_history")
PATHS: Final = "compare_paths"
VERSIONS: Final = (6, 9)
HEAD: Final = """## Writes

Tables that Penstock creates and writes, and that real Hudi then reads, writes and serves, in turn; and tables of Hudi
that Penstock writes. Each number is that of test cases in tests/interop that use the feature. In each of them real Hudi
writes or reads the table too: Hudi 1.2.0, in the last column 0.15.0. –: no such case. The guides of
[writes](../guides/write.md) and [table services](../guides/table-services.md) say what is refused.

"""
STEPS: Final = """
### After each step

Each number is that of tables (copy on write and merge on read, with bucket and simple index) for which the rows of Hudi
1.2.0, of Penstock and of a model are equal after the step.

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
    return HEAD + "\n".join(table_of(cases(), COLUMNS)) + "\n" + STEPS + "\n".join(lines) + "\n" + _histories()


def cases() -> list[Case]:
    """The cases of the tests of writes and table services that use real Hudi."""
    folder = REPOSITORY / "tests" / "interop"
    modules = [*sorted(path.stem for path in folder.glob("test_write*.py")), *OTHER_TESTS]
    return [case for name in modules for case in _cases_of(name, (folder / f"{name}.py").read_text(encoding="utf-8"))]


def _cases_of(name: str, source: str) -> Iterator[Case]:
    module = ast.parse(source)
    names = vars(importlib.import_module(f"tests.interop.{name}"))
    for node in module.body:
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
            continue
        fixtures = {argument.arg for argument in node.args.args}
        for parameters in _parameters(node, names) if fixtures & {"hudi", OLDER} else ():
            facts = facts_of(node, module, names, parameters)
            column = OLDER if OLDER in fixtures else str(parameters.get("version", 9))
            yield Case(f"{name}.{node.name}{sorted(parameters.items())}", column, frozenset(facts))


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
