"""The metrics of a Flight server: calls by status, open streams, rows and bytes by table."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from penstock.engine.flight.metrics import FlightMetrics, status_of
from penstock.engine.flight.run import RunningFlightServer
from penstock.engine.flight.streams import OpenStreams
from penstock.enumerator.server.metrics.catalog import FLIGHT_METRICS
from penstock.proto.errors import ConfigurationError
from tests.loopback_ports import free_port
from tests.unit.engine.flight.served import Client, served

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

TABLE = "A_merge_event_long_v9_h120"


@pytest.fixture
def metrics_at() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def server(golden: GoldenTables, metrics_at: str) -> Iterator[RunningFlightServer]:
    with served({"orders": golden.table(TABLE)}, {"metrics_listen": metrics_at}) as running:
        yield running


def scraped(metrics_at: str) -> dict[str, float]:
    """The samples by name and labels, without histograms and times of creation."""
    with urllib.request.urlopen(f"http://{metrics_at}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples if "_bucket" not in name and "_created" not in name}


def call(kind: str, name: str, code: str = "") -> str:
    status = f'grpc_code="{code}",' if code else ""
    metric = "grpc_server_handled_total" if code else "grpc_server_started_total"
    labels = f'{status}grpc_method="{name}",grpc_service="arrow.flight.protocol.FlightService",grpc_type="{kind}"'
    return f"{metric}{{{labels}}}"


@pytest.mark.golden
def test_calls_streams_rows_and_bytes_are_counted(server: RunningFlightServer, metrics_at: str) -> None:
    client = Client(server.address)
    assert scraped(metrics_at) == {"penstock_flight_open_streams": 0.0}
    info = client.info("orders")
    tables = [client.get(endpoint.ticket).read_all() for endpoint in info.endpoints]
    with pytest.raises(pa.ArrowInvalid):
        client.info("orders", colums=["v"])
    with pytest.raises(KeyError):
        client.info("trucks")
    with pytest.raises(fl.FlightUnauthorizedError):
        client.get(b"forged").read_all()
    with pytest.raises(NotImplementedError):
        list(client.connection.do_action("stop", client.options))
    samples = scraped(metrics_at)
    expected: dict[str, float] = {
        call("unary", "GetFlightInfo"): 3,
        call("unary", "GetFlightInfo", "OK"): 1,
        call("unary", "GetFlightInfo", "InvalidArgument"): 1,
        call("unary", "GetFlightInfo", "NotFound"): 1,
        call("server_stream", "DoGet"): len(tables) + 1,
        call("server_stream", "DoGet", "OK"): len(tables),
        call("server_stream", "DoGet", "PermissionDenied"): 1,
        call("unary", "other"): 1,
        call("unary", "other", "Unimplemented"): 1,
        'penstock_flight_rows_total{table="orders"}': sum(table.num_rows for table in tables),
        "penstock_flight_open_streams": 0,
    }
    assert {name: samples.get(name) for name in expected} == expected
    assert samples['penstock_flight_rows_total{table="orders"}'] > 0
    assert samples['penstock_flight_bytes_total{table="orders"}'] > 0
    assert not [name for name in samples if "trucks" in name], "a caller chooses no label"


def test_open_stream_is_counted_until_it_is_closed() -> None:
    streams = OpenStreams(9, 9, 1.0, lambda: 0.0)
    registry = FlightMetrics(streams).registry

    def batches() -> Generator[pa.RecordBatch, None, None]:
        yield pa.record_batch({"a": [1]})

    counts = [registry.get_sample_value("penstock_flight_open_streams")]
    stream = streams.open(batches(), threading.Event(), lambda stream, error: None)
    counts.append(registry.get_sample_value("penstock_flight_open_streams"))
    assert len(list(stream)) == 1
    counts.append(registry.get_sample_value("penstock_flight_open_streams"))
    assert counts == [0, 1, 0]


@pytest.mark.golden
def test_port_that_is_in_use_is_refused_and_closed_with_the_server(golden: GoldenTables, metrics_at: str) -> None:
    settings = {"metrics_listen": metrics_at}
    with served({"orders": golden.table(TABLE)}, settings):
        with (
            pytest.raises(ConfigurationError, match=f"metricsListen: cannot listen at {metrics_at}"),
            served({"orders": golden.table(TABLE)}, settings),
        ):
            pass
        assert scraped(metrics_at)
    with served({"orders": golden.table(TABLE)}, settings):
        assert scraped(metrics_at)


def test_metrics_are_exposed_as_their_entries_declare() -> None:
    exposed = {family.name: family for family in FlightMetrics(OpenStreams(1, 1, 1.0, lambda: 0.0)).registry.collect()}
    assert exposed.keys() == FLIGHT_METRICS.keys()
    for name, entry in FLIGHT_METRICS.items():
        assert (exposed[name].type, exposed[name].documentation) == (entry.type, entry.doc)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, "OK"),
        (fl.FlightUnauthenticatedError("x"), "Unauthenticated"),
        (fl.FlightUnavailableError("x"), "Unavailable"),
        (fl.FlightInternalError("x"), "Internal"),
        (pa.ArrowCancelled("x"), "Cancelled"),
        (fl.FlightServerError("x"), "Unknown"),
    ],
)
def test_status_of_an_error(error: BaseException | None, status: str) -> None:
    assert status_of(error) == status
