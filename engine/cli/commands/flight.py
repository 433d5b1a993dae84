"""`penstock flight`: serves tables over Arrow Flight until SIGTERM or Ctrl-C."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.engine.cli.commands.serve import metrics_address, milliseconds, named_tables
from penstock.engine.cli.flags import with_registry_flags
from penstock.engine.cli.shell import shell_of, start_logs
from penstock.engine.cli.signals import ended_by_signal
from penstock.proto.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.engine.flight.settings import FlightSettings

_PLANNER = ("server", "serverCa", "serverCert", "serverKey", "serverToken")


_Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration of `penstock serve` (TOML): tables, listen, tls, tokens, acl, limits, graceMs, "
        "metricsListen.",
    ),
]
_Table = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="NAME=PATH",
        help="A table to serve under this name; may be repeated. With --server the enumerator has it under the same "
        "name, and PATH is where this process reads its files.",
    ),
]
_Listen = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Address to bind. Port 0: the system chooses. Other than loopback needs TLS. Default: 127.0.0.1:0.",
    ),
]
_Tokens = Annotated[
    str | None,
    typer.Option(
        "--tokens",
        metavar="FILE",
        help="File of tokens (`penstock token new`), without --config: each of them may read every table.",
    ),
]
_TlsCert = Annotated[
    str | None, typer.Option("--tls-cert", metavar="FILE", help="The server's certificate (PEM), without --config.")
]
_TlsKey = Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="The private key (PEM) of --tls-cert.")]
_Location = Annotated[
    list[str] | None,
    typer.Option(
        "--location",
        metavar="HOST:PORT",
        help="A data server from which clients may read; may be repeated. Default: the server that they asked.",
    ),
]
_TicketKey = Annotated[
    str | None,
    typer.Option(
        "--ticket-key",
        metavar="FILE",
        help="File with the keys that sign tickets, for data servers that read each other's tickets. Default: a new "
        "key.",
    ),
]
_TicketLifetime = Annotated[str, typer.Option("--ticket-lifetime", metavar="TIME", help="How long a ticket is valid.")]
_Streams = Annotated[
    int, typer.Option("--streams", metavar="N", help="Open streams at once; further ones fail with UNAVAILABLE.")
]
_Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics-listen", metavar="[HOST:]PORT", help="Address of the Prometheus metrics; default HOST: 127.0.0.1."
    ),
]
_Idle = Annotated[
    str, typer.Option("--idle", metavar="TIME", help="Close a stream whose client reads nothing for this time.")
]


@with_registry_flags(only=_PLANNER)
def flight(
    context: typer.Context,
    table: _Table = None,
    listen: _Listen = None,
    config: _Config = None,
    tls_cert: _TlsCert = None,
    tls_key: _TlsKey = None,
    tokens: _Tokens = None,
    location: _Location = None,
    ticket_key: _TicketKey = None,
    ticket_lifetime: _TicketLifetime = "1h",
    streams: _Streams = 64,
    idle: _Idle = "5m",
    metrics_listen: _Metrics = None,
    *,
    flags: dict[str, Any],
) -> None:
    """Serve tables over Arrow Flight. Prints the bound address as one line; the log goes to stderr."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC would write lines of its own to stderr; read at its import
    from penstock.engine.flight.settings import FlightSettings
    from penstock.enumerator.server.config.load import load_settings, misspelt_variables
    from penstock.enumerator.server.config.settings import AclRule, TlsSettings

    for text in misspelt_variables(os.environ):
        shell_of(context).warn(text)
    own: dict[str, object] = {
        "tables": named_tables(table) if table else None,
        "listen": listen,
        "metrics_listen": metrics_address(metrics_listen) if metrics_listen is not None else None,
    }
    if config and (tls_cert or tls_key or tokens):
        raise ConfigurationError("--tls-cert, --tls-key and --tokens are for a server without --config: set its keys")
    if tls_cert or tls_key:
        own["tls"] = TlsSettings(cert=tls_cert or "", key=tls_key or "")
    if tokens:
        own |= {"tokens": tokens, "acl": (AclRule(principal="*", rights=("read", "plan")),)}
    settings = FlightSettings(
        server=load_settings(config, os.environ, own),
        planner={name: value for name, value in flags.items() if value is not None},
        locations=tuple(location or ()),
        ticket_key=ticket_key or "",
        ticket_lifetime_ms=milliseconds("--ticket-lifetime", ticket_lifetime),
        streams=streams,
        idle_ms=milliseconds("--idle", idle),
    )
    start_logs(shell_of(context), least=logging.INFO)
    _serve(settings)


def _serve(settings: FlightSettings) -> None:
    try:
        from penstock.engine.flight.run import serve_flight
    except ImportError as error:
        raise ConfigurationError(
            f"`penstock flight` needs pyarrow with Flight, as its wheels and conda's `pyarrow` have it: {error}"
        ) from error
    ended = threading.Event()
    with ended_by_signal(ended.set):
        all_ended = serve_flight(settings, _announce, ended)
    if not all_ended:
        # Threads of gRPC wait for clients that read nothing; an ordinary exit would wait for these threads.
        logging.getLogger("penstock.engine.flight").warning("ended with calls in progress: their clients read nothing")
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)


def _announce(address: str) -> None:
    sys.stdout.write(address + "\n")
    sys.stdout.flush()
