"""The suites of faults detect each broken server, store and reader, by its invariant; each invariant has one."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from tests.faults.broken_parts import BROKEN, Broken, Trial
from tests.faults.deliveries import CheckFailed
from tests.invariants import invariants_in

pytestmark = pytest.mark.golden
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
    sources = pathlib.Path(__file__).parent.glob("*.py")
    assert invariants_in(sources) == {broken.invariant for broken in BROKEN}
