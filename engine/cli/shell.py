"""The settings that every command shares: verbosity, colour, logs on stderr, flags for the options of the registry."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import typer

from penstock.engine.cli.client_file import NO_FILE, ClientFile, load_client_file
from penstock.engine.cli.errors import EXIT_USAGE
from penstock.engine.cli.output.log_format import JsonLines, TextLines
from penstock.engine.cli.output.terminal_text import printable
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import EntryPoint, Option, ParsedOptions, option_named, parse_options
from penstock.proto.options.types import Choice, OnOff, TrueFalse


class LogFormat(StrEnum):
    """Formats of log lines and errors on stderr."""

    TEXT = "text"
    JSON = "json"


@dataclass(slots=True)
class Shell:
    """The global options of one run. They have their defaults until the first callback sets them."""

    quiet: bool = False
    """Whether progress and warnings are suppressed."""
    verbosity: int = 0
    """The number of `-v`."""
    log_format: LogFormat = LogFormat.TEXT
    """The format of log lines and errors."""
    config: str | None = None
    """The path from `--config` or PENSTOCK_CONFIG."""
    _file: ClientFile | None = field(default=None, repr=False)

    @property
    def file(self) -> ClientFile:
        """The client's file, read on first use. ConfigurationError: it has a problem."""
        if self._file is None:
            self._file = load_client_file(self.config) if self.config else NO_FILE
        return self._file

    def warn(self, text: str) -> None:
        """Prints a warning on stderr, unless quiet."""
        if not self.quiet:
            if self.log_format is LogFormat.JSON:
                sys.stderr.write(json.dumps({"level": "warning", "message": text}) + "\n")
            else:
                sys.stderr.write(f"warning: {printable(text)}\n")

    def note(self, text: str, **fields: str) -> None:
        """Prints a line on stderr, unless quiet; with JSON logs the fields."""
        if not self.quiet:
            if self.log_format is LogFormat.JSON:
                sys.stderr.write(json.dumps({"level": "info", "message": text, **fields}) + "\n")
            else:
                sys.stderr.write(f"{printable(text)}\n")

    @property
    def shows_progress(self) -> bool:
        """Whether stderr may show progress: a terminal, text logs, not quiet."""
        return not self.quiet and self.log_format is LogFormat.TEXT and sys.stderr.isatty()


@contextmanager
def working(shell: Shell, what: str) -> Iterator[Callable[[str], None]]:
    """Shows a spinner with the text `what` on a terminal while the block runs. Yields a function that sets the text."""
    if not shell.shows_progress:
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status(printable(what)) as status:
        yield lambda text: status.update(printable(text))


def shell_of(context: typer.Context) -> Shell:
    """The settings of the running command."""
    shell = context.find_root().obj
    return shell if isinstance(shell, Shell) else Shell()


def registry_flag(name: str, **settings: Any) -> Any:
    """A typer option for the option of this name, with its flag and its documentation. The value is text."""
    option = _registered(name)
    completions = _completions_of(option)
    if completions:
        settings["autocompletion"] = lambda incomplete: [
            completion for completion in completions if completion.startswith(incomplete)
        ]
    return typer.Option(option.flag, help=option.doc, show_default=False, **settings)


def _completions_of(option: Option) -> tuple[str, ...]:
    """The values of the option that a shell may complete."""
    match option.type:
        case Choice(values=values):
            return values
        case OnOff():
            return ("on", "off")
        case TrueFalse():
            return ("true", "false")
        case _:
            return ()


def show_help(context: typer.Context) -> None:
    """For a command with subcommands: if none was given, prints the help on stderr and exits with code 2."""
    if context.invoked_subcommand is None:
        with redirect_stdout(sys.stderr):  # typer prints its help itself, and returns what it did not print
            typer.echo(context.get_help())
        raise typer.Exit(EXIT_USAGE)


def local_options(
    shell: Shell, flags: Mapping[str, str | None], extra: Sequence[str] = (), table: str | None = None
) -> tuple[str, ParsedOptions]:
    """The path of the table and the options of a command that uses no server, as `given_options` returns them.

    The client's file may map the name of the table to a path. The option `server` is an error, PENSTOCK_SERVER a
    warning."""
    name = _registered("server").environment_name
    environment = {key: value for key, value in os.environ.items() if key != name}
    named = shell.file.tables.get(table or "")
    if named is not None and "server" in named.options and not named.path:
        raise ConfigurationError(
            f"{shell.file.file}: table {table} belongs to a server, but this command reads the table itself: give its "
            "path or URI"
        )
    options = given_options(shell, flags, extra, environment, table=table, asks_server=False)
    if options.server is not None:
        raise ConfigurationError(
            f"option server: got {options.server}, but this command reads the table itself: leave server out, and give "
            "the table's path or URI"
        )
    if os.environ.get(name):
        shell.warn(f"environment variable {name} is not used: this command reads the table itself")
    return shell.file.path_of(table or "", None), options


def given_options(
    shell: Shell,
    flags: Mapping[str, str | None],
    extra: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    entry_point: EntryPoint = EntryPoint.CLI,
    table: str | None = None,
    *,
    asks_server: bool = True,
) -> ParsedOptions:
    """The parsed options, by precedence: `flags` (by option name) and `extra` (`--option KEY=VALUE`), environment,
    the client's file for the table. Without `asks_server` the file's connection options do not count.
    Prints warnings."""
    values: dict[str, object] = {_registered(name).flag: value for name, value in flags.items()}
    for pair in extra:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigurationError(f"--option {pair[:80]!r}: expected KEY=VALUE")
        if key in values:
            raise ConfigurationError(f"--option {key} is given twice")
        values[key] = value
    parsed = parse_options(
        values,
        entry_point=entry_point,
        environment=os.environ if environment is None else environment,
        file=shell.file.options_of(table, asks_server=asks_server),
    )
    for text in parsed.warnings:
        shell.warn(text)
    return parsed


def _registered(name: str) -> Option:
    option = option_named(name)
    if option is None:
        raise AssertionError(f"no option {name}")
    return option


def start_logs(shell: Shell, *, least: int = logging.WARNING) -> None:
    """Starts logging to stderr: from `least` on, with -v also INFO, with -vv also DEBUG, with -q only errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if shell.log_format is LogFormat.JSON else TextLines())
    level = min(least, {0: least, 1: logging.INFO}.get(shell.verbosity, logging.DEBUG))
    logger = logging.getLogger("penstock")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.ERROR if shell.quiet else level)
