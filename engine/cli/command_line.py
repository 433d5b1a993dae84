"""The commands of `penstock` and its global options.

Each command has its own file, which is imported for this command alone, and imports its dependencies when it runs:
`penstock --help` loads neither Arrow nor numba nor gRPC.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from penstock.engine.cli.errors import EXIT_USAGE, Failure, failure_of, rendered
from penstock.engine.cli.examples import epilog_of, with_examples
from penstock.engine.cli.output.terminal_text import one_line
from penstock.engine.cli.shell import LogFormat, Shell, show_help, start_logs
from penstock.proto.errors import ConfigurationError
from penstock.version import __version__

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "read": ("read", "read"),
    "tail": ("tail", "tail"),
    "timeline": ("table", "timeline"),
    "table": ("table", "app"),
    "tables": ("tables", "app"),
    "splits": ("splits", "app"),
    "groups": ("groups", "app"),
    "streams": ("streams", "app"),
    "offsets": ("offsets", "app"),
    "serve": ("serve", "serve"),
    "flight": ("flight", "flight"),
    "state": ("state", "app"),
    "config": ("config", "app"),
    "token": ("token", "app"),
    "top": ("top", "top"),
    "sync": ("sync.command", "sync"),
    "create": ("write.command", "create"),
    "write": ("write.command", "write"),
    "writes": ("write.writes", "app"),
    "rollback": ("write.command", "rollback"),
    "savepoint": ("table_services.savepoint", "savepoint"),
    "restore": ("table_services.savepoint", "restore"),
    "maintain": ("table_services.maintain", "maintain"),
    "compact": ("table_services.compaction", "compact"),
    "cluster": ("table_services.clustering", "cluster"),
    "clean": ("table_services.clean", "clean"),
    "archive": ("table_services.archive", "archive"),
    "work": ("table_services.work", "work"),
    "services": ("table_services.work", "services"),
    "doctor": ("doctor", "doctor"),
    "demo": ("demo", "demo"),
}
"""Command -> (its module in `commands`, its name there), in the order of the help."""
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""typer's UsageError. Its module depends on the version of typer: click, or typer itself."""
_VALUED_OPTIONS: Final = ("--config", "--log-format")


def command_of(arguments: Sequence[str]) -> str | None:
    """The command that the arguments name; None: none, or a name that is no command."""
    rest = iter(arguments)
    for argument in rest:
        if argument == "--help":
            return None
        if argument in _VALUED_OPTIONS:
            next(rest, None)
        elif not argument.startswith("-"):
            return argument if argument in COMMANDS else None
    return None


def command_line(only: str | None = None) -> typer.Typer:
    """The command line, with all commands or with one of them."""
    app = typer.Typer(
        name="penstock",
        help="Consume Apache Hudi tables: row for row what Hudi returns.",
        epilog=epilog_of("", "Exit codes: 0 ok, 1 error, 2 usage, 3 data problem, 4 authentication, 75 try again."),
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(settings)
    for name, (module, attribute) in COMMANDS.items():
        if only in (None, name):
            command: Any = getattr(import_module(f"penstock.engine.cli.commands.{module}"), attribute)
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name)
            else:
                app.command(name)(command)
    with_examples(app)
    return app


def _version(value: bool) -> None:
    if value:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


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


def run_command(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code. Prints errors on stderr. BrokenPipeError: stdout is closed."""
    shell = Shell()
    if "--no-color" in arguments:
        os.environ["NO_COLOR"] = "1"
    try:
        app = command_line(command_of(arguments))
        result = app(args=list(arguments), prog_name="penstock", standalone_mode=False, obj=shell)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except BrokenPipeError:
        raise
    except _USAGE_ERROR as error:
        return _usage(error, shell)
    except typer.Abort:
        return _failed(KeyboardInterrupt(), shell)
    except BaseException as error:  # the outermost edge: one line, an exit code
        if isinstance(error, SystemExit):
            if isinstance(error.__context__, BrokenPipeError):  # typer exits by itself for these
                raise error.__context__ from None
            raise
        return _failed(error, shell)


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
