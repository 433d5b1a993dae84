"""Reports the coverage of the suite's histories at the end of a run."""

from __future__ import annotations

import pytest

from tests.interop.checked_histories import CHECKED_HISTORIES, lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the coverage of the run's histories."""
    for line in lines(config.stash.get(CHECKED_HISTORIES, [])):
        terminalreporter.write_line(line)
