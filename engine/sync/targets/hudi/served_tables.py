"""The tables of a Hudi target on a server, which owns their timelines."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from penstock.engine.write.service.owners import epochs_from, stable_owner
from penstock.engine.write.service.remote_transaction import WriteServer, server_client, write_server
from penstock.proto.errors import ConfigurationError, InvariantViolation, TableNotFound
from penstock.table.storage.local_writes import open_writable
from penstock.table.storage.uris import redacted_uri

CONNECTING: Final = ("serverCa", "serverCert", "serverKey", "serverToken")
"""Options of the connection to the server, beside `server`."""


class ServedTables:
    """The tables by their names in the target, which are those on the server too. One thread for each table."""

    def __init__(self, address: str, connection: Mapping[str, str]) -> None:
        """ConfigurationError for a wrong address or connection; the server is not called."""
        server = write_server(address, connection)
        if server is None:
            raise InvariantViolation(f"no server at {address}")
        self._server, self._tables = server, server_client(address, connection)
        self._epochs = epochs_from(time.time_ns() // 1_000_000)

    def writer(self, table: str, source: str, path: str) -> WriteServer:
        """The server, for the next write of a source into the table. A table that the server does not serve is added
        there. It fences writes of the source by processes that started earlier.

        ConfigurationError if the server has another table of this name; StorageError if the server is away.
        """
        try:
            served = self._server.path_of(table)
        except TableNotFound:
            served = self._tables.add_table(table, path).path
        if open_writable(served).base_path != open_writable(path).base_path:
            raise ConfigurationError(
                f"table {table}: the server at {self._server.address} has a table of this name at "
                f"{redacted_uri(served)}, and the target's is at {redacted_uri(path)}: give another name (`into`), or "
                "another folder"
            )
        return replace(self._server, owner=stable_owner("sync", source), epoch=next(self._epochs))
