"""What may be refused as unsupported, and where: issue 4 allows five kinds, and nothing else may raise the error.

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
    """The five that Hudi writes and this build does not read, and what an engine has no type for."""

    CUSTOM_MERGER = "a merger or payload class of the user's"
    BOOTSTRAP = "a bootstrap table"
    BASE_FORMAT = "base files in ORC or Lance"
    HFILE_LOG = "HFile log blocks of data"
    OLD_VERSION = "table version 5 or older"
    ENGINE_TYPE = "a column type that the engine lacks"


RAISED = {
    "enumerator/planning/scan.py": [{Kind.BASE_FORMAT}],
    "engine/spark/schema/types.py": [{Kind.ENGINE_TYPE}] * 3,
    "reader/log/block_selection.py": [{Kind.HFILE_LOG}],
    "reader/log/damage.py": [{Kind.HFILE_LOG}],
    "table/config/merge_rules.py": [{Kind.CUSTOM_MERGER, Kind.BOOTSTRAP, Kind.BASE_FORMAT}],
    "table/config/properties.py": [{Kind.OLD_VERSION}],
}
"""File -> the kinds of each place that makes the error."""

REFUSED_SETTINGS = {
    "record merge mode": Kind.CUSTOM_MERGER,
    "payload class": Kind.CUSTOM_MERGER,
    "record merge strategy": Kind.CUSTOM_MERGER,
    "base file format": Kind.BASE_FORMAT,
    "bootstrapped table": Kind.BOOTSTRAP,
}
"""What `merge_rules._refuse` is called for, by the first words of the text."""


def sources() -> list[pathlib.Path]:
    rooms = ("proto", "table", "enumerator", "reader", "engine")
    return [file for room in rooms for file in sorted((REPOSITORY / room).rglob("*.py"))]


def uses(tree: ast.AST) -> list[ast.AST]:
    """Each place that takes the class to make it or pass it on: all but imports, annotations and `except`."""
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


def test_only_what_the_list_names_is_refused_as_unsupported() -> None:
    found = {
        str(file.relative_to(REPOSITORY)): len(places)
        for file in sources()
        if (places := uses(ast.parse(file.read_text())))
    }
    assert found.pop("proto/codec/errors.py") == 1, "the status code's class"
    assert found == {file: len(kinds) for file, kinds in RAISED.items()}


def test_every_kind_is_one_that_some_place_raises() -> None:
    assert {kind for places in RAISED.values() for kinds in places for kind in kinds} == set(Kind)


def test_the_settings_that_merge_rules_refuse() -> None:
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
    """What a call may call: `f(…)`, or `(f if c else g)(…)`."""
    return {name.id for name in ast.walk(called) if isinstance(name, ast.Name)}


def first_words(text: ast.expr) -> str:
    """The constant that an f-string or a string begins with."""
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
def test_what_counts_as_a_use(source: str, count: int) -> None:
    assert len(uses(ast.parse(source))) == count
