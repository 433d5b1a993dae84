"""`penstock serve`: the enumerator behind gRPC, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from penstock.engine.cli.shell import shell_of, start_logs
from penstock.proto.errors import ConfigurationError


def serve(
    context: typer.Context,
    table: Annotated[
        list[str],
        typer.Option("--table", metavar="NAME=PATH", help="A table to serve, under this name; may be repeated."),
    ],
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Loopback address; port 0 lets the system choose.")
    ] = "127.0.0.1:0",
) -> None:
    """Serve tables to readers that pull splits. Prints the bound address, one line; the log goes to stderr."""
    tables = named_tables(table)
    start_logs(shell_of(context), least=logging.INFO)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC would write lines of its own to stderr; read at its import
    from penstock.enumerator.server.run import serve_forever

    serve_forever(tables, listen, _announce)


def named_tables(pairs: Sequence[str]) -> dict[str, str]:
    """The tables by name. ConfigurationError: not NAME=PATH, or a name given twice."""
    from penstock.table.storage import shown_uri

    tables: dict[str, str] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            got = f"{shown_uri(name)}{equals}{shown_uri(path)}"
            raise ConfigurationError(f"--table {got[:200]!r}: expected NAME=PATH")
        if name in tables:
            both = f"{shown_uri(tables[name])} and {shown_uri(path)}"
            raise ConfigurationError(f"--table {shown_uri(name)}: given twice, with {both}")
        tables[name] = path
    return tables


def _announce(address: str) -> None:
    sys.stdout.write(address + "\n")
    sys.stdout.flush()
