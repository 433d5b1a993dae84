"""The calls of a Flight server: `FlightServer` answers them with tables, tickets and streams."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from penstock.engine.flight.answers import AnswerMemory
from penstock.engine.flight.callers import HEADERS, Caller, Gate, KeepHeaders
from penstock.engine.flight.descriptor import FlightRequest, request_of_command, request_of_path
from penstock.engine.flight.errors import CallNotServed, with_flight_errors
from penstock.engine.flight.metrics import COUNTED, CountCalls, FlightMetrics
from penstock.engine.flight.settings import FlightSettings
from penstock.engine.flight.streams import OpenStreams, Stream
from penstock.engine.flight.tables import FlightTables, schema_of
from penstock.engine.flight.ticket import Ticket, ticket_of, tickets_of
from penstock.engine.flight.ticket_keys import TicketKeys
from penstock.enumerator.server.auth.tls import PemFiles
from penstock.enumerator.server.rpc.interceptor import peer_host
from penstock.enumerator.server.rpc.rate_limit import PeerRates
from penstock.proto.errors import ConfigurationError, PenstockError, code_and_text
from penstock.proto.logging import log_event_to

log = logging.getLogger("penstock.engine.flight")


class FlightServer(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Lists tables, plans flights and streams their splits. It accepts calls as soon as it exists, until `shutdown`."""

    def __init__(
        self,
        settings: FlightSettings,
        tables: FlightTables,
        gate: Gate,
        keys: TicketKeys,
        streams: OpenStreams,
        pem: PemFiles | None,
        metrics: FlightMetrics | None = None,
    ) -> None:
        """ConfigurationError: the address is in use, or certificate and key do not belong together."""
        self._settings, self._tables, self._gate = settings, tables, gate
        self._keys, self._streams, self._metrics = keys, streams, metrics
        self.answers = AnswerMemory()
        """The memory of the answers in progress."""
        limits = settings.server.limits
        self._rates = PeerRates(limits.rate_per_second, limits.rate_burst, time.monotonic)
        listen = settings.server.listen
        security: dict[str, Any] = {}
        if pem is not None:
            security["tls_certificates"] = [(pem.cert, pem.key)]
            if pem.client_ca is not None:
                security |= {"verify_client": True, "root_certificates": pem.client_ca}
        middleware: dict[str, Any] = {HEADERS: KeepHeaders()}
        if metrics is not None:
            middleware[COUNTED] = CountCalls(metrics)
        try:
            super().__init__(f"{settings.scheme}://{listen}", middleware=middleware, **security)
        except (pa.ArrowException, OSError) as error:
            raise ConfigurationError(
                f"cannot listen at {listen}: is the port taken by another process"
                + ("?" if pem is None else ", or do tls.cert and tls.key not belong together?")
            ) from error

    @property
    def address(self) -> str:
        """The bound address, HOST:PORT."""
        return f"{self._settings.server.listen.rpartition(':')[0]}:{self.port}"

    @with_flight_errors
    def list_flights(self, context: Any, criteria: bytes) -> Iterator[Any]:
        """A flight for each table that the caller may read, with its schema, and its newest position as metadata.

        A table that cannot be opened is left out, and logged."""
        caller = self._admit(context)
        if criteria:
            raise ConfigurationError("ListFlights: criteria are not supported: send none, and choose from the list")
        names = [name for name in self._tables.names if self._gate.may(caller, "ListFlights", name)]
        return iter([flight for flight in map(self._listed, names) if flight is not None])

    @with_flight_errors
    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """The schema of the rows of a flight. pyarrow sends errors of Flight from here with the code UNKNOWN."""
        caller = self._admit(context)
        request = _request(descriptor)
        self._gate.require(caller, "GetSchema", request.table)
        if not request.options:
            return fl.SchemaResult(schema_of(self._tables.describe(request.table)))
        with self._tables.planned(request, caller.principal, 0.0) as flight:
            return fl.SchemaResult(flight.schema)

    @with_flight_errors
    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """Plans a flight: one endpoint for each split; with `limit` one for all of them."""
        caller = self._admit(context)
        request = _request(descriptor)
        self._gate.require(caller, "GetFlightInfo", request.table)
        expires_s = time.time() + self._settings.ticket_lifetime_ms / 1000
        planned = self._tables.planned(request, caller.principal, expires_s)
        with planned as flight, self.answers.answer(request.table) as reserve:
            endpoints = [] if flight.content is None else self._endpoints(flight.content, reserve)
            records = -1 if endpoints else 0
            info = fl.FlightInfo(flight.schema, descriptor, endpoints, records, flight.bytes, ordered=flight.in_order)
        log_event_to(
            log,
            "flight planned",
            principal=caller.principal,
            peer=peer_host(caller.peer),
            table=request.table,
            endpoints=len(endpoints),
            bytes=flight.bytes,
        )
        return info

    @with_flight_errors
    def do_get(self, context: Any, ticket: Any) -> Any:
        """Streams the rows of a ticket."""
        caller = self._admit(context)
        content = ticket_of(ticket.ticket, self._keys, caller.principal, time.time())
        self._gate.require(caller, "DoGet", content.table)
        stop = threading.Event()
        schema, batches = self._tables.read(content, stop)

        def log_end(stream: Stream, error: BaseException | None) -> None:
            if self._metrics is not None:
                self._metrics.sent(content.table, stream.rows, stream.bytes)
            _log_stream(caller, content, stream, error)

        return fl.GeneratorStream(schema, self._streams.open(batches, stop, log_end))

    @with_flight_errors
    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Refused: tables are read only."""
        self._refuse(context, "DoPut")

    @with_flight_errors
    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Refused."""
        self._refuse(context, "DoExchange")

    @with_flight_errors
    def do_action(self, context: Any, action: Any) -> None:
        """Refused: there are no actions."""
        self._refuse(context, "DoAction")

    @with_flight_errors
    def list_actions(self, context: Any) -> list[Any]:
        """No action."""
        self._admit(context)
        return []

    def _admit(self, context: Any) -> Caller:
        self._rates.take(peer_host(context.peer()))
        try:
            return self._gate.caller(context)
        except PenstockError as error:
            log.info("call from %s refused: %s: %s", peer_host(context.peer()), error.code, error)
            raise

    def _refuse(self, context: Any, call: str) -> None:
        self._admit(context)
        raise CallNotServed(f"{call}: this server only lists tables, plans flights and streams them")

    def _listed(self, name: str) -> Any:
        try:
            description = self._tables.describe(name)
            schema = schema_of(description)
        except PenstockError as error:
            log.warning("table %s is not listed: %s: %s", name, error.code, error)
            return None
        newest = json.dumps({"newest": str(description.newest)})
        descriptor = fl.FlightDescriptor.for_path(name)
        return fl.FlightInfo(schema, descriptor, [], -1, -1, app_metadata=newest)

    def _endpoints(self, content: Ticket, reserve: Callable[[int], None]) -> list[Any]:
        """An endpoint for each ticket, whose memory is reserved. Each begins with another location, so that clients use
        all of them."""
        locations = self._settings.location_uris
        expiry = pa.scalar(int(content.expires_s * 1e6), pa.timestamp("us", "UTC"))
        endpoints = []
        for number, ticket in enumerate(tickets_of(content, self._keys)):
            reserve(len(ticket))
            first = number % len(locations) if locations else 0
            endpoints.append(fl.FlightEndpoint(ticket, [*locations[first:], *locations[:first]], expiry))
        return endpoints


def _request(descriptor: Any) -> FlightRequest:
    match descriptor.descriptor_type:
        case fl.DescriptorType.PATH:
            return request_of_path(descriptor.path)
        case fl.DescriptorType.CMD:
            return request_of_command(descriptor.command)
    raise ConfigurationError("flight descriptor: expected a path (a table's name) or a command (JSON)")


def _log_stream(caller: Caller, ticket: Ticket, stream: Stream, error: BaseException | None) -> None:
    """The line of the access log."""
    fields: dict[str, Any] = {
        "principal": caller.principal,
        "peer": peer_host(caller.peer),
        "table": ticket.table,
        "split": ticket.splits[0].split_id,
        "splits": len(ticket.splits),
        "rows": stream.rows,
        "bytes": stream.bytes,
        "ms": round((time.monotonic() - stream.begin_s) * 1000),
    }
    if error is not None:
        fields["code"], fields["error"] = code_and_text(error)
    log_event_to(log, "flight sent" if error is None else "flight not sent to its end", **fields)
