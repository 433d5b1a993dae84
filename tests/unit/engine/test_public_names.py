"""The public names of the package: exactly these, light to import, and all that documentation uses."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import json
import pathlib
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import penstock
from penstock.proto.errors import InvariantViolation, all_error_classes

ROOT = pathlib.Path(__file__).parents[3]
NAMES = [
    "ArchiveResult",
    "CleanResult",
    "CleanerHold",
    "ClusteringSizes",
    "ConsumedBatch",
    "Consumer",
    "MaintainResult",
    "PlannedSplit",
    "Position",
    "ReaderSavepoints",
    "ResetOutcome",
    "RestoreResult",
    "SavepointResult",
    "Scan",
    "ServiceResult",
    "Table",
    "TableInstant",
    "TablePlan",
    "WorkResult",
    "WriteResult",
    "__version__",
    "archive",
    "clean",
    "cluster",
    "compact",
    "create_table",
    "daft",
    "delete_savepoint",
    "duckdb",
    "errors",
    "maintain",
    "open_table",
    "polars",
    "ray",
    "read",
    "restore",
    "rollback",
    "savepoint",
    "savepoint_readers",
    "spark",
    "work",
    "write",
]
SPARK_NAMES = [
    "CreatedViews",
    "await_end",
    "create_views",
    "explain",
    "register",
    "register_functions",
    "sink",
    "sql",
    "table",
    "with_source_watermark",
    "work",
    "write",
]
ERROR_NAMES = [
    "AccessError",
    "ConfigurationError",
    "CorruptBlock",
    "CorruptFile",
    "DataInvalidated",
    "Fenced",
    "FormatError",
    "InvariantViolation",
    "KafkaUnavailable",
    "LateInstant",
    "LeaseError",
    "OutOfMemory",
    "Overloaded",
    "PenstockError",
    "PermissionDenied",
    "PlanError",
    "PositionExpired",
    "RequestIdReused",
    "SchemaMismatch",
    "ServerUnavailable",
    "StateDamaged",
    "StateVersionError",
    "StorageDenied",
    "StorageError",
    "TableError",
    "TableNotFound",
    "TargetConflict",
    "TargetUnavailable",
    "TooManyGroups",
    "TopicGone",
    "Unauthenticated",
    "UndecodableRecord",
    "UnknownGroup",
    "UnknownPlan",
    "UnknownSplit",
    "UnsupportedFeature",
    "WriteConflict",
]
PUBLIC = {
    "penstock": NAMES,
    "penstock.daft": ["read"],
    "penstock.duckdb": ["register", "relation"],
    "penstock.errors": ERROR_NAMES,
    "penstock.polars": ["scan"],
    "penstock.ray": ["read"],
    "penstock.spark": SPARK_NAMES,
}


def in_new_process(code: str) -> Any:
    """The JSON that `code` prints in a new process."""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def module_of(name: str) -> ModuleType:
    module: ModuleType = penstock if name == "penstock" else getattr(penstock, name.removeprefix("penstock."))
    return module


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_exactly_these(name: str) -> None:
    assert sorted(module_of(name).__all__) == PUBLIC[name]


def test_completion_shows_the_public_names_also_after_imports_of_internals() -> None:
    names = in_new_process(
        "import json, penstock\n"
        "first = dir(penstock)\n"
        "penstock.read, penstock.Consumer, penstock.open_table\n"
        "penstock.spark.with_source_watermark, penstock.spark.register\n"
        "import penstock.engine.cli.command_line, penstock.table.columns\n"
        "print(json.dumps([first, dir(penstock), dir(penstock.errors), dir(penstock.spark)]))"
    )
    assert names == [NAMES, NAMES, ERROR_NAMES, SPARK_NAMES]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_resolve_and_others_do_not(name: str) -> None:
    module = module_of(name)
    assert all(getattr(module, public) is not None for public in PUBLIC[name])
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = module.nothing_of_this_name


def test_importing_the_package_loads_neither_arrow_nor_engines_nor_grpc() -> None:
    imports = ", ".join(["json", "sys", *PUBLIC])
    modules = {name.split(".")[0] for name in in_new_process(f"import {imports}\nprint(json.dumps(list(sys.modules)))")}
    heavy = {"pyarrow", "pyspark", "py4j", "numpy", "grpc", "numba", "typer", "polars", "duckdb", "daft", "ray"}
    assert modules.isdisjoint(heavy)


def test_errors_hold_every_exception_of_the_tree() -> None:
    exported = {getattr(penstock.errors, name) for name in ERROR_NAMES}
    assert exported == {*all_error_classes().values(), InvariantViolation}


@pytest.mark.parametrize(
    "value", ["ConsumedBatch", "PlannedSplit", "Position", "ResetOutcome", "Scan", "TableInstant", "TablePlan"]
)
def test_public_values_document_each_field(value: str) -> None:
    cls = getattr(penstock, value)
    source = ast.parse((ROOT / "src" / cls.__module__.replace(".", "/")).with_suffix(".py").read_text())
    (body,) = [node.body for node in source.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__]
    documented = {
        statement.target.id
        for statement, after in itertools.pairwise(body)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }  # fmt: skip
    assert documented == {field.name for field in dataclasses.fields(cls)}


def documentation_blocks() -> list[tuple[str, str]]:
    """(place, text) of each fenced Python block of README.md, docs/ and deploy/."""
    blocks = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "deploy").rglob("*.md"))]:
        text = page.read_text()
        for block in re.finditer(r"^( *)```python\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
            place = f"{page.relative_to(ROOT)}:{text[: block.start()].count(chr(10)) + 2}"
            blocks.append((place, re.sub(rf"^{block[1]}", "", block[2], flags=re.MULTILINE)))
    return blocks


def internal_uses(text: str) -> list[str]:
    """Names of the package in Python source `text` that are not public."""
    uses: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            uses += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            uses += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            uses.append(ast.unparse(node))
    uses = [use for use in uses if re.fullmatch(r"penstock(\.\w+)*", use)]
    public = {*PUBLIC, *(f"{module}.{name}" for module, names in PUBLIC.items() for name in names)}
    parents = tuple(f"{name}." for name in public - set(PUBLIC))  # members of a public class are public
    return [
        use for use in uses if use.split(".")[0] == "penstock" and use not in public and not use.startswith(parents)
    ]


def test_documentation_imports_only_public_names() -> None:
    blocks = documentation_blocks()
    assert len(blocks) > 10
    assert [(place, uses) for place, text in blocks if (uses := internal_uses(text))] == []


@pytest.mark.parametrize(
    "text",
    [
        "from penstock.engine.spark.source import PenstockDataSource",
        "import penstock.proto.errors",
        "import penstock\npenstock.errors.NoSuchError",
        "from penstock import engine",
        "import penstock\npenstock.table.columns.resolve_column('a', [])",
    ],
)
def test_documentation_check_finds_internal_names(text: str) -> None:
    assert internal_uses(text) != []
