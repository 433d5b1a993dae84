"""The calls of a Flight server, by pyarrow's client: what is listed, planned and sent, and what is refused."""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import penstock
from penstock.engine.flight import tables as flight_tables
from penstock.engine.flight.run import RunningFlightServer
from penstock.engine.flight.tables import MAX_PLANS, FlightTables
from penstock.engine.flight.ticket import tickets_of
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.run import serve_enumerator
from penstock.proto.model.reports import TableDescription
from tests.unit.engine.flight.served import Client, descriptor, served

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.golden
COW, MOR = "B_v9_inc_cow", "A_compaction_then_updates_v9_h120"


@pytest.fixture(scope="module")
def server(golden: GoldenTables) -> Iterator[RunningFlightServer]:
    """A server of two tables for everybody on this machine."""
    with served({"cow": golden.table(COW), "mor": golden.table(MOR)}) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningFlightServer) -> Client:
    return Client(server.address)


def test_list_flights(client: Client, golden: GoldenTables) -> None:
    tables = client.tables()
    assert sorted(tables) == ["cow", "mor"]
    for name, case in (("cow", COW), ("mor", MOR)):
        flight, path = tables[name], str(golden.table(case))
        assert flight.schema.equals(penstock.read(path).schema)
        assert (flight.endpoints, flight.total_records, flight.total_bytes) == ([], -1, -1)
        newest = EmbeddedEnumerator().describe_table(path).newest
        assert json.loads(flight.app_metadata) == {"newest": str(newest)}


def test_table_whose_schema_cannot_be_parsed_is_not_listed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    describe = FlightTables.describe

    def damaged(self: FlightTables, name: str) -> TableDescription:
        description = describe(self, name)
        schema = '{"type": "record", "name": "t", "fields": [{"name": "a", "type": "nope"}]}'
        return replace(description, schema_json=schema) if name == "cow" else description

    monkeypatch.setattr(FlightTables, "describe", damaged)
    assert list(client.tables()) == ["mor"]


def test_plan_that_gets_no_turn_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_tables, "PLAN_WAIT_S", 0)
    monkeypatch.setattr(threading.BoundedSemaphore, "acquire", lambda *_, **__: False)
    with pytest.raises(pa.ArrowException, match="OVERLOADED"):
        client.info("mor")


def test_flight_of_a_path(client: Client, golden: GoldenTables) -> None:
    info = client.info("mor")
    expected = penstock.read(str(golden.table(MOR))).read_all()
    assert info.schema.equals(expected.schema)
    assert len(info.endpoints) > 1
    assert (info.total_records, info.ordered) == (-1, False)
    assert info.total_bytes > 0
    assert all(endpoint.locations == [] for endpoint in info.endpoints)
    assert client.rows("mor").equals(expected)


@pytest.mark.parametrize(
    "keys",
    [
        {"query": "incremental", "after": "earliest"},
        {"query": "read_optimized"},
        {"columns": ["v", "id"], "where": "id > 'k1'"},
        {"columns": "v,id", "batchRows": 1},
        {"meta": False, "where": [["id", ">", "k1"]]},
        {"limit": 1},
        {"limit": 0},
        {"limit": 5, "batchRows": 2},
        {"limit": 10**6},
        {"query": "incremental", "after": "latest"},
    ],
)
@pytest.mark.parametrize("table", ["cow", "mor"])
def test_rows_of_a_command(client: Client, golden: GoldenTables, table: str, keys: dict[str, Any]) -> None:
    by_python = {"batchRows": "batch_rows"}
    options = {by_python.get(name, name): value for name, value in keys.items()}
    if isinstance(options.get("where"), list):
        options["where"] = [tuple(condition) for condition in options["where"]]
    expected = penstock.read(str(golden.table({"cow": COW, "mor": MOR}[table])), **options).read_all()
    assert client.rows(table, **keys).equals(expected)
    assert client.schema(table, **keys).equals(expected.schema)


def test_ranges_are_ordered_and_a_limit_has_one_endpoint(client: Client) -> None:
    assert client.info("mor", query="incremental", after="earliest").ordered
    assert len(client.info("mor", limit=3).endpoints) == 1
    empty = client.info("mor", query="incremental", after="latest")
    assert (empty.endpoints, empty.total_records) == ([], 0)


def test_schema_without_a_plan(client: Client) -> None:
    assert client.schema("mor").equals(client.info("mor").schema)


def test_splits_are_read_in_any_order_and_again(client: Client) -> None:
    info = client.info("mor")
    forward = [client.get(endpoint.ticket).read_all() for endpoint in info.endpoints]
    backward = [client.get(endpoint.ticket).read_all() for endpoint in reversed(info.endpoints)]
    assert forward == backward[::-1]


@pytest.mark.parametrize(
    ("keys", "kind", "text"),
    [
        ({"columns": ["nope"]}, pa.ArrowInvalid, "CONFIGURATION: .*no column 'nope'"),
        ({"where": "v >"}, pa.ArrowInvalid, "CONFIGURATION: .*filter 'v >'"),
        ({"where": "nope = 1"}, pa.ArrowInvalid, "CONFIGURATION: .*nope"),
        ({"colums": ["v"]}, pa.ArrowInvalid, "did you mean 'columns'"),
        ({"query": "incremental"}, pa.ArrowInvalid, "needs the option after"),
        ({"query": "incremental", "after": "2", "upto": "1"}, pa.ArrowInvalid, "CONFIGURATION: "),
    ],
)
def test_bad_requests(client: Client, keys: dict[str, Any], kind: Any, text: str) -> None:
    for call in (client.info, client.schema):
        with pytest.raises(kind, match=f"^[^\n]*{text}"):
            call("cow", **keys)


def test_errors_contain_no_path_of_the_server_and_its_code(client: Client) -> None:
    """pyarrow adds a traceback to some errors."""
    with pytest.raises(pa.ArrowInvalid) as caught:
        client.info("cow", columns=["nope"])
    source = pathlib.Path(penstock.__file__).parent
    assert str(source) not in str(caught.value) and "engine/flight" not in str(caught.value)
    assert "/" not in str(caught.value).replace("pyarrow/_flight.pyx", "")


@pytest.mark.parametrize("name", ["nope", "cow/../mor", "/etc", "", "c" * 301, "COW"])
def test_unknown_tables(client: Client, name: str) -> None:
    with pytest.raises((pa.ArrowKeyError, pa.ArrowInvalid), match=r"TABLE_NOT_FOUND: no table|expected a name of 1 to"):
        client.info(name)
    with pytest.raises((pa.ArrowKeyError, pa.ArrowInvalid)):
        client.schema(name, query="snapshot")


def test_huge_descriptors(client: Client) -> None:
    with pytest.raises(pa.ArrowInvalid, match="command of 33554432 bytes, expected at most") as caught:
        client.connection.get_flight_info(fl.FlightDescriptor.for_command(b" " * (32 << 20)), client.options)
    assert len(str(caught.value)) < 8192
    with pytest.raises(pa.ArrowInvalid, match="path of 100000 parts"):
        client.connection.get_flight_info(fl.FlightDescriptor.for_path(*(["a"] * 100_000)), client.options)
    assert client.rows("cow").num_rows


@pytest.mark.parametrize("text", ["é" * 60_000, "\n" * 60_000, "\0" * 5_000, "%" * 60_000, "a" * 60_000])
def test_long_values_give_errors_that_arrive(client: Client, text: str) -> None:
    """gRPC drops headers above 8 KiB, and the error with them."""
    for keys in ({"columns": [text]}, {"where": text}, {"query": text}, {text: 1}):
        with pytest.raises(pa.ArrowInvalid, match="CONFIGURATION: "):
            client.info("cow", **keys)


def test_calls_that_do_not_exist(client: Client) -> None:
    assert list(client.connection.list_actions(client.options)) == []
    with pytest.raises(pa.ArrowNotImplementedError, match="DoAction: this server only lists tables"):
        list(client.connection.do_action(fl.Action("drop", b"cow"), client.options))
    with pytest.raises(pa.ArrowNotImplementedError, match="DoPut: this server only lists tables"):
        writer, _ = client.connection.do_put(descriptor("cow"), pa.schema([]), client.options)
        writer.close()
    with pytest.raises(pa.ArrowInvalid, match="ListFlights: criteria are not supported"):
        list(client.connection.list_flights(b"cow", client.options))


def test_plans_of_an_enumerators_server(golden: GoldenTables) -> None:
    paths = {"mor": str(golden.table(MOR))}
    expected = penstock.read(paths["mor"]).read_all()
    with serve_enumerator(EmbeddedEnumerator(paths), "127.0.0.1:0") as enumerator:
        with served(paths, planner={"server": enumerator.address}) as running:
            client = Client(running.address)
            assert client.rows("mor").equals(expected)
            assert client.tables()["mor"].schema.equals(expected.schema)
            limited = client.rows("mor", limit=3)
            assert limited.equals(expected.slice(0, 3))
        enumerator.stop(0)
    with (
        served(paths, planner={"server": enumerator.address}) as running,
        pytest.raises(fl.FlightUnavailableError, match="SERVER_UNAVAILABLE: "),
    ):
        Client(running.address).info("mor")


def test_tickets_are_made_in_the_turn_of_their_plan(golden: GoldenTables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each caller's tickets would be in memory at once."""
    turns: list[int] = []
    with served({"cow": golden.table(COW)}) as running:

        def recorded(*arguments: Any) -> Iterator[bytes]:
            turns.append(running.tables._plans._value)
            return tickets_of(*arguments)

        monkeypatch.setattr("penstock.engine.flight.server.tickets_of", recorded)
        assert Client(running.address).rows("cow").num_rows
        assert (turns, running.tables._plans._value) == ([MAX_PLANS - 1], MAX_PLANS)
