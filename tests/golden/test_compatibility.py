"""docs/reference/compatibility.md agrees with the assertions of this suite, entry by entry."""

from __future__ import annotations

import ast
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


FEATURES_SOURCE = """
NOW = {"hoodie.compact.inline": "true"}
class Trip:
    def __init__(self, kind): create_table(self.path, schema, index="bloom", partition_by="city")
    def compacts(self): penstock.compact(str(self.path))
    def cleans(self): clean(str(self.path))
    def write(self, rows, operation="upsert"): pass
def helper(trip, operation): trip.write(rows, operation)
def other(): write(rows, "insert")
@pytest.mark.parametrize(("version", "kind"), [(9, "merge_on_read"), (6, "copy_on_write")])
def test_a(hudi, version, kind):
    trip = Trip(kind)
    if kind == "copy_on_write":
        trip.write(rows)
    helper(trip, "delete")
    if kind == "merge_on_read":
        trip.compacts()
    hudi.write(path, rows, NOW, hoodie__clean__automatic="true")
    hudi.call(f"CALL rollback_to_savepoint(path => '{trip}')")
"""


def test_features_of_a_test_are_what_its_calls_name(tool: ModuleType) -> None:
    features = sys.modules["write_features"]
    module = ast.parse(FEATURES_SOURCE)
    (test,) = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "test_a"]
    names = {"NOW": {"hoodie.compact.inline": "true"}}

    def names_of(kind: str) -> set[str]:
        facts = features.facts_of(test, module, names, {"version": 9, "kind": kind})
        case = features.Case("test_a", "9", frozenset(facts))
        return {feature.name for feature in features.FEATURES if features.has(case, feature)}

    common = {"Index bloom", "Operation delete", "Clean by Hudi", "Restore by Hudi"}
    assert names_of("copy_on_write") == {*common, "Operation upsert"}
    assert names_of("merge_on_read") == {*common, "Compaction by Penstock", "Compaction by Hudi"}


def test_feature_without_a_test_and_a_test_without_a_feature_are_errors(tool: ModuleType) -> None:
    features, compatibility = sys.modules["write_features"], sys.modules[tool.section.__module__]
    cases = compatibility.cases()
    assert features.table_of(cases, compatibility.COLUMNS)
    without = [case for case in cases if "test_restore" not in case.name]
    with pytest.raises(
        SystemExit, match="no test of tests/interop has the feature 'Savepoint and restore by Penstock'"
    ):
        features.table_of(without, compatibility.COLUMNS)
    reads_only = features.Case("test_new", "9", frozenset({"read()"}))
    with pytest.raises(SystemExit, match="test_new matches no feature"):
        features.table_of([*cases, reads_only], compatibility.COLUMNS)


def test_compatibility_page_changes_with_an_entry_that_differs(tool: ModuleType) -> None:
    outcomes = tool.asserted()
    outcomes[next(iter(outcomes))] = "other rows"
    assert "other rows (1)" in tool.document(outcomes)
