"""A real `penstock serve` with catalogs: tables come and go while groups read them, and nothing is restarted."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pyarrow as pa
import pytest

import penstock
from penstock.engine.cli.main import run
from penstock.engine.consumer import Consumer
from penstock.proto.errors import ConfigurationError, PenstockError, TableNotFound
from tests.faults.served import CASE, Served, check_changes, differing, drain, until
from tests.golden.rows import difference
from tests.golden_tables import GoldenTables

OTHER = "B_v9_inc_mor"
"""Another table than CASE."""
MANUAL_MS = 3_600_000
"""An interval that does not end during a test: the catalogs are listed by `tables refresh`."""


class Lake:
    """A server of `lake/*` and of `tables.toml`, whose catalogs are listed on request."""

    def __init__(self, folder: pathlib.Path, golden: GoldenTables, every_ms: int = MANUAL_MS) -> None:
        self.folder, self.golden = folder / "lake", golden
        self.folder.mkdir()
        self.file = folder / "tables.toml"
        self.file.write_text("[tables]\n")
        config = folder / "penstock.toml"
        config.write_text(
            f'[catalog.lake]\npath = "{self.folder}/*"\nexclude = ["tmp_*"]\nrefreshIntervalMs = {every_ms}\n'
            f'[catalog.more]\nfile = "{self.file}"\nrefreshIntervalMs = {every_ms}\n'
        )
        self.server = Served(folder, golden.table(OTHER), flags=["--config", str(config)])

    @property
    def flags(self) -> list[str]:
        return ["--server", self.server.address]

    def put(self, name: str, case: str = CASE) -> None:
        """Puts a copy of a golden table at `lake/NAME`."""
        (self.folder.parent / "copies").mkdir(exist_ok=True)
        self.golden.copy(case, self.folder.parent / "copies").rename(self.folder / name)

    def names(self, pattern: str = "*", *, refresh: bool = True) -> list[str]:
        """The served names after a listing."""
        client = self.server.client()
        if refresh:
            client.refresh_tables()
        return [each.table for each in client.list_tables(pattern).tables]

    def check_rows(self, table: str, case: str = CASE) -> None:
        rows = penstock.read(table, server=self.server.address).read_all()
        assert difference(rows, self.golden.expected(case, "snapshot")) == ""

    def reader(self, table: str, reader_id: str = "r") -> Consumer:
        return Consumer(
            self.server.address, table, group="g", reader_id=reader_id, query="cdc", cdc_format="hudi", max_splits=2
        )

    def group(self, table: str) -> tuple[str, str]:
        """State of the group, and the code of its error."""
        described = self.server.client().describe_group(table, "g")
        return described.summary.state, described.error_code


@pytest.fixture
def lake(tmp_path: pathlib.Path, golden: GoldenTables) -> Iterator[Lake]:
    """A lake with the table `orders`."""
    lake = Lake(tmp_path, golden)
    lake.put("orders")
    with lake.server:
        yield lake


def test_new_tables_are_read_and_renamed_and_excluded_ones_are_not(lake: Lake) -> None:
    assert lake.names(refresh=False) == ["lake.orders", "t"]
    lake.check_rows("lake.orders")
    lake.put("trips", OTHER)
    lake.put("tmp_x")
    (lake.folder / "no_table").mkdir()
    lake.file.write_text(f'[tables]\ncopy = "{lake.folder / "orders"}"\n')
    assert lake.names() == ["lake.orders", "lake.trips", "more.copy", "t"]
    lake.check_rows("lake.trips", OTHER)
    lake.check_rows("more.copy")
    (lake.folder / "orders").rename(lake.folder / "sales")
    lake.file.write_text("[tables\n")
    assert lake.names("l*") == ["lake.sales", "lake.trips"]
    with pytest.raises(TableNotFound, match=r"no table 'lake\.orders' is registered here"):
        penstock.read("lake.orders", server=lake.server.address)
    more = lake.server.client().list_tables("more.*", catalogs=True)
    assert [each.table for each in more.tables] == ["more.copy"]  # the damaged file keeps the last listing
    assert [(each.catalog, bool(each.error)) for each in more.catalogs] == [("lake", False), ("more", True)]


@pytest.mark.exhaustive
def test_group_waits_while_its_table_is_gone_and_then_goes_on(lake: Lake) -> None:
    batches: list[pa.RecordBatch] = []
    with lake.reader("lake.orders") as reader:
        first = until(lambda: reader.poll(0), "a batch")
        batches.append(first.batch)
        reader.commit(first)
        (lake.folder / "orders").rename(lake.folder / ".away")
        assert lake.names() == ["t"]
        assert lake.server.client().list_groups("lake.orders")[0].state in ("running", "waiting")
        (lake.folder / ".away").rename(lake.folder / "orders")
        assert lake.names() == ["lake.orders", "t"]
        batches += drain(reader)
    check_changes(lake.golden, batches)
    assert differing(lake.golden, batches[1:]) != []  # the comparison finds a batch that is missing


@pytest.mark.exhaustive
def test_table_that_turns_into_another_stops_its_groups_only(lake: Lake) -> None:
    lake.put("trips")
    assert lake.names("lake.*") == ["lake.orders", "lake.trips"]
    for table in ("lake.orders", "lake.trips"):
        with lake.reader(table) as reader:
            check_changes(lake.golden, drain(reader))
    (lake.folder / "orders").rename(lake.folder / ".away")
    lake.put("orders", OTHER)
    assert lake.names("lake.*") == ["lake.orders", "lake.trips"]
    until(lambda: lake.group("lake.orders")[0] == "stopped", "the group of the other table stops")
    error = lake.server.client().describe_group("lake.orders", "g").error
    assert "the table was recreated" in error and "\n" not in error
    assert lake.group("lake.trips") == ("running", "")
    lake.check_rows("lake.orders", OTHER)


def test_catalog_that_is_down_keeps_its_tables_and_the_rest_goes_on(lake: Lake) -> None:
    lake.folder.rename(lake.folder.with_name("away"))
    statuses = {each.catalog: each for each in lake.server.client().refresh_tables()}
    assert "does not exist" in statuses["lake"].error and statuses["lake"].error_code
    assert (statuses["lake"].tables, statuses["more"].error) == (1, "")
    assert lake.names(refresh=False) == ["lake.orders", "t"]
    assert lake.server.serves() == "SERVING"
    lake.check_rows("t", OTHER)
    with pytest.raises(PenstockError):
        penstock.read("lake.orders", server=lake.server.address).read_all()
    lake.folder.with_name("away").rename(lake.folder)
    (status,) = lake.server.client().refresh_tables("lake")
    assert (status.error, status.error_code) == ("", "")
    lake.check_rows("lake.orders")


@pytest.mark.exhaustive
def test_added_tables_survive_a_restart_and_removed_ones_do_not_come_back(
    lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    path = str(lake.golden.table(OTHER))
    assert run(["tables", "add", "extra.a", path, *lake.flags]) == 0
    assert run(["tables", "add", "extra.b", path, "--poll-interval", "1s", *lake.flags]) == 0
    lake.server.kill()
    lake.server.start()
    assert lake.names("extra.*", refresh=False) == ["extra.a", "extra.b"]
    lake.check_rows("extra.b", OTHER)
    assert run(["tables", "remove", "extra.a", *lake.flags]) == 0
    lake.server.kill()
    lake.server.start()
    assert lake.names("extra.*", refresh=False) == ["extra.b"]
    capfd.readouterr()
    assert run(["tables", "remove", "lake.orders", *lake.flags]) != 0
    assert "catalog lake" in capfd.readouterr().err
    assert run(["tables", "add", "extra.c", str(lake.folder), *lake.flags]) != 0
    assert lake.names("extra.*", refresh=False) == ["extra.b"]


def test_command_lists_tables_catalogs_and_problems(lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    lake.put("a b")
    assert run(["tables", "refresh", "lake", "--format", "json", *lake.flags]) == 0
    (status,) = json.loads(capfd.readouterr().out)
    assert (status["tables"], status["problem_count"], status["error_code"]) == (1, 1, None)
    assert run(["tables", "list", "lake.*", "--format", "json", *lake.flags]) == 0
    (listed,) = json.loads(capfd.readouterr().out)
    assert listed == {
        "table": "lake.orders",
        "source": "catalog lake",
        "path": str(lake.folder / "orders"),
        "error_code": None,
        "error": None,
    }
    assert run(["tables", "list", "--catalogs", *lake.flags]) == 0
    printed = capfd.readouterr().out
    assert "folders" in printed and "not served: its name has characters" in printed
    (lake.folder / "orders").rename(lake.folder.with_name("gone"))
    lake.file.unlink()
    assert run(["tables", "refresh", *lake.flags]) == 1
    assert "does not exist" in capfd.readouterr().out


def test_new_table_is_served_without_a_request(tmp_path: pathlib.Path, golden: GoldenTables) -> None:
    lake = Lake(tmp_path, golden, every_ms=1_000)
    with lake.server:
        assert lake.names(refresh=False) == ["t"]
        lake.put("orders")
        until(lambda: lake.names(refresh=False) == ["lake.orders", "t"], "the new table is served")
        lake.check_rows("lake.orders")


def test_tables_of_a_server_need_a_server() -> None:
    with pytest.raises(ConfigurationError):
        penstock.Consumer(None, "lake.orders", group="g", reader_id="r").__enter__()
