"""The HTTP port: metrics, the page and its document, headers, and bounds of connections."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import socket
import socketserver
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.enumerator.catalog_events import CatalogListed
from penstock.enumerator.groups.activity import Activity
from penstock.enumerator.groups.merged_groups import MAX_SHOWN_TABLES, merged_gauges
from penstock.enumerator.observer import (
    GroupGauges,
    GroupMeasured,
    LagMeasured,
    Observer,
    ReaderSplits,
    SplitEvent,
    StreamsMeasured,
)
from penstock.enumerator.server.config.settings import Settings
from penstock.enumerator.server.http.page_data import MAX_STREAMS, page_data
from penstock.enumerator.server.http.port import HttpBounds, HttpPort
from penstock.enumerator.server.metrics.prometheus import Metrics, MetricsPort
from penstock.enumerator.server.run import warn_of_open_ports
from penstock.proto.model.groups import GroupLag
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.server_status import StreamState, StreamStatus
from tests.progress import PROGRESS_S

EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture
def port() -> Iterator[MetricsPort]:
    metrics, activity = Metrics(), Activity(lambda: 1_700_000_000_000)
    gauges = GroupGauges(pending_splits=3, assigned_splits=2, finished_splits=5)
    observers: tuple[Observer, ...] = (metrics, activity)
    for observer in observers:
        observer.observe(GroupMeasured(EVIL, "g", gauges))
    created = MetricsPort(metrics, "127.0.0.1:0", activity)
    yield created
    created.close()


def http_get(port: MetricsPort, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(port.address, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    result = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return result


def test_metrics_have_their_former_path(port: MetricsPort) -> None:
    status, headers, body = http_get(port, "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain")
    assert "penstock_splits" in {family.name for family in text_string_to_metric_families(body.decode())}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/status.json", "application/json"),
        ("/status.json?x=1", "application/json"),
    ],
)
def test_page_loads_nothing_from_other_hosts(port: MetricsPort, path: str, kind: str) -> None:
    status, headers, body = http_get(port, path)
    assert (status, headers["content-type"]) == (200, kind)
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    assert b"http://" not in body.replace(b"http://www.w3.org/2000/svg", b"") and b"https://" not in body
    if path == "/":
        assert b"<script>" not in body and b"style=" not in body and b"onclick" not in body


def test_document_has_names_as_data(port: MetricsPort) -> None:
    reported = json.loads(http_get(port, "/status.json")[2])
    assert [(one["table"], one["pending"], one["held"]) for one in reported["groups"]] == [(EVIL, 3, 2)]


def test_document_has_streams() -> None:
    activity = Activity(lambda: 1_700_000_000_000)
    lag = GroupLag(commits=3, size_bytes=900, seconds=12.54, loss_commits=4)
    status = StreamStatus(
        table="t",
        name=EVIL,
        state=StreamState.HELD,
        committed=EARLIEST,
        planned=EARLIEST,
        silent_ms=1_500,
        watermark_us=-(2**63),
        lag=lag,
        alignment="clicks",
        ceiling_us=2_000,
    )
    activity.observe(StreamsMeasured((status,)))
    (stream,) = json.loads(json.dumps(page_data(activity)))["streams"]
    assert (stream["stream"], stream["state"], stream["silent_s"]) == (EVIL, "held", 1.5)
    assert (stream["watermark_ms"], stream["ceiling_ms"], stream["alignment"]) == (-9223372036854776, 2, "clicks")
    assert stream["lag"] == {
        "commits": 3,
        "seconds": 12.5,
        "loss_commits": 4,
        "loss_seconds": None,
        "holds_cleaner": False,
    }
    activity.observe(StreamsMeasured((status,) * (MAX_STREAMS + 1)))
    assert len(json.loads(json.dumps(page_data(activity)))["streams"]) == MAX_STREAMS


def test_document_has_catalogs_without_texts_of_errors() -> None:
    clock = [1_000]
    activity = Activity(lambda: clock[0])
    activity.observe(CatalogListed("lake", "", 7, 2, 1.25))
    clock[0] = 9_000
    activity.observe(CatalogListed("lake", "STORAGE", 7, 0, 3.0))
    activity.observe(CatalogListed(EVIL, "STORAGE", 0, 0, 3.0))
    evil, lake = json.loads(json.dumps(page_data(activity)))["catalogs"]
    assert (evil["catalog"], evil["listed_ms"]) == (EVIL, None)
    assert lake == {
        "catalog": "lake", "error": "STORAGE", "tables": 7, "problems": 0, "listed_ms": 1_000, "spent_s": 3.0
    }  # fmt: skip


def test_document_has_a_row_for_a_group_over_tables_and_for_its_worst_tables() -> None:
    activity = Activity(lambda: 1_700_000_000_000)
    member = GroupGauges(pending_splits=1, assigned_splits=0, finished_splits=0, over="s.*")
    for number in range(1000):
        activity.observe(GroupMeasured(f"s.{number:03}", "g", member))
        activity.observe(ReaderSplits(SplitEvent.ASSIGNED, f"s.{number:03}", "g", "r", (("p", 0),)))
        activity.observe(ReaderSplits(SplitEvent.FINISHED, f"s.{number:03}", "g", "r", (("p", 0),)))
    activity.observe(LagMeasured("s.777", "g", GroupLag(commits=1, size_bytes=1, seconds=60.0)))
    activity.observe(GroupMeasured("s.*", "g", merged_gauges([member] * 1000)))
    document = json.loads(json.dumps(page_data(activity)))
    whole, *tables = document["groups"]
    assert (whole["table"], whole["tables"], whole["pending"], whole["finished"]) == ("s.*", 1000, 1000, 1000)
    assert len(tables) == MAX_SHOWN_TABLES and {table["over"] for table in tables} == {"s.*"}
    assert "s.777" in {table["table"] for table in tables}
    assert {bar["over"] for bar in document["bars"]} == {"s.*"}


@pytest.mark.parametrize("path", ["/nosuch", "/page/index.html", "/../settings.py", "/status.json/", "*"])
def test_other_paths_are_not_found(port: MetricsPort, path: str) -> None:
    assert http_get(port, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD"])
def test_port_is_read_only(port: MetricsPort, method: str) -> None:
    assert http_get(port, "/status.json", method)[0] == 501


@contextlib.contextmanager
def bounded(seconds: float) -> Iterator[HttpPort]:
    """A port for three connections."""
    bounds = HttpBounds(connections=3, head_bytes=2000, seconds=seconds)
    port = HttpPort(Metrics().registry, "127.0.0.1", 0, bounds=bounds)
    try:
        yield port
    finally:
        port.close()


def connected(port: HttpPort, data: bytes = b"") -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", port.port), timeout=PROGRESS_S)
    peer.sendall(data)
    return peer


def received(peer: socket.socket) -> bytes:
    """The bytes received until the port closes the connection."""
    result = b""
    try:
        while piece := peer.recv(65536):
            result += piece
    except ConnectionError:
        pass
    peer.close()
    return result


GET = b"GET /metrics HTTP/1.0\r\n\r\n"


def test_connections_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    with bounded(seconds=PROGRESS_S) as port:
        idle = [connected(port) for _ in range(3)]
        assert [received(connected(port, GET)) for _ in range(3)] == [b""] * 3
        assert "3 connections are open: further ones are closed at once" in caplog.text
        idle.pop().close()
        while not (answer := received(connected(port, GET))):  # its thread is ending
            pass
        assert answer.startswith(b"HTTP/1.0 200")
        for peer in idle:
            peer.close()


def test_connection_without_a_thread_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_thread(server: object, request: object, client_address: object) -> None:
        raise RuntimeError("can't start new thread")

    with bounded(seconds=30) as port:
        with monkeypatch.context() as no_threads:
            no_threads.setattr(socketserver.ThreadingMixIn, "process_request", without_thread)
            assert [received(connected(port, GET)) for _ in range(3)] == [b""] * 3
        assert received(connected(port, GET)).startswith(b"HTTP/1.0 200")


def test_peer_that_sends_nothing_or_too_slowly_is_closed_in_time() -> None:
    with bounded(seconds=0.3) as port:
        assert received(connected(port)) == b""
        peer = connected(port, b"GET /metrics HTTP/1.0\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(1500):
                if select.select([peer], [], [], 0.02)[0]:
                    break
                peer.sendall(b"a")
            else:
                pytest.fail("the connection is open still")
        assert received(peer) == b""


@pytest.mark.parametrize(("line", "headers"), [("?" + "x" * 3000, ""), ("", "a: " + "b" * 3000 + "\r\n")])
def test_request_head_beyond_its_bound_is_refused(line: str, headers: str) -> None:
    data = f"GET /metrics{line} HTTP/1.0\r\n{headers}\r\n".encode()
    with bounded(seconds=60) as port:
        assert not received(connected(port, data)).startswith(b"HTTP/1.0 200")  # 431, or the connection is reset
        assert received(connected(port, GET)).startswith(b"HTTP/1.0 200")


def test_malformed_or_partial_request_affects_no_other() -> None:
    with bounded(seconds=60) as port:
        for data in (b"\x16\x03\x01\r\n\r\n", b"GET\r\n\r\n", b"\r\n\r\n", b"G"):
            peer = connected(port, data)
            peer.shutdown(socket.SHUT_WR)
            received(peer)
        assert received(connected(port, GET)).startswith(b"HTTP/1.0 200")


def test_address_beyond_loopback_is_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    for listen in ("127.0.0.1:9100", "[::1]:9100", ""):
        warn_of_open_ports(Settings(metrics_listen=listen))
    assert not caplog.records
    warn_of_open_ports(Settings(metrics_listen="0.0.0.0:9100"))
    (record,) = caplog.records
    assert record.levelname == "WARNING" and "metrics and the page at 0.0.0.0:9100" in record.getMessage()


def test_port_serves_only_metrics_without_activity() -> None:
    port = MetricsPort(Metrics(), "127.0.0.1:0")
    try:
        assert http_get(port, "/")[1]["content-type"].startswith("text/plain")
        assert http_get(port, "/status.json")[0] == 404
    finally:
        port.close()
