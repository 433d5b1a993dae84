"""The handlers of the calls that list and administer tables: decode, call the `TableService`, encode.

ListTables returns only tables that the caller may read; it is the one call whose rights are checked here, by table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import grpc

from penstock.enumerator.server.auth.acl import Rights
from penstock.enumerator.server.auth.callers import caller, caller_names
from penstock.enumerator.server.rpc.handlers import answered
from penstock.proto.codec import table_calls as calls
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.catalogs import TableService
from penstock.proto.v1 import penstock_pb2 as pb


class TableHandlers:
    """One method per call, named as in the .proto. Any thread. Without a `TableService` every valid call fails with a
    ConfigurationError."""

    def __init__(self, tables: TableService | None, rights: Rights) -> None:
        self._optional_tables, self._rights = tables, rights

    def by_call(self) -> Mapping[str, Callable[..., object]]:
        """The handlers by the names of their calls."""
        handlers = (self.ListTables, self.AddTable, self.RemoveTable, self.RefreshTables)
        return {handler.__name__: handler for handler in handlers}

    @property
    def _tables(self) -> TableService:
        if self._optional_tables is None:
            raise ConfigurationError("this server has a fixed list of tables: use one of `penstock serve`")
        return self._optional_tables

    def ListTables(self, request: pb.ListTablesRequest, context: grpc.ServicerContext) -> pb.ListTablesResponse:
        """See the .proto."""

        def answer() -> pb.ListTablesResponse:
            pattern, catalogs = calls.listed_from_message(request)
            names = caller_names()
            if catalogs:
                self._rights.require(names, "read", "*")
            tables = self._tables.list_tables(pattern, catalogs=catalogs)
            readable = tuple(each for each in tables.tables if self._rights.grants(names, "read", each.table))
            return calls.list_to_message(replace(tables, tables=readable))

        return answered("ListTables", request, context, answer)

    def AddTable(self, request: pb.AddTableRequest, context: grpc.ServicerContext) -> pb.AddTableResponse:
        """See the .proto."""

        def answer() -> pb.AddTableResponse:
            table, path, poll_interval_ms = calls.added_from_message(request)
            added = self._tables.add_table(table, path, poll_interval_ms=poll_interval_ms, principal=caller())
            return pb.AddTableResponse(table=calls.table_to_message(added))

        return answered("AddTable", request, context, answer)

    def RemoveTable(self, request: pb.RemoveTableRequest, context: grpc.ServicerContext) -> pb.RemoveTableResponse:
        """See the .proto."""

        def answer() -> pb.RemoveTableResponse:
            table = calls.removed_from_message(request)
            self._tables.remove_table(table)
            return pb.RemoveTableResponse()

        return answered("RemoveTable", request, context, answer)

    def RefreshTables(
        self, request: pb.RefreshTablesRequest, context: grpc.ServicerContext
    ) -> pb.RefreshTablesResponse:
        """See the .proto."""

        def answer() -> pb.RefreshTablesResponse:
            catalog = calls.refreshed_from_message(request)
            statuses = self._tables.refresh_tables(catalog)
            return pb.RefreshTablesResponse(catalogs=map(calls.catalog_to_message, statuses))

        return answered("RefreshTables", request, context, answer)
