"""The registry over HTTP, against a small server of the test's own."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import logging
import pathlib
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock.kafka import schema_registry
from penstock.kafka.protocols import UnusableSchema
from penstock.kafka.schema_registry import MAX_SCHEMA_BYTES, open_registry
from penstock.proto.errors import ConfigurationError, KafkaUnavailable, PermissionDenied, Unauthenticated
from tests.certificates import Authority

TOKEN = "Basic " + base64.b64encode(b"user:p@ss").decode()
TAGGED = {"tags": {"**.ssn": ["PII", "SECRET"]}, "properties": {"owner": "x"}}
ANSWERS: dict[str, tuple[int, bytes]] = {
    "/base/schemas/ids/1": (200, json.dumps({"schema": '"long"'}).encode()),
    "/base/schemas/ids/2": (200, json.dumps({"schema": "{}", "schemaType": "JSON"}).encode()),
    "/base/schemas/ids/3": (200, json.dumps({"schema": '"x"', "references": [{"name": "x"}]}).encode()),
    "/base/schemas/ids/4": (500, b"{}"),
    "/base/schemas/ids/5": (200, b"<html>"),
    "/base/schemas/ids/6": (200, b"{}"),
    "/base/schemas/ids/7": (403, b"{}"),
    "/base/schemas/ids/8": (302, b""),
    "/base/schemas/ids/9": (200, b'"' + b"x" * MAX_SCHEMA_BYTES + b'"'),
    "/base/schemas/ids/10": (200, json.dumps({"schema": '"int"', "metadata": TAGGED}).encode()),
    "/base/schemas/ids/11": (200, gzip.compress(json.dumps({"schema": '"int"'}).encode())),
    "/base/schemas/ids/12": (200, b"[" * 100_000),
    "/base/schemas/ids/13": (200, b"[1]"),
    "/base/schemas/ids/14": (200, b""),
    "/base/schemas/ids/15": (200, json.dumps({"schema": 7}).encode()),
    "/a%2Cb/schemas/ids/1": (200, json.dumps({"schema": '"long"'}).encode()),
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
        if body.startswith(b"\x1f\x8b"):
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    Handler.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield http
        http.shutdown()
        thread.join()


def url_of(server: ThreadingHTTPServer, user: str = "user:p%40ss@", path: str = "/base/") -> str:
    return f"http://{user}127.0.0.1:{server.server_address[1]}{path}"


def test_schema_is_requested_once_by_all_readers(server: ThreadingHTTPServer) -> None:
    for _ in range(3):
        assert open_registry(url_of(server)).schema(1) == '"long"'
    assert Handler.seen == ["/base/schemas/ids/1"]


def test_schema_cache_is_emptied_when_it_is_full(server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "MAX_SCHEMAS", 1)
    registry = open_registry(url_of(server))
    for schema_id in (1, 10, 10, 1):
        registry.schema(schema_id)
    assert Handler.seen == [f"/base/schemas/ids/{schema_id}" for schema_id in (1, 10, 1)]


@pytest.mark.parametrize(
    ("schema_id", "error", "problem"),
    [
        (2, UnusableSchema, "schema 2 is one of JSON, expected Avro"),
        (3, UnusableSchema, "schema 3 refers to other schemas"),
        (4, KafkaUnavailable, "status 500"),
        (5, KafkaUnavailable, "is no JSON"),
        (6, KafkaUnavailable, "has no schema"),
        (7, PermissionDenied, "status 403"),
        (8, KafkaUnavailable, "status 302"),
        (9, UnusableSchema, "has more than"),
        (11, KafkaUnavailable, "compresses its answers"),
        (12, KafkaUnavailable, "is no JSON"),
        (13, KafkaUnavailable, "has no schema"),
        (14, KafkaUnavailable, "has no schema"),
        (15, KafkaUnavailable, "has no schema"),
        (404, UnusableSchema, "schema 404 is not known"),
    ],
)
def test_answer_without_a_schema_is_an_error_after_one_request(
    server: ThreadingHTTPServer, schema_id: int, error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem) as caught:
        open_registry(url_of(server)).schema(schema_id)
    assert "p@ss" not in str(caught.value)
    assert "p%40ss" not in str(caught.value)
    assert Handler.seen == [f"/base/schemas/ids/{schema_id}"]


def test_schema_with_tagged_fields_is_read(server: ThreadingHTTPServer) -> None:
    assert open_registry(url_of(server)).schema(10) == '"int"'


def test_url_path_with_a_comma_is_one_registry(server: ThreadingHTTPServer) -> None:
    assert open_registry(url_of(server, path="/a,b")).schema(1) == '"long"'


def test_password_is_in_no_log_line(server: ThreadingHTTPServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        open_registry(url_of(server)).schema(1)
    assert caplog.text
    for secret in ("p@ss", "p%40ss", TOKEN.removeprefix("Basic ")):
        assert secret not in caplog.text


def test_missing_password_is_unauthenticated(server: ThreadingHTTPServer) -> None:
    with pytest.raises(Unauthenticated, match="status 401"):
        open_registry(url_of(server, user="")).schema(1)


def test_unreachable_registry_is_unavailable(server: ThreadingHTTPServer) -> None:
    url = url_of(server)
    server.shutdown()
    server.server_close()
    with pytest.raises(KafkaUnavailable, match="does not answer: ConnectionRefusedError"):
        open_registry(url + "gone").schema(1)


@pytest.mark.parametrize(("is_trusted", "message"), [(True, ""), (False, "does not answer: SSLCertVerificationError")])
def test_certificate_is_verified_by_the_authorities_of_the_system(
    server: ThreadingHTTPServer,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    is_trusted: bool,
    message: str,
) -> None:
    authority = Authority(tmp_path / "own")
    pair = authority.signed("registry", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    trusted = authority if is_trusted else Authority(tmp_path / "other")
    monkeypatch.setenv("SSL_CERT_FILE", trusted.ca)
    registry = open_registry(url_of(server).replace("http:", "https:"))
    if is_trusted:
        assert registry.schema(1) == '"long"'
        return
    with pytest.raises(KafkaUnavailable, match=message):
        registry.schema(1)


def test_proxy_of_the_environment_is_not_used(server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert open_registry(url_of(server)).schema(1) == '"long"'


def subject_hash(common_name: str) -> str:
    """The file name of an authority in OpenSSL's directory of authorities: `X509_NAME_hash` of its common name."""
    value = common_name.lower().encode()
    attribute = b"\x06\x03\x55\x04\x03\x0c" + bytes([len(value)]) + value
    sequence = b"\x30" + bytes([len(attribute)]) + attribute
    digest = hashlib.sha1(b"\x31" + bytes([len(sequence)]) + sequence, usedforsecurity=False).digest()
    return f"{int.from_bytes(digest[:4], 'little'):08x}"


def test_authorities_of_the_directory_are_trusted_beside_those_of_the_file(
    server: ThreadingHTTPServer, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "own")
    pair = authority.signed("registry", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    (tmp_path / "authorities").mkdir()
    name = subject_hash("penstock test authority")
    (tmp_path / "authorities" / f"{name}.0").write_bytes(pathlib.Path(authority.ca).read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", Authority(tmp_path / "other", "another authority").ca)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "authorities"))
    assert open_registry(url_of(server).replace("http:", "https:")).schema(1) == '"long"'


@pytest.mark.parametrize("url", ["", "host:1", "ftp://host", "http://", "http://host:x", "http://[::1"])
def test_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="its address must be like"):
        open_registry(url)
