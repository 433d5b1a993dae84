"""Rights of the calls that list and administer tables, over gRPC, by patterns of names."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from penstock.enumerator.catalog.catalogs import Catalog, Catalogs
from penstock.enumerator.catalog.listing import CatalogRules
from penstock.enumerator.catalog.static_file import FileCatalog
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.settings import AclRule, Settings
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.registry import TableRegistry
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.errors import ConfigurationError, PermissionDenied
from penstock.proto.model.access import ServerAccess
from tests.golden_tables import GoldenTables

CASE = "B_v9_inc_mor"
RULES = (
    AclRule(principal="token:eu", rights=("read", "admin"), tables=("eu.*",)),
    AclRule(principal="token:reader", rights=("read",), tables=("eu.orders", "us.*")),
    AclRule(principal="token:root", rights=("read", "admin")),
)


class Secured:
    """A server with tokens, and its clients by the name of the token."""

    def __init__(self, folder: pathlib.Path, path: str) -> None:
        self.folder, self.path = folder, path
        registry = TableRegistry({"eu.orders": path, "us.orders": path, "us.trips": path})
        catalogs = [
            Catalog(CatalogRules(catalog=name), "file", lambda: FileCatalog(str(folder / "none.toml")), 3600)
            for name in ("eu", "us")
        ]
        self.catalogs = Catalogs(catalogs, registry)
        self.service = EnumeratorService(registry, poll_ms=None, catalogs=self.catalogs, add_from=(path,))
        lines = []
        for name in ("eu", "reader", "root", "nobody"):
            token, line = new_token(name)
            (folder / name).write_text(token)
            lines.append(line)
        (folder / "tokens").write_text("\n".join(lines))
        settings = Settings(tokens=str(folder / "tokens"), acl=RULES)
        self.running = serve_enumerator(self.service, groups=self.service, tables=self.service, settings=settings)

    def client(self, name: str) -> EnumeratorClient:
        access = ServerAccess(token=str(self.folder / name))
        return EnumeratorClient(self.running.address, CallLimits(attempts=1), access)


@pytest.fixture
def secured(tmp_path: pathlib.Path, golden: GoldenTables) -> Iterator[Secured]:
    """A server with tables of two regions."""
    secured = Secured(tmp_path, str(golden.table(CASE)))
    secured.catalogs.start()
    with secured.running:
        yield secured
    secured.catalogs.stop()


def names(client: EnumeratorClient, pattern: str = "*") -> list[str]:
    return [each.table for each in client.list_tables(pattern).tables]


def test_list_has_the_tables_that_the_caller_may_read(secured: Secured) -> None:
    assert names(secured.client("eu")) == ["eu.orders"]
    assert names(secured.client("reader")) == ["eu.orders", "us.orders", "us.trips"]
    assert names(secured.client("reader"), "*.orders") == ["eu.orders", "us.orders"]
    assert names(secured.client("nobody")) == []


def test_catalogs_are_shown_to_callers_that_may_read_all_tables(secured: Secured) -> None:
    assert len(secured.client("root").list_tables(catalogs=True).catalogs) == 2
    with pytest.raises(PermissionDenied, match="all tables"):
        secured.client("eu").list_tables(catalogs=True)


def test_tables_are_added_and_removed_within_the_patterns_of_the_right_admin(secured: Secured) -> None:
    added = secured.client("eu").add_table("eu.more", secured.path)
    assert (added.table, added.source) == ("eu.more", "admin")
    principal = secured.service.coordinator.read(lambda state: state.tables["eu.more"].principal)
    assert principal == "token:eu"
    for name, table in [("eu", "us.more"), ("reader", "eu.more2"), ("nobody", "eu.more2")]:
        with pytest.raises(PermissionDenied):
            secured.client(name).add_table(table, secured.path)
    for name in ("reader", "nobody"):
        with pytest.raises(PermissionDenied):
            secured.client(name).remove_table("eu.more")
    assert names(secured.client("root"), "*more*") == ["eu.more"]
    secured.client("eu").remove_table("eu.more")
    assert names(secured.client("root"), "*more*") == []


def test_catalog_is_listed_for_callers_that_administer_all_of_its_tables(secured: Secured) -> None:
    assert [each.catalog for each in secured.client("eu").refresh_tables("eu")] == ["eu"]
    assert len(secured.client("root").refresh_tables()) == 2
    for name, catalog in [("eu", "us"), ("eu", ""), ("reader", "eu"), ("nobody", "")]:
        with pytest.raises(PermissionDenied):
            secured.client(name).refresh_tables(catalog)


def test_hostile_requests_are_refused(secured: Secured) -> None:
    root = secured.client("root")
    for call in (
        lambda: root.list_tables("x" * 401),
        lambda: root.add_table("x" * 5000, "/x"),
        lambda: root.add_table("x", "/" * 100_000),
        lambda: root.refresh_tables("x" * 100_000),
    ):
        with pytest.raises(ConfigurationError):
            call()


def test_server_without_an_administration_says_so(golden: GoldenTables) -> None:
    service = EnumeratorService({"t": str(golden.table(CASE))}, poll_ms=None)
    with serve_enumerator(service, "127.0.0.1:0") as running, pytest.raises(ConfigurationError, match="fixed list"):
        EnumeratorClient(running.address).list_tables()
