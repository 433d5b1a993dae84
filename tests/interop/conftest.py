"""Reports the coverage of the suite's histories at the end of a run."""

from __future__ import annotations

import pytest

from tests.interop.checked_histories import CHECKED_HISTORIES, lines
from tests.interop.mixed import histories as mixed


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the coverage of the run's histories."""
    for line in (*lines(config.stash.get(CHECKED_HISTORIES, [])), *mixed.lines(config.stash.get(mixed.CHECKED, []))):
        terminalreporter.write_line(line)
