"""docs/reference/compatibility.md agrees with the assertions of this suite, entry by entry."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from types import ModuleType

import pytest

pytestmark = pytest.mark.golden

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tool", REPOSITORY / "tools" / "generate_compatibility.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_compatibility_page_agrees_with_the_suite(tool: ModuleType) -> None:
    assert (REPOSITORY / "docs" / "reference" / "compatibility.md").read_text() == tool.document(tool.asserted())


def test_golden_tables_each_cover_a_feature(tool: ModuleType) -> None:
    named = {tool.feature_of(case) for case, _ in tool.asserted()}
    assert named == {feature for feature, _ in tool.FEATURES}


def test_steps_of_writes_are_those_that_tests_compare(tool: ModuleType) -> None:
    source = """
@pytest.mark.parametrize("version", [9, 6])
@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_a(version, kind):
    check(hudi, path, "upsert")
    write()
    if kind == "mor":
        check(hudi, path, "compaction")
    check(hudi, path, "upsert")
def helper(version):
    check(hudi, path, "no test")
@pytest.mark.parametrize(("kind", "encode"), [pytest.param("mor", True, marks=pytest.mark.exhaustive), ("cow", False)])
def test_b(kind, encode):
    for key in keys:
        trip.check(rows, "insert")
    trip.check(rows, f"step {kind}")
    found = compare_paths(hudi, folder, 9, rows, columns, "SIMPLE", ["p"])
"""
    counted = sys.modules[tool.section.__module__].counted(source)
    assert counted == {
        ("upsert", 9): 4,
        ("upsert", 6): 4,
        ("compaction", 9): 1,
        ("compaction", 6): 1,
        ("insert", 9): 2,
        ("partition paths of the key generator SIMPLE", 9): 2,
    }
    assert "| upsert by Hudi | equal (5) | equal (5) |" in tool.section()
    assert "| delete_partition | equal (1) | equal (1) |" in tool.section()
    assert "| partition paths of the key generator CUSTOM | – | equal (2) |" in tool.section()
    assert "| compaction by Hudi | equal (2) | equal (2) |" in tool.section()


def test_compatibility_page_changes_with_an_entry_that_differs(tool: ModuleType) -> None:
    outcomes = tool.asserted()
    outcomes[next(iter(outcomes))] = "other rows"
    assert "other rows (1)" in tool.document(outcomes)
