"""`penstock serve`: runs the enumerator as a gRPC service until SIGTERM or Ctrl-C."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.shell import shell_of, start_logs
from penstock.proto.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.enumerator.server.config.settings import Settings

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


def serve(
    context: typer.Context,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="NAME=PATH", help="A table to serve under this name; may be repeated."),
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="Configuration (TOML, docs/operations.md).")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Address to bind. Port 0: the system chooses. Other than loopback needs TLS. Default: 127.0.0.1:0.",
        ),
    ] = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="DIR", help="Directory for the state of groups; default: memory.")
    ] = None,
    takeover: Annotated[
        bool, typer.Option("--takeover", help="Take over the state from a server that still holds it.")
    ] = False,
    metrics_listen: Annotated[
        str | None,
        typer.Option(
            "--metrics-listen",
            metavar="[HOST:]PORT",
            help="Address of the Prometheus metrics; default HOST: 127.0.0.1.",
        ),
    ] = None,
    poll_interval: Annotated[
        str | None,
        typer.Option("--poll-interval", metavar="TIME", help="Interval between probes of a table, such as 5s."),
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option(
            "--lease",
            metavar="TIME",
            help="Time without a heartbeat after which a reader loses its splits, such as 30s.",
        ),
    ] = None,
) -> None:
    """Serve tables to readers that request splits. Prints the bound address as one line; the log goes to stderr."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC would write lines of its own to stderr; read at its import
    from penstock.enumerator.server.config.load import load_settings, misspelt_variables

    for text in misspelt_variables(os.environ):
        shell_of(context).warn(text)
    flags: dict[str, object] = {
        "tables": named_tables(table) if table else None,
        "listen": listen,
        "state": state,
        "takeover": True if takeover else None,
        "metrics_listen": metrics_address(metrics_listen) if metrics_listen is not None else None,
        "poll_interval_ms": milliseconds("--poll-interval", poll_interval) if poll_interval is not None else None,
        "lease_ms": milliseconds("--lease", lease) if lease is not None else None,
    }
    settings = load_settings(config, os.environ, flags)
    start_logs(shell_of(context), least=logging.INFO)
    run(settings)


def run(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT."""
    from penstock.engine.event_time_scan import scan_event_time
    from penstock.engine.table_services.work.due import due_services
    from penstock.engine.write.service.served_timeline import ServedTimeline
    from penstock.enumerator.server.assembly import TableFunctions
    from penstock.enumerator.server.run import serve_forever

    functions = TableFunctions(scan_event_time=scan_event_time, timelines=ServedTimeline, due_services=due_services)

    serve_forever({}, settings.listen, _announce, settings=settings, functions=functions)


def milliseconds(flag: str, text: str) -> int:
    """A time such as `500ms`, `5s`, `1m`, `2h`; a bare number is seconds. ConfigurationError for anything else."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)?", text.strip())
    if match is None:
        raise ConfigurationError(f"{flag} {text[:40]!r}: expected a time such as 500ms, 5s or 1m")
    return round(float(match[1]) * _UNITS_MS[match[2] or "s"])


def metrics_address(text: str) -> str:
    """HOST:PORT; a port alone is on loopback."""
    return f"127.0.0.1:{text.lstrip(':')}" if re.fullmatch(r":?\d{1,5}", text) else text


def named_tables(pairs: Sequence[str]) -> dict[str, str]:
    """The tables by name. ConfigurationError: a pair is not NAME=PATH, or a name is given twice."""
    from penstock.table.storage.uris import redacted_uri

    tables: dict[str, str] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            got = f"{redacted_uri(name)}{equals}{redacted_uri(path)}"
            raise ConfigurationError(f"--table {got[:200]!r}: expected NAME=PATH")
        if name in tables:
            both = f"{redacted_uri(tables[name])} and {redacted_uri(path)}"
            raise ConfigurationError(f"--table {redacted_uri(name)}: given twice, with {both}")
        tables[name] = path
    return tables


def _announce(address: str) -> None:
    sys.stdout.write(address + "\n")
    sys.stdout.flush()
