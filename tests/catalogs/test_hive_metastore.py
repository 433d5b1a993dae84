"""A real Hive Metastore (in PySpark's jars, with Derby) as a catalog: tables come and go, and it goes down."""

from __future__ import annotations

import pathlib

import pytest

from penstock.enumerator.catalog.catalogs import Catalog, Catalogs
from penstock.enumerator.catalog.hive import HiveCatalog
from penstock.enumerator.catalog.listing import CatalogRules
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.tables.registry import TableRegistry
from tests.catalogs.metastore import PLAIN, Metastore
from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.spark
CASE = "B_v9_inc_mor"


def test_tables_of_a_metastore_come_and_go_and_stay_while_it_is_down(
    tmp_path: pathlib.Path, golden: GoldenTables
) -> None:
    path = golden.table(CASE)
    registry = TableRegistry({})
    with Metastore(tmp_path) as metastore:
        rules = CatalogRules(catalog="hms", exclude=("*.tmp_*",))
        catalogs = Catalogs(
            [Catalog(rules, "hive", lambda: HiveCatalog(f"thrift://{metastore.address}"), 3600)], registry
        )

        def names() -> tuple[str, ...]:
            catalogs.list_once("hms")
            return registry.names()

        assert names() == ()  # the database `default` is empty
        metastore.create("sales", "orders", path)
        metastore.create("sales", "tmp_orders", path)
        metastore.create("sales", "lines", tmp_path, input_format=PLAIN)
        metastore.create("sales", "trips_ro", "/lake/trips", view="true")
        metastore.create("sales", "trips_rt", "/lake/trips", view="false")
        assert names() == ("hms.sales.orders", "hms.sales.trips")
        assert registry.path("hms.sales.trips") == "/lake/trips"
        described = EmbeddedEnumerator(registry).describe_table("hms.sales.orders")
        assert described.table == "hms.sales.orders"

        metastore.drop("sales", "orders")
        metastore.create("hr", "staff", path)
        assert names() == ("hms.hr.staff", "hms.sales.trips")

        metastore.stop()
        assert names() == ("hms.hr.staff", "hms.sales.trips")
        assert "cannot be reached" in catalogs.statuses()[0].error
        metastore.start()
        metastore.drop("sales", "trips_ro", "trips_rt")
        assert names() == ("hms.hr.staff",)
        assert catalogs.statuses()[0].error == ""
