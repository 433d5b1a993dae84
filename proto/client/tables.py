"""`TableCalls`: the methods of `EnumeratorClient` that list and administer tables, one per call of `TableService`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from penstock.proto.codec import table_calls as calls
from penstock.proto.model.catalogs import CatalogStatus, ServedTable, TableList
from penstock.proto.v1 import penstock_pb2 as pb

_A = TypeVar("_A")

TableRequest = pb.ListTablesRequest | pb.AddTableRequest | pb.RemoveTableRequest | pb.RefreshTablesRequest


class TableCalls(ABC):
    """A `TableService` over calls to a server. Each call may be repeated: it has the same result again, except that a
    second removal fails with TableNotFound."""

    @abstractmethod
    def _call_tables(self, name: str, request: TableRequest, answer_type: type[_A]) -> _A:
        """The server's answer."""

    def list_tables(self, pattern: str = "*", *, catalogs: bool = False) -> TableList:
        """See `TableService.list_tables`."""
        request = calls.list_request(pattern, catalogs=catalogs)
        return calls.list_from_message(self._call_tables("ListTables", request, pb.ListTablesResponse))

    def add_table(self, table: str, path: str, *, poll_interval_ms: int = 0, principal: str = "") -> ServedTable:
        """See `TableService.add_table`. The server sets the principal."""
        del principal
        request = calls.add_request(table, path, poll_interval_ms)
        return calls.table_from_message(self._call_tables("AddTable", request, pb.AddTableResponse).table)

    def remove_table(self, table: str) -> None:
        """See `TableService.remove_table`."""
        self._call_tables("RemoveTable", calls.remove_request(table), pb.RemoveTableResponse)

    def refresh_tables(self, catalog: str = "") -> tuple[CatalogStatus, ...]:
        """See `TableService.refresh_tables`."""
        request = calls.refresh_request(catalog)
        return calls.catalogs_from_message(self._call_tables("RefreshTables", request, pb.RefreshTablesResponse))
