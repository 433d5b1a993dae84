"""Runs a Flight server as the whole work of a process, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from penstock.engine.flight.callers import Gate
from penstock.engine.flight.metrics import FlightMetrics
from penstock.engine.flight.server import FlightServer
from penstock.engine.flight.settings import FlightSettings
from penstock.engine.flight.streams import OpenStreams
from penstock.engine.flight.tables import FlightTables
from penstock.engine.flight.ticket_keys import keys_of_file, random_keys
from penstock.enumerator.server.auth.acl import Rights
from penstock.enumerator.server.auth.callers import CallerNames
from penstock.enumerator.server.auth.tls import pem_files
from penstock.enumerator.server.auth.tokens import TokenFile, TokenRefresh
from penstock.enumerator.server.config.settings import Settings
from penstock.enumerator.server.metrics.prometheus import MetricsPort
from penstock.proto.model.access import is_loopback

POLL_S: Final = 0.25
"""The interval of checks for idle streams and for signals."""
CLOSE_S: Final = 2.0
"""How long the calls of closed streams may take to end."""

log = logging.getLogger("penstock.engine.flight")


class RunningFlightServer:
    """A server that accepts calls at `address` until it is stopped."""

    def __init__(self, server: FlightServer, streams: OpenStreams, tables: FlightTables) -> None:
        self.server, self.streams, self.tables = server, streams, tables
        self.address = server.address

    def stop(self, grace_s: float) -> bool:
        """Refuses new streams, closes those that are open after `grace_s` seconds, and waits for the calls in progress.

        False: a call is still in progress, because its client neither reads nor goes. Only the end of the process ends
        such a call."""
        self.streams.refuse()
        ended = threading.Thread(target=self.server.shutdown, name="penstock-flight-shutdown", daemon=True)
        ended.start()
        ended.join(grace_s)
        self.streams.close_all(CLOSE_S)
        ended.join(CLOSE_S)
        return not ended.is_alive()


@contextmanager
def running_flight_server(settings: FlightSettings) -> Iterator[RunningFlightServer]:
    """A server of these settings, which the caller stops. ConfigurationError for files that cannot be used, and for an
    address that is in use."""
    server = settings.server
    pem = pem_files(server.tls)
    keys = keys_of_file(settings.ticket_key) if settings.ticket_key else random_keys()
    tokens = TokenFile(server.tokens, time.time, grace_s=server.tokens_grace_ms / 1000) if server.tokens else None
    names = CallerNames(tokens, certificates=bool(server.tls.client_ca), allowed_sans=server.tls.allowed_sans)
    _warn(server)
    tables = FlightTables({name: table.path for name, table in server.tables.items()}, settings.planner)
    streams = OpenStreams(settings.streams, server.limits.calls, settings.idle_ms / 1000, time.monotonic)
    gate = Gate(names, Rights(server.acl))
    metrics = FlightMetrics(streams) if server.metrics_listen else None
    with _metrics_port(metrics, server.metrics_listen):
        flight_server = FlightServer(settings, tables, gate, keys, streams, pem, metrics)
        refresh = TokenRefresh(tokens) if tokens is not None else None
        try:
            yield RunningFlightServer(flight_server, streams, tables)
        finally:
            if refresh is not None:
                refresh.stop()


@contextmanager
def _metrics_port(metrics: FlightMetrics | None, listen: str) -> Iterator[None]:
    """Serves the metrics in the block. ConfigurationError: the address is in use."""
    if metrics is None:
        yield
        return
    port = MetricsPort(metrics, listen)
    log.info("metrics at http://%s/metrics", port.address)
    try:
        yield
    finally:
        port.close()


def serve_flight(settings: FlightSettings, ready: Callable[[str], None], ended: threading.Event) -> bool:
    """Serves until `ended` is set, then stops gracefully. `ready` is called with the bound address.

    Returns whether every call ended. If not, the process must end without waiting for its threads."""
    with running_flight_server(settings) as running:
        ready(running.address)
        while not ended.wait(POLL_S):
            running.streams.close_idle()
        return running.stop(settings.server.grace_ms / 1000)


def _warn(server: Settings) -> None:
    if server.metrics_listen and not is_loopback(server.metrics_listen):
        log.warning("metrics at %s: without TLS and tokens they show names of tables", server.metrics_listen)
    if is_loopback(server.listen):
        return
    if not server.tls.cert:
        log.warning("listening at %s without TLS: tokens and rows travel unencrypted", server.listen)
    if not server.authenticates:
        log.warning("listening at %s without tokens and client certificates: anybody may read", server.listen)
