"""Flight servers for tests, on loopback, and their clients."""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from penstock.engine.flight.run import RunningFlightServer, running_flight_server
from penstock.engine.flight.settings import FlightSettings
from penstock.enumerator.server.config.settings import Settings, TableSettings


class Client:
    """A client with one token, or without."""

    def __init__(self, address: str, token: str = "", scheme: str = "grpc", **security: Any) -> None:
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        self.options = fl.FlightCallOptions(headers=headers)
        self.connection = fl.connect(f"{scheme}://{address}", **security)

    def tables(self) -> dict[str, Any]:
        """The listed flights by table."""
        return {
            flight.descriptor.path[0].decode(): flight for flight in self.connection.list_flights(b"", self.options)
        }

    def info(self, table: str, **keys: Any) -> Any:
        """The flight of a table; with `keys` by a command."""
        return self.connection.get_flight_info(descriptor(table, **keys), self.options)

    def schema(self, table: str, **keys: Any) -> pa.Schema:
        """The schema by GetSchema."""
        return self.connection.get_schema(descriptor(table, **keys), self.options).schema

    def get(self, ticket: bytes | Any) -> Any:
        """The reader of a ticket's rows."""
        ticket = fl.Ticket(ticket) if isinstance(ticket, bytes) else ticket
        return self.connection.do_get(ticket, self.options)

    def rows(self, table: str, **keys: Any) -> pa.Table:
        """The rows of all endpoints, in their order."""
        info = self.info(table, **keys)
        parts = [self.get(endpoint.ticket).read_all() for endpoint in info.endpoints]
        assert all(part.schema.equals(info.schema) for part in parts)
        return pa.concat_tables([info.schema.empty_table(), *parts])

    def ticket(self, table: str, **keys: Any) -> bytes:
        """The first ticket of a flight."""
        ticket: bytes = self.info(table, **keys).endpoints[0].ticket.ticket
        return ticket


def descriptor(table: str, **keys: Any) -> Any:
    """The descriptor of a table: a path, or with `keys` a command."""
    if not keys:
        return fl.FlightDescriptor.for_path(table)
    return fl.FlightDescriptor.for_command(json.dumps({"table": table, **keys}))


@contextmanager
def served(
    tables: Mapping[str, object], server: Mapping[str, Any] | None = None, **settings: Any
) -> Iterator[RunningFlightServer]:
    """A server of these tables (name to path). `server` are fields of `Settings`, `settings` of `FlightSettings`."""
    named = {name: TableSettings(path=str(path)) for name, path in tables.items()}
    with running_flight_server(FlightSettings(server=Settings(tables=named, **(server or {})), **settings)) as running:
        try:
            yield running
        finally:
            assert running.stop(10)


def wait_until(condition: Callable[[], object]) -> None:
    """Returns when the condition holds. The server notices a client that goes in its own thread."""
    waiting = threading.Event()
    for _ in range(18_000):
        if condition():
            return
        waiting.wait(0.01)
    pytest.fail("the condition does not hold after 3 minutes")


def open_files(folder: pathlib.Path) -> list[str]:
    """The files below the folder that this process has open."""
    opened = []
    for link in pathlib.Path("/proc/self/fd").iterdir():
        try:
            opened.append(str(link.readlink()))
        except OSError:
            continue
    return [path for path in opened if path.startswith(str(folder))]


def key_file(folder: pathlib.Path, *keys: str) -> str:
    file = folder / f"keys-{'-'.join(key[:2] for key in keys)}"
    file.write_text("\n".join(keys) + "\n")
    return str(file)
