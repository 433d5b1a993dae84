"""The server of a write whose tasks begin it: each task asks for the same write, and gets the same instant."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.engine.write.service.owners import new_owner, owner_of_stream
from penstock.engine.write.service.remote_transaction import (
    RemoteTransaction,
    WriteServer,
    attached,
    renewing,
    start_of,
    write_server,
)
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.writes import TouchedGroups, WriteId, WriteSpec
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage
from penstock.writer.transaction.task_write import BegunWrite
from penstock.writer.transaction.transaction import WriteEnvironment

CONNECTING: Final = ("serverCa", "serverCert", "serverKey", "serverToken")
"""The options of a connection to a server."""

Lease = Callable[[TouchedGroups], None]
"""Called before the files of these groups are written. WriteConflict if another writer has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendServer:
    """A server, and the write there. Spark pickles it."""

    address: str
    """HOST:PORT."""
    options: Mapping[str, str]
    """The options of the connection."""
    table: str
    """The table's name there."""
    owner: str
    """The name of the writer; '' for a stream whose name is the id of its query, which only tasks have."""
    epoch: int
    """The epoch of the write."""

    @staticmethod
    def of(options: Mapping[str, str], *, identifier: str | None, epoch: int) -> AppendServer | None:
        """The server that the options of a write name, if they do. `identifier`: the name of the stream, or '' for the
        id of its query; None for a write of no stream. ConfigurationError for a wrong address or connection."""
        connection = {name: options[name] for name in CONNECTING if name in options}
        address = options.get("server")
        write_server(address, connection)
        if address is None:
            return None
        owner = new_owner() if identifier is None else identifier and owner_of_stream(identifier)
        return AppendServer(
            address=address, options=connection, table=options.get("path", ""), owner=owner, epoch=epoch
        )

    def connected(self) -> WriteServer:
        """The server, as this process reaches it."""
        server = write_server(self.address, self.options)
        if server is None:
            raise InvariantViolation(f"no server at {self.address}")
        return server

    def write_of(self, query: str) -> WriteId:
        """The write, in a task of this query."""
        if not self.owner and not query:
            raise InvariantViolation(f"table {self.table}: Spark gave a task of a stream no query id")
        return WriteId(self.table, self.owner or owner_of_stream(query), self.epoch)

    @contextlib.contextmanager
    def begun(self, write: WriteId, request_id: str, spec: WriteSpec) -> Iterator[tuple[BegunWrite, Lease]]:
        """The write, which begins here if no other task has begun it, and how a task takes leases. The lease of the
        write is renewed while the block runs. Fenced if it has ended."""
        server = self.connected()
        begun = server.calls(lambda: server.service.begin_write(write, request_id, spec))

        def lease(touched: TouchedGroups) -> None:
            server.calls(lambda: server.service.lease_groups(write, touched))

        with renewing(server, write, begun.lease_ms, lambda: 0):
            yield BegunWrite(instant=begun.instant, start=start_of(begun)), lease

    def transaction(
        self,
        write: WriteId,
        begun: BegunWrite,
        spec: WriteSpec,
        table: HudiTable,
        storage: WritableStorage,
        environment: WriteEnvironment,
    ) -> RemoteTransaction:
        """The transaction of the write, in the process that commits it."""
        return attached(self.connected(), write, table, storage, environment, spec, begun.instant, begun.start)

    def abort(self, write: WriteId) -> None:
        """Rolls the write back, if it has begun."""
        server = self.connected()
        server.calls(lambda: server.service.abort_write(write))
