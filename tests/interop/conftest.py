"""The suite's modules on the path, and what its histories amount to."""

from __future__ import annotations

import pytest

from tests.interop.judged import JUDGED, lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What the histories of the run amount to."""
    for line in lines(config.stash.get(JUDGED, [])):
        terminalreporter.write_line(line)
