"""Which entries of a Metastore are tables, with a scripted Metastore. `tests/hive` has a real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.enumerator.catalog.adapter import ListedTable, RefusedTable, UnreadablePart
from penstock.enumerator.catalog.hive import BATCH, HiveCatalog, location_of
from penstock.proto.errors import ConfigurationError, StorageError

HUDI = "org.apache.hudi.hadoop.HoodieParquetInputFormat"


def table(name: str, location: str | None, *, input_format: str = HUDI, view: bool = False, **parameters: str) -> Any:
    serde = SimpleNamespace(parameters={"hoodie.query.as.ro.table": "true"} if view else {})
    storage = SimpleNamespace(inputFormat=input_format, location=location, serdeInfo=serde)
    named = {name.replace("__", "."): value for name, value in parameters.items()}
    return SimpleNamespace(tableName=name, sd=storage, parameters=named)


class ScriptedMetastore:
    """A Metastore with these tables by database, which counts its calls."""

    def __init__(self, **databases: list[Any]) -> None:
        self.databases, self.calls, self.closed = databases, list[str](), 0
        self.error: Exception | None = None

    @contextmanager
    def connect(self, host: str, port: int) -> Iterator[ScriptedMetastore]:
        yield self
        self.closed += 1

    def get_all_databases(self) -> list[str]:
        self.calls.append("databases")
        return list(self.databases)

    def get_all_tables(self, db_name: str) -> list[str]:
        self.calls.append("tables")
        if self.error is not None:
            raise self.error
        return [each.tableName for each in self.databases[db_name]]

    def get_table_objects_by_name(self, dbname: str, tbl_names: list[str]) -> list[Any]:
        self.calls.append("describe")
        assert len(tbl_names) <= BATCH
        return [each for each in self.databases[dbname] if each.tableName in tbl_names]


def listed(metastore: ScriptedMetastore) -> list[object]:
    catalog = HiveCatalog("localhost:9083", metastore.connect)
    return [item for item in catalog.listing() if item is not None]


def test_only_hudi_tables_are_listed_by_database_and_name() -> None:
    metastore = ScriptedMetastore(
        sales=[
            table("orders", "file:/lake/orders"),
            table("plain", "file:/lake/plain", input_format="org.apache.hadoop.mapred.TextInputFormat"),
            table("by_provider", "s3a://b/x", input_format="", spark__sql__sources__provider="HUDI"),
        ],
        hr=[],
    )
    assert listed(metastore) == [
        ListedTable("sales.by_provider", "s3a://b/x"),
        ListedTable("sales.orders", "/lake/orders"),
    ]
    assert metastore.closed == 1


def test_views_of_a_merge_on_read_table_are_one_table() -> None:
    metastore = ScriptedMetastore(
        a=[table("t_ro", "/t", view=True), table("t_rt", "/t", view=True)],
        b=[table("u", "/u"), table("u_ro", "/u", view=True), table("u_rt", "/u", view=True)],
        c=[table("real_ro", "/r")],
    )
    assert [item.name for item in listed(metastore) if isinstance(item, ListedTable)] == ["a.t", "b.u", "c.real_ro"]


def test_table_without_a_location_is_refused() -> None:
    assert isinstance(listed(ScriptedMetastore(a=[table("t", None)]))[0], RefusedTable)


@pytest.mark.parametrize(
    ("location", "path"), [("file:/a/b", "/a/b"), ("file:///a/b/", "/a/b"), ("s3a://b/x", "s3a://b/x"), ("/a", "/a")]
)
def test_location_of_a_local_table_is_a_path(location: str, path: str) -> None:
    assert location_of(table("t", location)) == path


def test_tables_are_described_in_batches() -> None:
    metastore = ScriptedMetastore(a=[table(f"t{number:04}", f"/t{number}") for number in range(2 * BATCH + 1)])
    assert len(listed(metastore)) == 2 * BATCH + 1
    assert metastore.calls == ["databases", "tables", "describe", "describe", "describe"]


def test_metastore_that_fails_is_a_storage_error_that_may_be_retried() -> None:
    metastore = ScriptedMetastore(a=[])
    metastore.error = OSError("reset by peer")
    with pytest.raises(StorageError, match="reset by peer"):
        listed(metastore)


def test_database_that_cannot_be_listed_keeps_its_tables_and_delays_no_other() -> None:
    from hive_metastore.ttypes import MetaException

    class Partly(ScriptedMetastore):
        def get_all_tables(self, db_name: str) -> list[str]:
            if db_name == "broken":
                raise MetaException("no privilege")
            return super().get_all_tables(db_name)

    broken, ordinary = listed(Partly(broken=[], good=[table("t", "/t")]))
    assert isinstance(broken, UnreadablePart) and broken.name == "broken" and "no privilege" in broken.reason
    assert ordinary == ListedTable("good.t", "/t")


def test_metastore_that_refuses_to_list_databases_is_a_storage_error() -> None:
    from hive_metastore.ttypes import MetaException

    class Refusing(ScriptedMetastore):
        def get_all_databases(self) -> list[str]:
            raise MetaException("no privilege")

    with pytest.raises(StorageError, match="no privilege"):
        listed(Refusing())


@pytest.mark.parametrize("address", ["", "host", "host:0", "host:x"])
def test_wrong_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError):
        HiveCatalog(address, ScriptedMetastore().connect)


def test_metastore_that_is_down_is_named() -> None:
    from tests.loopback_ports import free_port

    with pytest.raises(StorageError, match="cannot be reached"):
        list(HiveCatalog(f"127.0.0.1:{free_port()}").listing())
