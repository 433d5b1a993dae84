"""The `penstock` command: its global options, the registration of the commands, and the handling of errors.

Each command has its own file, and imports its dependencies when it runs: `penstock --help` loads neither Arrow nor
numba nor gRPC.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from penstock.engine.cli.commands import config as config_command
from penstock.engine.cli.commands import (
    demo,
    doctor,
    flight,
    groups,
    offsets,
    read,
    serve,
    splits,
    state,
    streams,
    table,
    tables,
    tail,
    token,
    top,
)
from penstock.engine.cli.commands.sync.command import sync
from penstock.engine.cli.commands.table_services.archive import archive
from penstock.engine.cli.commands.table_services.clean import clean
from penstock.engine.cli.commands.table_services.clustering import cluster
from penstock.engine.cli.commands.table_services.compaction import compact
from penstock.engine.cli.commands.table_services.maintain import maintain
from penstock.engine.cli.commands.table_services.savepoint import restore, savepoint
from penstock.engine.cli.commands.table_services.work import services, work
from penstock.engine.cli.commands.write import writes
from penstock.engine.cli.commands.write.command import create, rollback, write
from penstock.engine.cli.errors import EXIT_USAGE, Failure, failure_of, rendered
from penstock.engine.cli.examples import epilog_of, with_examples
from penstock.engine.cli.output.terminal_text import one_line
from penstock.engine.cli.shell import LogFormat, Shell, show_help, start_logs
from penstock.proto.errors import ConfigurationError
from penstock.version import __version__

_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""typer's UsageError. Its module depends on the version of typer: click, or typer itself."""

app = typer.Typer(
    name="penstock",
    help="Consume Apache Hudi tables: row for row what Hudi returns.",
    epilog=epilog_of("", "Exit codes: 0 ok, 1 error, 2 usage, 3 data problem, 4 authentication, 75 try again."),
    pretty_exceptions_enable=False,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def settings(
    context: typer.Context,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="File with options and tables (TOML, docs/reference/cli.md); also PENSTOCK_CONFIG.",
            show_default=False,
        ),
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="Format of log lines and errors on stderr.")
    ] = LogFormat.TEXT,
    no_color: Annotated[
        bool, typer.Option("--no-color", help="No colour, as with NO_COLOR in the environment.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no warnings.")] = False,
    verbose: Annotated[int, typer.Option("--verbose", "-v", count=True, help="Log more; -vv also tracebacks.")] = 0,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Consume Apache Hudi tables: row for row what Hudi returns."""
    shell = context.obj
    shell.quiet, shell.verbosity, shell.log_format = quiet, verbose, log_format
    if no_color:
        os.environ["NO_COLOR"] = "1"
    shell.config = config or os.environ.get("PENSTOCK_CONFIG")
    start_logs(shell)
    show_help(context)
    if config and context.invoked_subcommand == "serve":
        raise ConfigurationError("--config before `serve` is the client's file: give the server's file after `serve`")


app.command("read")(read.read)
app.command("tail")(tail.tail)
app.command("timeline")(table.timeline)
app.add_typer(table.app, name="table")
app.add_typer(tables.app, name="tables")
app.add_typer(splits.app, name="splits")
app.add_typer(groups.app, name="groups")
app.add_typer(streams.app, name="streams")
app.add_typer(offsets.app, name="offsets")
app.command("serve")(serve.serve)
app.command("flight")(flight.flight)
app.add_typer(state.app, name="state")
app.add_typer(config_command.app, name="config")
app.add_typer(token.app, name="token")
app.command("top")(top.top)
app.command("sync")(sync)
app.command("create")(create)
app.command("write")(write)
app.add_typer(writes.app, name="writes")
app.command("rollback")(rollback)
app.command("savepoint")(savepoint)
app.command("restore")(restore)
app.command("maintain")(maintain)
app.command("compact")(compact)
app.command("cluster")(cluster)
app.command("clean")(clean)
app.command("archive")(archive)
app.command("work")(work)
app.add_typer(services, name="services")
app.command("doctor")(doctor.doctor)
app.command("demo")(demo.demo)
with_examples(app)


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code. Prints errors on stderr."""
    shell = Shell()
    _open_closed_streams()
    if "--no-color" in arguments:
        os.environ["NO_COLOR"] = "1"
    try:
        result = app(args=list(arguments), prog_name="penstock", standalone_mode=False, obj=shell)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except BrokenPipeError:
        return _stdout_closed()
    except _USAGE_ERROR as error:
        return _usage(error, shell)
    except typer.Abort:
        return _failed(KeyboardInterrupt(), shell)
    except BaseException as error:  # the outermost edge: one line, an exit code
        if isinstance(error, SystemExit):
            if isinstance(error.__context__, BrokenPipeError):  # typer exits by itself for these
                return _stdout_closed()
            raise
        return _failed(error, shell)


def main() -> None:
    """The entry point of the `penstock` script."""
    sys.exit(run(sys.argv[1:]))


def _open_closed_streams() -> None:
    """Opens /dev/null for a stream that was closed before Python started (`>&-`); Python sets such a stream to None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process


def _failed(error: BaseException, shell: Shell) -> int:
    failure = failure_of(error, with_traceback=shell.verbosity >= 2)
    sys.stderr.write(rendered(failure, shell.log_format.value))
    return failure.exit_code


def _usage(error: Exception, shell: Shell) -> int:
    context = getattr(error, "ctx", None)
    text = getattr(error, "format_message", error.__str__)()
    command = context.command_path if context is not None else "penstock"
    failure = Failure("USAGE", f"{one_line(str(text))} (see `{command} --help`)", EXIT_USAGE)
    sys.stderr.write(rendered(failure, shell.log_format.value))
    return EXIT_USAGE


def _stdout_closed() -> int:
    """Ends after the reader of stdout closed it, which is not an error. The flush at exit must not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
