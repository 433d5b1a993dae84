"""Runs command lines in this process and restores the state that a command changes."""

from __future__ import annotations

import pytest

from penstock.engine.cli.main import run
from tests.loopback_ports import free_port
from tests.unit.engine.cli.command_line import Cli, CommandResult


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Cli:
    """Runs `penstock` with these arguments. AssertionError: the output contains a traceback."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    def run_command(*arguments: object) -> CommandResult:
        capsysbinary.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        stderr = err.decode()
        assert "Traceback" not in stderr or "-vv" in arguments
        assert "This is a bug in Penstock" not in stderr, stderr
        return CommandResult(code, out, stderr)

    return run_command


@pytest.fixture
def unused_port() -> int:
    """A loopback port without a listener."""
    return free_port()
