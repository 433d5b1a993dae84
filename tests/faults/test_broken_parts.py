"""The suites of faults detect each broken server, store and reader, by its invariant; each invariant has one, and each
file invariants or a reason."""

from __future__ import annotations

import ast
import pathlib
import re
from typing import Any

import pytest

from tests.faults import controls
from tests.faults.broken_parts import BROKEN, Broken, Trial
from tests.faults.checks import CheckFailed
from tests.invariants import invariants_in
from tests.test_operations_doc import known_tests

pytestmark = pytest.mark.golden
HERE = pathlib.Path(__file__).parent
MOST_RUNS = 4
"""A fault of the network may meet a call that the defect does not concern."""


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
@pytest.mark.sampled(3)
def test_each_broken_part_is_detected_by_its_invariant(
    golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, broken: Broken
) -> None:
    for attempt in range(MOST_RUNS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with broken.in_place(), monkeypatch.context() as patches:
            try:
                broken.scenario(Trial(golden, folder, patches))
            except CheckFailed as error:
                assert error.check == broken.invariant, error
                return
    pytest.fail(f"{broken.name}: not detected by {broken.invariant!r} in {MOST_RUNS} runs")


def test_each_invariant_of_the_faults_has_a_broken_part() -> None:
    assert invariants_in(HERE.glob("*.py")) == {broken.invariant for broken in BROKEN}


def test_each_file_of_faults_has_invariants_or_a_reason() -> None:
    files = {path.name: path for path in (*HERE.glob("test_*.py"), HERE.parent / "s3" / "test_faults_on_s3.py")}
    assert not controls.INVARIANTS.keys() & controls.REASONS.keys()
    assert files.keys() == controls.INVARIANTS.keys() | controls.REASONS.keys()
    for name, invariants in controls.INVARIANTS.items():
        assert set(invariants) <= checked_by(files[name]), name
    for name, path in files.items():
        assert name in controls.INVARIANTS or not invariants_in([path]) or path == pathlib.Path(__file__), name


def checked_by(path: pathlib.Path) -> set[str]:
    """The invariants that a file checks, itself or by a module from which it takes something."""
    imported = {node.module or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
    own = [HERE / f"{module.rpartition('.')[2]}.py" for module in imported if module.startswith("tests.faults.")]
    return invariants_in([path, *own])


def test_reasons_name_existing_tests() -> None:
    named = {name for text in controls.REASONS.values() for name in re.findall(r"test_\w+", text)}
    assert len(named) > 5 and named <= known_tests().keys()
