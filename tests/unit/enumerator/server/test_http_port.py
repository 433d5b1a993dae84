"""The HTTP port: metrics as before, the page and its document, headers, and nothing else."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.enumerator.activity import Activity
from penstock.enumerator.observer import GroupGauges
from penstock.enumerator.server.metrics import Metrics, MetricsPort

EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture
def port() -> Iterator[MetricsPort]:
    metrics, activity = Metrics(), Activity(lambda: 1_700_000_000_000)
    gauges = GroupGauges(pending_splits=3, assigned_splits=2, finished_splits=5)
    for told in (metrics, activity):
        told.group_gauges(EVIL, "g", gauges)
    made = MetricsPort(metrics, "127.0.0.1:0", activity)
    yield made
    made.close()


def asked(port: MetricsPort, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(port.address, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def test_metrics_are_where_they_were(port: MetricsPort) -> None:
    status, headers, body = asked(port, "/metrics")
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
def test_the_page_comes_from_here_alone(port: MetricsPort, path: str, kind: str) -> None:
    status, headers, body = asked(port, path)
    assert (status, headers["content-type"]) == (200, kind)
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    assert b"http://" not in body.replace(b"http://www.w3.org/2000/svg", b"") and b"https://" not in body
    if path == "/":
        assert b"<script>" not in body and b"style=" not in body and b"onclick" not in body


def test_the_document_holds_names_as_data(port: MetricsPort) -> None:
    told = json.loads(asked(port, "/status.json")[2])
    assert [(one["table"], one["pending"], one["held"]) for one in told["groups"]] == [(EVIL, 3, 2)]


@pytest.mark.parametrize("path", ["/nosuch", "/page/index.html", "/../settings.py", "/status.json/", "*"])
def test_nothing_else_is_there(port: MetricsPort, path: str) -> None:
    assert asked(port, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD"])
def test_it_is_read_only(port: MetricsPort, method: str) -> None:
    assert asked(port, "/status.json", method)[0] == 501


def test_metrics_alone_without_activity() -> None:
    port = MetricsPort(Metrics(), "127.0.0.1:0")
    try:
        assert asked(port, "/")[1]["content-type"].startswith("text/plain")
        assert asked(port, "/status.json")[0] == 404
    finally:
        port.close()
