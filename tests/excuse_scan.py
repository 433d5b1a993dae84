"""Where tests excuse something: skips, filtered warnings, tolerances, retries, accepted errors, and more.

`excuses(path, source)` yields each place of one file, read from its syntax tree. docs/development/testing.md has a row
for each place; `test_excuses.py` compares. Errors of sockets, processes and parsers of the harness itself are not
places: they end no comparison.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

SKIPS = {"skip", "skipif", "xfail", "importorskip", "skipTest", "SkipTest", "skipIf", "skipUnless", "expectedFailure"}
SKIPPING = {"pytest", "pytest.mark", "unittest", "self", "mark"}
WARNINGS = {"filterwarnings", "simplefilter", "catch_warnings"}
TOLERANCES = {"approx", "isclose", "allclose", "assert_allclose", "assertAlmostEqual"}
RERUNS = {"flaky", "rerun", "reruns"}
ATTEMPTS = {"attempts", "retries", "num_retries", "reruns"}
EXCUSE_NAME = re.compile(r"excus|forgiv|deviation|^MAY_(END|FAIL)", re.IGNORECASE)
RETRY_NAME = re.compile(r"^(STARTS|TRIES|RETRIES|ATTEMPTS|RERUNS|AGAIN_S|MOST_(RUNS|SCHEDULES))$")
TOLERANCE_NAME = re.compile(r"^(SLACK|TOLERANCE)")
VALUES_OF_ROWS = re.compile(r"to_pylist|collect\(|\brow\[|\brows\[|\brows\(|\bcopied\(|\bfolded\(|\bvalues\(")
OF_THE_HARNESS = {
    *("OSError", "ConnectionError", "BrokenPipeError", "ProcessLookupError", "FileNotFoundError", "FileExistsError"),
    *("psutil.Error", "psutil.NoSuchProcess", "subprocess.TimeoutExpired", "queue.Empty", "BufferError"),
    *("urllib.error.HTTPError", "json.JSONDecodeError", "UnicodeDecodeError", "ImportError"),
    *("ValueError", "KeyError", "IndexError", "LookupError", "TypeError", "AttributeError", "OverflowError"),
}
"""Errors that a harness catches from its own sockets, processes, files and parsers."""


class Excuse(NamedTuple):
    """One place."""

    kind: str
    """The first column of the table."""
    path: str
    """The file, relative to the folder `tests`."""
    line: int
    """The line, for messages."""


def excuses(path: str, source: str) -> Iterator[Excuse]:
    """Each place of a file, once for each kind and line."""
    name = path.rpartition("/")[2]
    if not name.startswith("test_") and EXCUSE_NAME.search(name):
        yield Excuse("excuse rule", path, 1)
    for kind, line in sorted(set(_kinds(ast.parse(source))), key=lambda place: place[1]):
        yield Excuse(kind, path, line)


def _kinds(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            yield from ((kind, node.lineno) for kind in _of_name(node))
        elif isinstance(node, ast.keyword):
            yield from ((kind, node.value.lineno) for kind in _of_argument(node))
        elif isinstance(node, ast.ExceptHandler):
            if not isinstance(node.body[-1], ast.Raise) and _is_judged(node.type):
                yield "accepted error", node.lineno
        elif isinstance(node, ast.Call):
            if ast.unparse(node.func).endswith("suppress") and any(map(_is_judged, node.args)):
                yield "accepted error", node.lineno
        elif isinstance(node, ast.Compare):
            yield from ((kind, node.lineno) for kind in _of_comparison(node))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and _is_rule(node.name):
            yield "excuse rule", node.lineno
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(ast.unparse(target) == "LIMITS" for target in targets):
                yield "tolerance", node.lineno


def _of_name(node: ast.Attribute | ast.Name) -> Iterator[str]:
    name = node.attr if isinstance(node, ast.Attribute) else node.id
    owner = ast.unparse(node.value) if isinstance(node, ast.Attribute) else ""
    if name in SKIPS and owner in SKIPPING:
        yield "skip"
    if name in RERUNS and owner in SKIPPING:
        yield "retry"
    if name in WARNINGS and owner in ("pytest.mark", "mark", "warnings"):
        yield "filtered warning"
    if name in TOLERANCES:
        yield "tolerance"
    if name == "assume":
        yield "discarded example"
    if isinstance(node.ctx, ast.Store):
        if RETRY_NAME.search(name):
            yield "retry"
        if TOLERANCE_NAME.search(name):
            yield "tolerance"
        if _is_rule(name):
            yield "excuse rule"


def _of_argument(node: ast.keyword) -> Iterator[str]:
    if node.arg == "suppress_health_check":
        yield "discarded example"
    if node.arg in ATTEMPTS and isinstance(node.value, ast.Constant) and node.value.value not in (0, 1):
        yield "retry"


def _of_comparison(node: ast.Compare) -> Iterator[str]:
    sides = (node.left, *node.comparators)
    is_bound = isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    if any(map(_is_distance, sides)) or (is_bound and any(map(_is_scaled, sides))):
        yield "tolerance"
    if isinstance(node.ops[0], ast.Eq | ast.NotEq) and any(
        _makes_a_set(side) and VALUES_OF_ROWS.search(ast.unparse(side)) for side in sides
    ):
        yield "rows as a set"


def _is_rule(name: str) -> bool:
    return bool(EXCUSE_NAME.search(name)) and not name.startswith("test_")


def _is_judged(caught: ast.expr | None) -> bool:
    """Whether a caught error may come from the product. No name means every error."""
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(name is None or ast.unparse(name) not in OF_THE_HARNESS for name in names)


def _is_distance(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "abs"
        and isinstance(node.args[0], ast.BinOp)
        and isinstance(node.args[0].op, ast.Sub)
    )


def _is_scaled(side: ast.expr) -> bool:
    """Whether a number is multiplied by a fraction."""
    products = [node for node in ast.walk(side) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)]
    factors = [factor for node in products for factor in (node.left, node.right)]
    return any(isinstance(factor, ast.Constant) and isinstance(factor.value, float) for factor in factors)


def _makes_a_set(node: ast.expr) -> bool:
    is_call = isinstance(node, ast.Call) and ast.unparse(node.func) in ("set", "frozenset")
    return isinstance(node, ast.SetComp) or (is_call and bool(node.args))
