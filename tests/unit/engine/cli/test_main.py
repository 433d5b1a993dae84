"""The `penstock` command: usage, settings, light start, exit."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import typer

from penstock.engine.cli import command_line, main
from penstock.engine.cli.shell import Shell, given_options, start_logs, working
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import OPTIONS, EntryPoint, Option
from penstock.version import __version__

if TYPE_CHECKING:
    from tests.unit.engine.cli.command_line import Cli

HEAVY = ("numba", "pyarrow", "grpc", "fastavro", "pyspark", "sqlglot", "numpy")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from penstock.engine.cli.main import run; run(['--help']); run(['read', '--help']);"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_importing_penstock_is_light_and_provides_read() -> None:
    code = f"import penstock, sys; print([name for name in {HEAVY!r} if name in sys.modules], 'read' in vars(penstock))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"


def test_help(cli: Cli) -> None:
    result = cli("--help")
    assert result.code == 0
    for command in ("read", "timeline", "table", "splits", "serve", "demo"):
        assert command in result.text
    assert "75 try again" in result.text


def test_version(cli: Cli) -> None:
    result = cli("--version")
    assert (result.code, result.text) == (0, f"penstock {__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reed"], "No such command 'reed'"),
        (["read"], "TABLE"),
        (["read", "t", "--nope"], "--nope"),
        (["read", "t", "--format", "csv"], "csv"),
        (["read", "t", "u"], "u"),
        (["table", "desc"], "TABLE"),
        (["token", "new"], "NAME"),
        (["--log-format", "xml", "demo"], "xml"),
        (["read", "t", "--limit"], "--limit"),
    ],
)
def test_usage_errors(cli: Cli, arguments: list[str], message: str) -> None:
    result = cli(*arguments)
    assert result.code == 2
    assert result.stdout == b""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error [USAGE]: ")
    assert message in line
    assert "--help" in line


@pytest.mark.parametrize("arguments", [[], ["table"], ["splits"]])
def test_no_command_shows_help(cli: Cli, arguments: list[str]) -> None:
    result = cli(*arguments)
    assert result.code == 2
    assert result.stdout == b""
    assert "Usage: " + " ".join(["penstock", *arguments, "[OPTIONS] COMMAND"]) in result.stderr
    assert "error [" not in result.stderr


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS if EntryPoint.CLI in option.entry_points], ids=lambda o: o.name
)
def test_every_option_of_the_command_line_has_its_flag(cli: Cli, option: Option) -> None:
    own = re.compile(rf"^\W*{option.flag} ", re.MULTILINE)
    assert own.search(cli("read", "--help").text)
    without = {
        "limit",
        "threads",
        "ordered",
        "server",
        "serverCa",
        "serverCert",
        "serverKey",
        "serverToken",
        "batchRows",
        "retryTimeout",
    }
    assert bool(own.search(cli("splits", "plan", "--help").text)) == (option.name not in without)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("arguments", "code"), [("--version", 0), ("timeline nowhere", 1)])
def test_closed_stdout_is_not_an_internal_error(closed: str, arguments: str, code: int) -> None:
    command = f"{shlex.quote(sys.executable)} -m penstock {arguments} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "BUG" not in done.stderr
    assert ("error [TABLE_NOT_FOUND]" in done.stderr) == (code == 1 and "2>" not in closed)


def test_errors_as_json(cli: Cli) -> None:
    result = cli("--log-format", "json", "read", "t", "--limit", "x")
    assert result.code == 2
    error = json.loads(result.stderr)
    assert (error["code"], error["exit_code"], error["level"]) == ("CONFIGURATION", 2, "error")
    assert "option --limit" in error["message"]


def failing(error: BaseException) -> None:
    raise error


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """`penstock timeline TABLE` raises the error class named TABLE."""
    app = typer.Typer()
    errors = {"interrupt": KeyboardInterrupt(), "pipe": BrokenPipeError(), "bug": ZeroDivisionError("0")}
    app.callback()(command_line.settings)
    app.command("timeline")(lambda table: failing(errors[table]))
    app.command("read")(lambda: None)
    monkeypatch.setattr(command_line, "command_line", lambda only: app)


@pytest.mark.usefixtures("fails")
class TestEndings:
    """Exit codes and output of `run` after errors of commands."""

    def test_interrupt(self, cli: Cli) -> None:
        assert cli("timeline", "interrupt").code == 130

    def test_closed_pipe_prints_nothing(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(main, "_stdout_closed", lambda: 0)
        result = cli("timeline", "pipe")
        assert (result.code, result.stderr) == (0, "")

    def test_internal_error_is_one_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main.run(["timeline", "bug"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error [BUG]: ZeroDivisionError: 0. This is a bug in Penstock: please report it")

    def test_internal_error_with_traceback(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main.run(["-vv", "timeline", "bug"]) == 1
        assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_closed_pipe_on_stdout_is_no_error(argument: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-c", "from penstock.engine.cli.main import main; main()", argument]
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_demo_runs_the_demo(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.engine.demo import main as demo_main

    monkeypatch.setattr(demo_main, "run", lambda: 1)
    assert cli("demo").code == 1
    monkeypatch.setattr(demo_main, "run", lambda: 0)
    assert cli("demo").code == 0


class TestShell:
    """Settings that all commands share."""

    def test_flags_and_options_are_combined(self) -> None:
        options = given_options(Shell(), {"query": "incremental", "after": None}, ["after=earliest", "batch-rows=7"])
        assert (options.query, options.after, options.batch_rows) == ("incremental", "earliest", 7)

    def test_values_may_hold_equals_signs(self) -> None:
        assert given_options(Shell(), {}, ["where=a = 1"]).where == "a = 1"

    @pytest.mark.parametrize("pair", ["x", "=1", ""])
    def test_bad_pairs(self, pair: str) -> None:
        with pytest.raises(ConfigurationError, match="KEY=VALUE"):
            given_options(Shell(), {}, [pair])

    def test_option_given_twice_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="given twice"):
            given_options(Shell(), {}, ["limit=1", "limit=2"])
        with pytest.raises(ConfigurationError, match=r"options --limit and limit both set limit: give one of them$"):
            given_options(Shell(), {"limit": "1"}, ["limit=2"])
        with pytest.raises(ConfigurationError, match=r"options --as-of and as\.of\.instant both .*, best --as-of$"):
            given_options(Shell(), {"asOf": "20260131"}, ["as.of.instant=2026-01-31"])

    def test_warnings_go_to_stderr(self, capsys: pytest.CaptureFixture[str]) -> None:
        given_options(Shell(), {}, ["hoodie.table.name=t"])
        assert capsys.readouterr().err == "warning: not used by Penstock's readers: hoodie.table.name\n"
        given_options(Shell(quiet=True), {}, ["hoodie.table.name=t"])
        assert capsys.readouterr().err == ""

    @pytest.mark.usefixtures("cli")
    def test_logs(self, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        log = logging.getLogger("penstock.engine")
        start_logs(Shell())
        log.info("hidden")
        start_logs(Shell(verbosity=1))
        log.info("sh\x1b[31mown\n", extra={"rows": 7, "_private": 1})
        start_logs(Shell(quiet=True))
        log.warning("hidden")
        (line,) = capsysbinary.readouterr().err.decode().splitlines()
        assert line.endswith("Z info penstock.engine: sh\\x1b[31mown\\n rows=7")

    @pytest.mark.usefixtures("cli")
    def test_json_logs(self, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        from penstock.engine.cli.shell import LogFormat

        start_logs(Shell(log_format=LogFormat.JSON), least=logging.INFO)
        try:
            raise ValueError("x")
        except ValueError:
            logging.getLogger("penstock.enumerator").exception("failed", extra={"table": "t"})
        record = json.loads(capsysbinary.readouterr().err)
        assert (record["level"], record["message"], record["table"]) == ("error", "failed", "t")
        assert "ValueError" in record["traceback"]


@pytest.mark.usefixtures("cli")
def test_long_work_prints_progress_only_on_a_terminal(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with working(Shell(), "planning") as say:
        say("more")
    assert capsysbinary.readouterr() == (b"", b"")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with working(Shell(), "planning"):
        pass
    out, err = capsysbinary.readouterr()
    assert (out, b"planning" in err) == (b"", True)
    with working(Shell(quiet=True), "planning"):
        pass
    assert capsysbinary.readouterr() == (b"", b"")


@pytest.mark.parametrize(("arguments", "hides"), [(["read", "missing"], True), (["timeline", "missing"], False)])
def test_read_keeps_pyarrow_from_pandas_and_the_process_does_not(
    tmp_path: pathlib.Path, arguments: list[str], hides: bool
) -> None:
    """Of a module that stands for pandas, so that the test does not depend on an installation of it."""
    (tmp_path / "pandas.py").write_text("raise SystemExit('pandas is imported')")
    program = (
        f"import sys; sys.argv = ['penstock', *{arguments!r}]\n"
        "from penstock.engine.cli import main\n"
        "main.run = lambda arguments: 0\n"
        "try:\n    main.main()\nexcept SystemExit:\n    pass\n"
        "import pyarrow as pa, importlib.util\n"
        "assert importlib.util.find_spec('pandas')\n"
        "pa.array([1])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ("pandas is imported" in done.stderr) is not hides, done.stderr
    assert (done.returncode == 0) is hides


@pytest.mark.parametrize("entry_point", ["main.main()", "main.run(['--version'])"])
def test_objects_of_modules_are_not_visited_when_the_command_exits(entry_point: str) -> None:
    """The control: within another process, a command line leaves the garbage collector as it is."""
    program = (
        "import gc, sys; sys.argv = ['penstock', '--version']\n"
        "from penstock.engine.cli import main\n"
        f"try:\n    {entry_point}\nexcept SystemExit as exit:\n    assert exit.code == 0\n"
        "print(gc.get_freeze_count() > 0)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(entry_point == "main.main()")
