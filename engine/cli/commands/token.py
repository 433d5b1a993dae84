"""`penstock token`: creates tokens for the readers of `penstock serve`."""

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
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the holder; the principal is token:NAME.")],
    expires: Annotated[
        str, typer.Option("--expires", metavar="DATE", help="ISO date or time (UTC) at which the token expires.")
    ] = "",
    form: Annotated[
        ReportFormat, typer.Option("--format", help="table: two lines; json: an object.")
    ] = ReportFormat.TABLE,
) -> None:
    """Create a token. Prints two lines: the token, shown only once, and its line for the server's token file."""
    from penstock.enumerator.server.auth.tokens import new_token

    token_text, line = new_token(name, expires)
    if form is ReportFormat.JSON:
        write_json({"token": token_text, "line": line})
    else:
        sys.stdout.write(f"{token_text}\n{line}\n")
