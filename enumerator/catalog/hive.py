"""The catalog of a Hive Metastore, by its Thrift protocol. Needs the extra `hive`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final, Protocol

from penstock.enumerator.catalog.adapter import Item, ListedTable, RefusedTable, UnreadablePart
from penstock.enumerator.catalog.bounded_thrift import bounded_connection
from penstock.proto.errors import ConfigurationError, StorageError
from penstock.proto.model.access import host_and_port

NEEDS_EXTRA: Final = 'a catalog of a Hive Metastore needs the extra `hive`: pip install "penstock[hive]"'
TIMEOUT_MS: Final = 30_000
"""How long one call of the Metastore may take."""
MAX_TEXT_BYTES: Final = 16 << 20
"""Longest text in a response of the Metastore."""
MAX_ELEMENTS: Final = 1_000_000
"""Most elements of all lists and maps of a response together: names of tables, for example."""
MAX_RESPONSE_BYTES: Final = 64 << 20
"""Largest response of the Metastore."""
MAX_DATABASES: Final = 10_000
"""Databases of a Metastore; the rest is a problem."""
BATCH: Final = 100
"""Tables whose descriptions are requested at once."""
_VIEW_SUFFIXES: Final = ("_ro", "_rt")
"""Hudi's Hive sync registers a merge-on-read table as `NAME_ro` and `NAME_rt` (`HiveSyncTool`)."""
_VIEW_PROPERTY: Final = "hoodie.query.as.ro.table"
"""The serde property of such a view."""
_LOCAL: Final = re.compile(r"file:(?://)?(?=/)")


class MetastoreCalls(Protocol):
    """The calls of a Metastore that a listing uses, as in its Thrift interface."""

    def get_all_databases(self) -> list[str]:
        """The names of the databases."""
        ...

    def get_all_tables(self, db_name: str) -> list[str]:
        """The names of the tables of a database."""
        ...

    def get_table_objects_by_name(self, dbname: str, tbl_names: list[str]) -> list[Any]:
        """Descriptions of tables; those that do not exist any more are omitted."""
        ...


class HiveCatalog:
    """A `CatalogAdapter` of the Hudi tables of a Metastore, named `DATABASE.TABLE`. `connect` opens a connection."""

    def __init__(
        self,
        address: str,
        connect: Callable[[str, int], AbstractContextManager[MetastoreCalls]] | None = None,
    ) -> None:
        self._host, self._port = host_and_port(address.removeprefix("thrift://"))
        self._connect = connect or _connector()

    def listing(self) -> Iterator[Item]:
        """See `CatalogAdapter.listing`. One call for each database, and for BATCH tables. StorageError."""
        with self._connect(self._host, self._port) as client:
            try:
                databases = sorted(_call("the databases", client.get_all_databases))
            except _Refused as error:
                raise StorageError(str(error)) from None
            for number, database in enumerate(databases):
                if number >= MAX_DATABASES:
                    yield UnreadablePart("", f"more than {MAX_DATABASES} databases: the first ones in order are served")
                    return
                yield None
                yield from self._tables(client, database)

    def _tables(self, client: MetastoreCalls, database: str) -> Iterator[Item]:
        try:
            yield from self._listed_tables(client, database)
        except _Refused as error:
            yield UnreadablePart(database, str(error))

    def _listed_tables(self, client: MetastoreCalls, database: str) -> Iterator[Item]:
        names = sorted(_call(f"database {database[:100]}", partial(client.get_all_tables, database)))
        views: dict[str, set[tuple[str, bool]]] = {}
        for first in range(0, len(names), BATCH):
            describe = partial(client.get_table_objects_by_name, database, names[first : first + BATCH])
            for table in _call(f"the tables of database {database[:100]}", describe):
                location = location_of(table)
                if location is not None:
                    views.setdefault(location, set()).add((str(table.tableName), _is_view(table)))
            yield None
        for location, tables in sorted(views.items(), key=lambda item: min(item[1])):
            name = f"{database}.{_name_of(tables)}"
            yield ListedTable(name, location) if location else RefusedTable(name, "the Metastore has no location of it")


def location_of(table: Any) -> str | None:
    """The path or URI of a Hudi table; None for a table of another format. A `file:` URI becomes a local path."""
    storage = table.sd
    parameters: Mapping[str, str] = table.parameters or {}
    input_format = str(getattr(storage, "inputFormat", "") or "")
    provider = str(parameters.get("spark.sql.sources.provider", ""))
    if provider.lower() != "hudi" and not input_format.startswith(("org.apache.hudi.", "com.uber.hoodie.")):
        return None
    location = str(getattr(storage, "location", "") or "")
    return _LOCAL.sub("", location).rstrip("/") or location


def _is_view(table: Any) -> bool:
    serde = getattr(table.sd, "serdeInfo", None)
    return _VIEW_PROPERTY in (getattr(serde, "parameters", None) or {})


def _name_of(tables: set[tuple[str, bool]]) -> str:
    """The name of the table that these entries of one location describe: of views, the name without its suffix."""
    plain = sorted(name for name, is_view in tables if not (is_view and name.endswith(_VIEW_SUFFIXES)))
    return plain[0] if plain else min(name for name, _ in tables)[: -len(_VIEW_SUFFIXES[0])]


class _Refused(Exception):
    """The Metastore answered with an error, and goes on."""


def _call(what: str, call: Callable[[], list[Any]]) -> list[Any]:
    """The result of a call. StorageError: the Metastore cannot be reached, or does not answer; `_Refused`: it answers
    with an error."""
    try:
        return list(call())
    except Exception as error:  # noqa: BLE001 - errors of sockets, of Thrift, and of the Metastore have no common class
        text = str(getattr(error, "message", "") or error)
        raise (_Refused if _is_answer(error) else StorageError)(
            f"the Hive Metastore does not list {what}: {type(error).__name__}: {text[:300]}; a retry may succeed"
        ) from None


def _is_answer(error: Exception) -> bool:
    """Whether the error is a response of the Metastore, so that the connection remains usable."""
    try:
        from thrift.protocol.TProtocol import TProtocolException
        from thrift.Thrift import TException
        from thrift.transport.TTransport import TTransportException
    except ImportError:  # tests connect without the extra
        return False
    return isinstance(error, TException) and not isinstance(error, TProtocolException | TTransportException)


def _connector() -> Callable[[str, int], AbstractContextManager[MetastoreCalls]]:
    """Opens connections. ConfigurationError without the extra."""
    try:
        import thrift  # noqa: F401
        from hive_metastore.ThriftHiveMetastore import Client
    except ImportError:
        raise ConfigurationError(NEEDS_EXTRA) from None

    @contextmanager
    def connect(host: str, port: int) -> Iterator[MetastoreCalls]:
        transport, protocol = bounded_connection(
            host,
            port,
            timeout_ms=TIMEOUT_MS,
            most_bytes=MAX_RESPONSE_BYTES,
            most_text_bytes=MAX_TEXT_BYTES,
            most_elements=MAX_ELEMENTS,
        )
        try:
            transport.open()
        except Exception as error:  # noqa: BLE001 - TTransportException, and errors of sockets
            raise StorageError(f"the Hive Metastore at {host}:{port} cannot be reached: {str(error)[:300]}") from None
        try:
            yield Client(protocol)
        finally:
            transport.close()

    return connect
