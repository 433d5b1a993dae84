"""Real Hudi for the suite: one process of the newest release for the session."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest

sys.path.append(str(pathlib.Path(__file__).parent))

from hudi_process import NEWEST, Hudi, running
from judged import JUDGED, lines


@pytest.fixture(scope="session")
def hudi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hudi]:
    """The newest release, for the session: it says what the rows are."""
    with running(NEWEST, tmp_path_factory.mktemp("hudi")) as peer:
        yield peer


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What the histories of the run amount to."""
    for line in lines(config.stash.get(JUDGED, [])):
        terminalreporter.write_line(line)
