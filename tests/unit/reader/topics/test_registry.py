"""The registry over HTTP, against a small server of the test's own."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock.proto.errors import ConfigurationError, KafkaUnavailable, PermissionDenied, Unauthenticated
from penstock.reader.topics.errors import Unfit
from penstock.reader.topics.registry import registry_of
from penstock.table.schema.avro import MAX_JSON_BYTES

TOKEN = "Basic " + base64.b64encode(b"user:p@ss").decode()
ANSWERS: dict[str, tuple[int, bytes]] = {
    "/base/schemas/ids/1": (200, json.dumps({"schema": '"long"'}).encode()),
    "/base/schemas/ids/2": (200, json.dumps({"schema": "{}", "schemaType": "JSON"}).encode()),
    "/base/schemas/ids/3": (200, json.dumps({"schema": '"x"', "references": [{"name": "x"}]}).encode()),
    "/base/schemas/ids/4": (500, b"{}"),
    "/base/schemas/ids/5": (200, b"<html>"),
    "/base/schemas/ids/6": (200, b"{}"),
    "/base/schemas/ids/7": (403, b"{}"),
    "/base/schemas/ids/8": (302, b""),
    "/base/schemas/ids/9": (200, b'"' + b"x" * MAX_JSON_BYTES + b'"'),
}


class Handler(BaseHTTPRequestHandler):
    seen: list[str]

    def do_GET(self) -> None:
        type(self).seen.append(self.path)
        status, body = ANSWERS.get(self.path, (404, b'{"error_code": 40403}'))
        if self.headers["Authorization"] != TOKEN:
            status, body = 401, b""
        self.send_response(status)
        self.send_header("Location", "/base/schemas/ids/1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    Handler.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def url_of(server: ThreadingHTTPServer, user: str = "user:p%40ss@") -> str:
    return f"http://{user}127.0.0.1:{server.server_address[1]}/base/"


def test_a_schema_is_asked_for_once_whoever_reads(server: ThreadingHTTPServer) -> None:
    for _ in range(3):
        assert registry_of(url_of(server)).schema(1) == '"long"'
    assert Handler.seen == ["/base/schemas/ids/1"]


@pytest.mark.parametrize(
    ("schema_id", "error", "problem"),
    [
        (2, Unfit, "schema 2 is one of JSON, expected Avro"),
        (3, Unfit, "schema 3 refers to other schemas"),
        (4, KafkaUnavailable, "status 500"),
        (5, KafkaUnavailable, "is no JSON"),
        (6, KafkaUnavailable, "has no schema"),
        (7, PermissionDenied, "status 403"),
        (8, KafkaUnavailable, "status 302"),
        (9, Unfit, "has more than"),
        (404, Unfit, "schema 404 is not known"),
    ],
)
def test_answers_that_are_no_schema(
    server: ThreadingHTTPServer, schema_id: int, error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem) as caught:
        registry_of(url_of(server)).schema(schema_id)
    assert "p@ss" not in str(caught.value)
    assert "p%40ss" not in str(caught.value)


def test_without_the_password(server: ThreadingHTTPServer) -> None:
    with pytest.raises(Unauthenticated, match="status 401"):
        registry_of(url_of(server, user="")).schema(1)


def test_no_server_there(server: ThreadingHTTPServer) -> None:
    url = url_of(server)
    server.shutdown()
    server.server_close()
    with pytest.raises(KafkaUnavailable, match="does not answer: ConnectionRefusedError"):
        registry_of(url + "gone").schema(1)


@pytest.mark.parametrize("url", ["", "host:1", "ftp://host", "http://", "http://host:x", "http://[::1"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ConfigurationError, match="its address must be like"):
        registry_of(url)
