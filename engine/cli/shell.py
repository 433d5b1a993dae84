"""What every command shares: verbosity, colour, logs on stderr, flags made from the registry of options.

Belongs here: the command line's own settings. Not here: data on stdout (`output`), errors (`errors`).
"""

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
    """Forms of log lines and errors on stderr."""

    TEXT = "text"
    JSON = "json"


@dataclass(slots=True)
class Shell:
    """The settings given before the command; made by the first callback, defaults until then."""

    quiet: bool = False
    verbosity: int = 0
    log_format: LogFormat = LogFormat.TEXT
    config: str | None = None
    """What `--config` or PENSTOCK_CONFIG named."""
    _file: ClientFile | None = field(default=None, repr=False)

    @property
    def file(self) -> ClientFile:
        """The client's file, read when it is first asked for. ConfigurationError: it has a problem."""
        if self._file is None:
            self._file = load_client_file(self.config) if self.config else NO_FILE
        return self._file

    def warn(self, text: str) -> None:
        """A warning on stderr, unless quiet."""
        if not self.quiet:
            if self.log_format is LogFormat.JSON:
                sys.stderr.write(json.dumps({"level": "warning", "message": text}) + "\n")
            else:
                sys.stderr.write(f"warning: {printable(text)}\n")

    @property
    def shows_progress(self) -> bool:
        """Whether a bar on stderr disturbs nobody."""
        return not self.quiet and self.log_format is LogFormat.TEXT and sys.stderr.isatty()


@contextmanager
def working(shell: Shell, what: str) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr, if that is a terminal, saying `what` goes on; what is called with another text says that."""
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
    """A typer option for the option of this name: its flag, its documentation. The value stays text until parsed."""
    option = _registered(name)
    words = _words_of(option)
    if words:
        settings["autocompletion"] = lambda incomplete: [word for word in words if word.startswith(incomplete)]
    return typer.Option(option.flag, help=option.doc, show_default=False, **settings)


def _words_of(option: Option) -> tuple[str, ...]:
    """What a shell may complete the option's value to."""
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
    """For the callback of a command that has commands: its help on stderr and the end, if none of them was named."""
    if context.invoked_subcommand is None:
        with redirect_stdout(sys.stderr):  # typer prints its help itself, and returns what it did not print
            typer.echo(context.get_help())
        raise typer.Exit(EXIT_USAGE)


def local_options(
    shell: Shell, flags: Mapping[str, str | None], extra: Sequence[str] = (), table: str | None = None
) -> tuple[str, ParsedOptions]:
    """As `given_options`, for a command that asks no server: `server` is an error, PENSTOCK_SERVER a warning. Also the
    table's path: the client's file may know it by the name that was given."""
    name = _registered("server").environment_name
    environment = {key: value for key, value in os.environ.items() if key != name}
    named = shell.file.tables.get(table or "")
    if named is not None and "server" in named.options and not named.path:
        raise ConfigurationError(
            f"{shell.file.file}: table {table} is asked of a server, but this command looks at the table itself: give "
            "its path or URI"
        )
    options = given_options(shell, flags, extra, environment, table=table, asks_server=False)
    if options.server is not None:
        raise ConfigurationError(
            f"option server: got {options.server}, but this command looks at the table itself: leave server out, and "
            "give the table's path or URI"
        )
    if os.environ.get(name):
        shell.warn(f"environment variable {name} is not used: this command looks at the table itself")
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
    """The options that flags (by option name) and `--option KEY=VALUE` gave, then the environment's, then those of the
    client's file for the table (without `asks_server` but those that say how a server is reached); warnings shown."""
    given: dict[str, object] = {_registered(name).flag: value for name, value in flags.items()}
    for pair in extra:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigurationError(f"--option {pair[:80]!r}: expected KEY=VALUE")
        if key in given:
            raise ConfigurationError(f"--option {key} is given twice")
        given[key] = value
    parsed = parse_options(
        given,
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
    """Log lines to stderr: from `least` on, more with -v (INFO) and -vv (DEBUG), errors alone with -q."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if shell.log_format is LogFormat.JSON else TextLines())
    level = min(least, {0: least, 1: logging.INFO}.get(shell.verbosity, logging.DEBUG))
    logger = logging.getLogger("penstock")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.ERROR if shell.quiet else level)
