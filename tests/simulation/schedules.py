"""Runs many schedules in a few processes; returns the totals and the failures."""

from __future__ import annotations

import gc
import multiprocessing
import os
import statistics
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.simulation.checkers import CheckFailed
from tests.simulation.simulated_world import run_schedule

PIECE = 250
PROCESSES = int(os.environ.get("PENSTOCK_SIMULATION_PROCESSES", str(min(4, os.cpu_count() or 1))))
MOST_FAILURES = 3
"""Receives the summary of each piece."""


@dataclass(slots=True)
class Summary:
    """Totals of schedules: events, faults by kind, other occurrences, and the text of each failure."""

    events: list[int] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Summary) -> None:
        """Adds the totals of another summary."""
        self.events += other.events
        self.faults += other.faults
        self.kinds += other.kinds
        self.features += other.features
        self.failures += other.failures

    def __str__(self) -> str:
        return (
            f"{len(self.events)} schedules, {len(self.failures)} failed; median {statistics.median(self.events):g} "
            f"events and {statistics.median(self.faults):g} faults a schedule; "
            f"faults {dict(sorted(self.kinds.items()))}; met {dict(sorted(self.features.items()))}"
        )


def run_piece(first: int, count: int) -> Summary:
    """Runs these seeds in this process."""
    whole = Summary()
    gc.set_threshold(50_000)  # a schedule leaves few cycles; the default takes a fifth of the time
    for seed in range(first, first + count):
        try:
            outcome = run_schedule(seed)
        except CheckFailed as error:
            whole.failures.append(str(error) if len(whole.failures) < MOST_FAILURES else f"seed {seed}: {error.check}")
            continue
        whole.events.append(outcome.events)
        whole.faults.append(sum(outcome.faults.values()))
        whole.kinds += outcome.faults
        whole.features += outcome.features
    return whole


def run_many(first: int, count: int) -> Summary:
    """Runs the seeds from `first` on, in PROCESSES processes: by default one per CPU, at most four."""
    whole = Summary()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, context) as pool:
        pieces = [
            pool.submit(run_piece, start, min(PIECE, first + count - start))
            for start in range(first, first + count, PIECE)
        ]
        for piece in pieces:
            whole.add(piece.result())
    return whole
