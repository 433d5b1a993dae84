"""`penstock token`: tokens for the readers of `penstock serve`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from penstock.engine.cli.output.rows import ReportFormat, write_json
from penstock.engine.cli.shell import show_help

app = typer.Typer(help="Tokens for the readers of `penstock serve`.")


@app.callback(invoke_without_command=True)
def token(context: typer.Context) -> None:
    """Tokens for the readers of `penstock serve`."""
    show_help(context)


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who will hold it: the principal is token:NAME.")],
    expires: Annotated[
        str, typer.Option("--expires", metavar="DATE", help="ISO date or time (UTC) from which it is refused.")
    ] = "",
    form: Annotated[ReportFormat, typer.Option("--format", help="Two lines, or a JSON object.")] = ReportFormat.TABLE,
) -> None:
    """Make a token. Prints two lines: the token, shown this once, and its line for the server's file of tokens."""
    from penstock.enumerator.server.auth.tokens import new_token

    made, line = new_token(name, expires)
    if form is ReportFormat.JSON:
        write_json({"token": made, "line": line})
    else:
        sys.stdout.write(f"{made}\n{line}\n")
