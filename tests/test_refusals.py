"""The cases that may be refused as unsupported, and their modules: five kinds for reads, and those of writes.

A new `UnsupportedFeature` fails here until it is one of the kinds; what Hudi itself does not read has another class
(`docs/reference/semantics.md`, "What is refused").
"""

from __future__ import annotations

import ast
import pathlib
from collections import Counter
from enum import Enum

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
ERROR = "UnsupportedFeature"


class Kind(Enum):
    """Four kinds that Hudi writes and this release does not read, and types that an engine does not have."""

    CUSTOM_MERGER = "a merger or payload class of the user's, for which no function is registered"
    BOOTSTRAP = "a skeleton whose partition columns are in no path, source files on another store, and a clean of them"
    BASE_FORMAT = "base files of no known format or version, timestamps and compressions that are not read"
    OLD_VERSION = "table version 5 or older"
    NATIVE_LOGS = "table version 10, whose log files are Parquet files"
    ENGINE_TYPE = "a column type that the engine lacks"


RAISED = {
    "enumerator/planning/scan.py": [{Kind.BOOTSTRAP}],
    "engine/spark/schema/types.py": [{Kind.ENGINE_TYPE}] * 3,
    "reader/base/orc/zone.py": [{Kind.BASE_FORMAT}],
    "reader/log/custom.py": [{Kind.CUSTOM_MERGER}],
    "reader/merge/mergers.py": [{Kind.CUSTOM_MERGER}],
    "table/bootstrap/sources.py": [{Kind.BOOTSTRAP}],
    "table/config/merge_rules.py": [{Kind.CUSTOM_MERGER, Kind.BASE_FORMAT}],
    "table/config/properties.py": [{Kind.OLD_VERSION}, {Kind.NATIVE_LOGS}],
    "table/hfile/reader.py": [{Kind.BASE_FORMAT}],
    "table/lance.py": [{Kind.BASE_FORMAT}],
    "table/orc.py": [{Kind.BASE_FORMAT}],
    "table/timeline/services/clean_encoder.py": [{Kind.BOOTSTRAP}],
}
"""File -> the kind of each place that creates the error."""

WRITING = ("engine/write/", "engine/spark/write/", "engine/table_services/", "writer/", "table/storage/local_writes.py")
"""Where writes refuse tables that they would damage (`docs/guides/write.md`). A read refuses none of them."""

REFUSED_SETTINGS = {
    "record merge mode": Kind.CUSTOM_MERGER,
    "payload class": Kind.CUSTOM_MERGER,
    "record merge strategy": Kind.CUSTOM_MERGER,
    "base file format": Kind.BASE_FORMAT,
}
"""The reasons of `merge_rules._refuse`, by the first words of the text."""


def sources() -> list[pathlib.Path]:
    rooms = ("proto", "table", "enumerator", "reader", "writer", "engine")
    return [file for room in rooms for file in sorted((REPOSITORY / room).rglob("*.py"))]


def uses(tree: ast.AST) -> list[ast.AST]:
    """Each use of the class except in imports, annotations and `except`."""
    passive = {
        id(part)
        for node in ast.walk(tree)
        for whole in (
            [node.type] if isinstance(node, ast.ExceptHandler) else [],
            [node.returns] if isinstance(node, ast.FunctionDef) else [],
            [node.annotation] if isinstance(node, ast.AnnAssign | ast.arg) else [],
        )
        for root in whole
        if root is not None
        for part in ast.walk(root)
    }
    return [
        node
        for node in ast.walk(tree)
        if (
            (isinstance(node, ast.Name) and node.id == ERROR)
            or (isinstance(node, ast.Attribute) and node.attr == ERROR)
        )
        and id(node) not in passive
    ]


def test_unsupported_feature_is_raised_only_for_the_listed_kinds() -> None:
    counts = {
        str(file.relative_to(REPOSITORY)): len(places)
        for file in sources()
        if (places := uses(ast.parse(file.read_text())))
    }
    assert counts.pop("proto/codec/errors.py") == 1, "the status code's class"
    assert any(file.startswith(WRITING) for file in counts)
    counts = {file: count for file, count in counts.items() if not file.startswith(WRITING)}
    assert counts == {file: len(kinds) for file, kinds in RAISED.items()}


def test_kinds_are_all_raised_somewhere() -> None:
    assert {kind for places in RAISED.values() for kinds in places for kind in kinds} == set(Kind)


def test_merge_rules_refuse_the_listed_settings() -> None:
    tree = ast.parse((REPOSITORY / "table/config/merge_rules.py").read_text())
    refusing = Counter(
        next((words for words in REFUSED_SETTINGS if text.startswith(words)), text)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and "_refuse" in {name.id for name in ast.walk(call.func) if isinstance(name, ast.Name)}
        for text in [first_words(call.args[1])]
    )
    assert refusing.keys() == REFUSED_SETTINGS.keys()


def names_of(called: ast.expr) -> set[str]:
    """The functions that a call may call: `f(…)`, or `(f if c else g)(…)`."""
    return {name.id for name in ast.walk(called) if isinstance(name, ast.Name)}


def first_words(text: ast.expr) -> str:
    """The constant at the beginning of an f-string or a string."""
    node = text.values[0] if isinstance(text, ast.JoinedStr) else text
    assert isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value


@pytest.mark.parametrize(
    ("source", "count"),
    [
        (f"raise {ERROR}('x')", 1),
        (f"raise errors.{ERROR}('x')", 1),
        (f"error = {ERROR} if a else b", 1),
        (f"from e import {ERROR}\ntry: pass\nexcept (A, {ERROR}): pass", 0),
        (f"def f(a: {ERROR}) -> {ERROR}: return {ERROR}('x')", 1),
    ],
)
def test_uses_of_the_class_are_detected(source: str, count: int) -> None:
    assert len(uses(ast.parse(source))) == count
