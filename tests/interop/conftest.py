"""The suite's modules on the path, and what its histories amount to."""

from __future__ import annotations

import pytest

from tests.interop.checked_histories import CHECKED_HISTORIES, lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What the histories of the run amount to."""
    for line in lines(config.stash.get(CHECKED_HISTORIES, [])):
        terminalreporter.write_line(line)
