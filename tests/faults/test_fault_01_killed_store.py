"""Fault 1, at the store: after SIGKILL during appends it has every record that it reported as durable, in order."""

from __future__ import annotations

import pathlib
from collections import defaultdict

import pytest

from tests.faults.state_steps import reopened, started


@pytest.mark.parametrize("acknowledged", [1, 40, 400])
def test_fault_01_every_acknowledged_record_is_there_after_kill_9(tmp_path: pathlib.Path, acknowledged: int) -> None:
    lines: list[str] = []
    for _ in range(2):  # the second process continues where the first was killed
        with started("append", tmp_path / "state") as process:
            assert process.stdout is not None
            for _ in range(acknowledged):
                lines.append(process.stdout.readline())
            process.kill()
            lines += process.stdout.readlines()
    assert len(lines) >= 2 * acknowledged and all(line.endswith("\n") for line in lines)
    payloads, _ = reopened(tmp_path / "state")
    stored, acknowledged_numbers = defaultdict(list), defaultdict(list)
    for line in lines:
        acknowledged_numbers[line.split()[0]].append(int(line.split()[1]))
    for payload in payloads:
        stored[payload.decode().split()[0]].append(int(payload.split()[1]))
    for thread, numbers in acknowledged_numbers.items():
        for number in set(numbers):
            assert stored[thread].count(number) >= numbers.count(number)
        assert all(b in (a + 1, 0) for a, b in zip(stored[thread], stored[thread][1:], strict=False))
    assert len(payloads) <= len(lines) + 8  # twice, each of four threads had one append that was not reported yet
