"""`penstock config`: the file of `penstock serve`, and the client's file, checked without starting anything."""

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
    """Whose file it is."""

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
        Kind, typer.Option("--kind", help="Whose file it is; by what is in it, if not given.", show_default=False)
    ] = Kind.AUTO,
    form: Annotated[
        ReportFormat, typer.Option("--format", help="A line a problem on stderr; json: a report on stdout.")
    ] = ReportFormat.TABLE,
) -> None:
    """Check a configuration as `penstock serve --config FILE` or `penstock --config FILE …` would, with the
    environment, certificates, tokens and secrets; no table is opened. Silent if all is well."""
    values = read_toml(file)
    found: dict[Kind, list[str]] = {}
    if kind is not Kind.CLIENT:
        found[Kind.SERVER] = server_problems(file)
    if kind is Kind.CLIENT or (kind is Kind.AUTO and values):
        found[Kind.CLIENT] = client_problems(file, values)
    likely = min(found, key=lambda each: (_unknown(found[each]), each is not Kind.SERVER))
    problems = [one_line(line) for line in found[likely]]
    if form is ReportFormat.JSON:
        write_json({"file": file, "kind": likely.value, "problems": problems})
    for line in problems:
        sys.stderr.write(rendered(Failure("CONFIGURATION", line, EXIT_USAGE), shell_of(context).log_format.value))
    if problems:
        raise typer.Exit(EXIT_USAGE)


def server_problems(file: str) -> list[str]:
    """What keeps `penstock serve` from starting with the file, a line each."""
    from penstock.enumerator.server.config.load import settings_problems

    try:
        settings, problems = settings_problems(file, os.environ)
    except PenstockError as error:
        return [str(error)]
    return problems if settings is None else _beyond(file, settings)


def client_problems(file: str, values: Mapping[str, object]) -> list[str]:
    """What is wrong with a client's file, a line each; files that it names are looked for."""
    made, problems = checked_client_file(file, values)
    for name in (None, *made.tables):
        for option, (place, value) in made.options_of(name).items():
            named = (
                option in ("serverCa", "serverCert", "serverKey", "serverToken") and isinstance(value, str) and value
            )
            if named and value != "system" and not str(value).startswith("env:") and not Path(str(value)).is_file():
                problems.append(f"{place}: there is no file {str(value)[:300]!r}")
    return list(dict.fromkeys(problems))


def _beyond(file: str, settings: Settings) -> list[str]:
    """What the file's own text does not show: certificates, tokens, secrets of topics."""
    import time

    from penstock.enumerator.server.auth.tls import server_credentials
    from penstock.enumerator.server.auth.tokens import TokenFile
    from penstock.kafka.secrets import with_secrets

    checks: list[Callable[[], object]] = [lambda: server_credentials(settings.tls)]
    if settings.tokens:
        checks.append(lambda: TokenFile(settings.tokens, time.time))
    checks += [lambda access=access: with_secrets(access) for access in settings.topics.values()]  # type: ignore[misc]
    found = [] if settings.tables else [f"{file}: tables: got none, expected at least one"]
    for told in checks:
        try:
            told()
        except PenstockError as error:
            found.append(f"{file}: {error}")
    return found


def _unknown(problems: list[str]) -> int:
    """Keys that files of a kind do not have."""
    return sum("unknown key" in line for line in problems)
