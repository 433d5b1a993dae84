"""Fault 29: a million pending splits. Discovery pauses, the position does not move, and memory is bounded."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from penstock.enumerator.core.results import CoordinatorSettings
from tests.unit.enumerator.scripted_service import Script, World

PROGRAM = pathlib.Path(__file__).with_name("million_splits.py")
MOST_MIB = 512


@pytest.mark.parametrize("most_pending", [1, 5, 17])
def test_fault_29_back_pressure_pauses_discovery_without_moving_the_position(
    most_pending: int,
) -> None:
    """Hudi's empty batch under back-pressure once overwrote the position: here every commit is read once, in order."""
    world = World(Script(newest=12, splits=3), settings=CoordinatorSettings(max_pending_splits=most_pending))
    split_ids: list[str] = []
    for _ in range(200):
        for _ in range(3):
            before = world.summary().split()[2]
            paused = world.summary().startswith("paused")
            world.service.split_discovery.discover()
            assert not paused or world.summary().split()[2] == before
        [group] = world.service.coordinator.read(lambda state: list(state.groups.values()))
        assert group.pending < most_pending + world.script.splits
        assignments = world.request_splits(2)
        if hasattr(assignments, "splits"):
            split_ids += [one.split.split_id for one in assignments.splits]
            world.finish(assignments)
    assert split_ids == [f"{commit}/{group}" for commit in range(1, 13) for group in range(3)]


@pytest.mark.exhaustive
def test_fault_29_million_pending_splits_take_bounded_memory(tmp_path: pathlib.Path) -> None:
    for what in ("plan", "replay"):
        command = [sys.executable, str(PROGRAM), what, str(tmp_path / "state")]
        result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert result.returncode == 0, result.stderr[-3000:]
        pending, peak_mib, grown_mib = map(int, result.stdout.split())
        print(f"{what}: {pending} pending, peak {peak_mib} MiB, {grown_mib} MiB more than before")
        assert pending == 980_000
        assert peak_mib <= MOST_MIB
