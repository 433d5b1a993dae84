"""The writer of a soak: the writer of the chaos tests with event times, and the windows of its rows.

The model depends only on Hudi's rows. `soak_driver` reads the table, `test_soak` compares.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final

from tests.interop.chaos_writer import COLUMNS, ChaosWriter

LATE_US: Final = 60_000_000
"""The maximum lateness of a row; the option maxOutOfOrderness is one second more."""
STEP_US: Final = 10_000_000
"""Event time from commit to commit."""
WINDOW_US: Final = 60_000_000
FIRST_US: Final = 1_767_225_600_000_000
"""2026-01-01 UTC."""

Window = tuple[int, tuple[int, ...]]
"""(begin of the window, the `n` of its rows in order)."""


class SoakWriter(ChaosWriter):
    """`event_us` has the event time of each row by its `n`; no two rows have the same."""

    columns = (*COLUMNS, ("et", "timestamp_micros(c4)"))

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.event_us: dict[int, int] = {}

    def close_windows(self) -> None:
        """Writes a last commit with one row whose event time closes every other window."""
        self._write("upsert", [["last", "x", 10 * self._written, 1000 * (self._written + 1)]], {})

    def write_one(self) -> None:
        """Writes the next commit, in the caller's thread."""
        self._one()

    def windows(self) -> Counter[Window]:
        """Every window with its rows: those of each commit, in Hudi's snapshot after it."""
        numbers: defaultdict[int, list[int]] = defaultdict(list)
        for commit in self.commits:
            for n, by in commit.rows.values():
                if by == commit.requested:
                    numbers[self.event_us[n] // WINDOW_US * WINDOW_US].append(n)
        return Counter((begin, tuple(sorted(rows))) for begin, rows in numbers.items())

    def _write(self, operation: str, rows: list[list[Any]], more: dict[str, str]) -> None:
        now_us = FIRST_US + self._written * STEP_US
        timed = []
        for row in rows:
            is_last = row[0] == "last"
            at_us = (
                now_us + 1000 * WINDOW_US if is_last else now_us - self._rng.choice((0, self._rng.randrange(LATE_US)))
            )
            self.event_us.setdefault(row[3], at_us)  # a delete has 0, the ordering value of a row of the first commit
            timed.append([*row, at_us])
        super()._write(operation, timed, more)
