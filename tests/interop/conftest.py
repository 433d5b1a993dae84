"""The process of an older Hudi, and the coverage of the suite's histories at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.checked_histories import CHECKED_HISTORIES, lines
from tests.interop.hudi_process import OLD, running
from tests.interop.mixed import histories as mixed


@pytest.fixture(scope="session")
def old_hudi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A process of Hudi 0.15.0 for the run, whose tables have version 6."""
    with running(OLD, tmp_path_factory.mktemp("old-hudi")) as peer:
        yield peer


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the coverage of the run's histories."""
    for line in (*lines(config.stash.get(CHECKED_HISTORIES, [])), *mixed.lines(config.stash.get(mixed.CHECKED, []))):
        terminalreporter.write_line(line)
