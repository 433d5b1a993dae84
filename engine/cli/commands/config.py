"""`penstock config`: checks the configuration file of `penstock serve` and the client's file; starts nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.client_file import checked_client_file, read_toml
from penstock.engine.cli.errors import EXIT_USAGE, Failure, rendered
from penstock.engine.cli.output.rows import ReportFormat, write_json
from penstock.engine.cli.output.terminal_text import one_line
from penstock.engine.cli.shell import shell_of, show_help
from penstock.proto.errors import PenstockError

if TYPE_CHECKING:
    from penstock.enumerator.server.config.settings import Settings

app = typer.Typer(help="Configuration files, of `penstock serve` and of its clients.")


class Kind(StrEnum):
    """The program that a configuration file is for."""

    AUTO = "auto"
    SERVER = "server"
    CLIENT = "client"


@app.callback(invoke_without_command=True)
def config(context: typer.Context) -> None:
    """Configuration files, of `penstock serve` and of its clients."""
    show_help(context)


@app.command("check")
def check(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Configuration (TOML; docs/operations.md, docs/reference/cli.md).")
    ],
    kind: Annotated[
        Kind,
        typer.Option(
            "--kind", help="Program that the file is for; default: the one that its keys fit.", show_default=False
        ),
    ] = Kind.AUTO,
    form: Annotated[
        ReportFormat, typer.Option("--format", help="table: one line per problem on stderr; json: a report on stdout.")
    ] = ReportFormat.TABLE,
) -> None:
    """Check a configuration as `penstock serve --config FILE` or `penstock --config FILE …` would, with the
    environment, certificates, tokens and secrets. Opens no table. Prints nothing if the file is correct."""
    values = read_toml(file)
    problems_by_kind: dict[Kind, list[str]] = {}
    if kind is not Kind.CLIENT:
        problems_by_kind[Kind.SERVER] = server_problems(file)
    if kind is Kind.CLIENT or (kind is Kind.AUTO and values):
        problems_by_kind[Kind.CLIENT] = client_problems(file, values)
    likely = min(problems_by_kind, key=lambda kind: (_unknown(problems_by_kind[kind]), kind is not Kind.SERVER))
    problems = [one_line(line) for line in problems_by_kind[likely]]
    if form is ReportFormat.JSON:
        write_json({"file": file, "kind": likely.value, "problems": problems})
    for line in problems:
        sys.stderr.write(rendered(Failure("CONFIGURATION", line, EXIT_USAGE), shell_of(context).log_format.value))
    if problems:
        raise typer.Exit(EXIT_USAGE)


def server_problems(file: str) -> list[str]:
    """The problems that keep `penstock serve` from starting with the file, one line each."""
    from penstock.enumerator.server.config.load import settings_problems

    try:
        settings, problems = settings_problems(file, os.environ)
    except PenstockError as error:
        return [str(error)]
    return problems if settings is None else _external_problems(file, settings)


def client_problems(file: str, values: Mapping[str, object]) -> list[str]:
    """The problems of a client's file, one line each, with files that it names and that do not exist."""
    client_file, problems = checked_client_file(file, values)
    for name in (None, *client_file.tables):
        for option, (place, value) in client_file.options_of(name).items():
            named = (
                option in ("serverCa", "serverCert", "serverKey", "serverToken") and isinstance(value, str) and value
            )
            if named and value != "system" and not str(value).startswith("env:") and not Path(str(value)).is_file():
                problems.append(f"{place}: there is no file {str(value)[:300]!r}")
    return list(dict.fromkeys(problems))


def _external_problems(file: str, settings: Settings) -> list[str]:
    """Problems outside the file's text: certificates, tokens, secrets of topics."""
    import time

    from penstock.enumerator.server.assembly import adapter_of
    from penstock.enumerator.server.auth.tls import server_credentials
    from penstock.enumerator.server.auth.tokens import TokenFile
    from penstock.kafka.secrets import with_secrets

    checks: list[Callable[[], object]] = [lambda: server_credentials(settings.tls)]
    if settings.tokens:
        checks.append(lambda: TokenFile(settings.tokens, time.time))
    checks += [lambda catalog=catalog: adapter_of(catalog) for catalog in settings.catalog.values()]  # type: ignore[misc]
    checks += [lambda access=access: with_secrets(access) for access in settings.topics.values()]  # type: ignore[misc]
    problems = [] if settings.tables or settings.catalog else [f"{file}: tables: got none, expected at least one"]
    for check_part in checks:
        try:
            check_part()
        except PenstockError as error:
            problems.append(f"{file}: {error}")
    return problems


def _unknown(problems: list[str]) -> int:
    """The number of unknown keys among the problems."""
    return sum("unknown key" in line for line in problems)
