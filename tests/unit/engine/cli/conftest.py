"""Runs command lines in this process, and puts back what a command changes in it."""

from __future__ import annotations

import pytest

from penstock.engine.cli.main import run
from tests.loopback_ports import free_port
from tests.unit.engine.cli.command_line import Cli, Ended


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Cli:
    """Runs `penstock` with these arguments; no traceback may ever show."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    def ended(*arguments: object) -> Ended:
        capsysbinary.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        stderr = err.decode()
        assert "Traceback" not in stderr or "-vv" in arguments
        assert "This is a bug in Penstock" not in stderr, stderr
        return Ended(code, out, stderr)

    return ended


@pytest.fixture
def unused_port() -> int:
    """A loopback port where nobody listens."""
    return free_port()
