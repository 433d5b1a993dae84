"""Faults in the environment of a command: rights, region, port in use, certificates. One clear line, the documented
exit code. Faults that need a separate process (file modes, a full disk) are in test_process_faults."""

from __future__ import annotations

import contextlib
import datetime
import http.server
import pathlib
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import grpc
import pytest

from penstock.proto.client import client
from tests.certificates import Authority, Pair

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables
    from tests.unit.engine.cli.command_line import Cli, CommandResult

V9 = "A_merge_event_long_v9_h120"
DAY = datetime.timedelta(days=1)


def error_line(result: CommandResult, code: int, name: str) -> str:
    """The one line on stderr of the failed command."""
    assert (result.code, result.stdout) == (code, b""), result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error [{name}]: ")
    return line


class S3ErrorHandler(http.server.BaseHTTPRequestHandler):
    """An object store that answers every request with the same S3 error."""

    answer: ClassVar[tuple[int, str, str]] = (403, "AccessDenied", "Access Denied")

    def do_GET(self) -> None:
        status, code, text = self.answer
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{text}</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        if status == 301:
            self.send_header("x-amz-bucket-region", "eu-central-1")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def s3_error_server(status: int, code: str, text: str) -> Iterator[str]:
    """The URI of a table in this store."""
    handler = type("Handler", (S3ErrorHandler,), {"answer": (status, code, text)})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        port = server.server_address[1]
        yield f"s3://lake/orders?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        server.shutdown()
        thread.join()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ACCESS_KEY_ID", "k"), ("SECRET_ACCESS_KEY", "s"), ("EC2_METADATA_DISABLED", "true")):
        monkeypatch.setenv(f"AWS_{name}", value)


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("command", [["read"], ["timeline"], ["table", "desc"], ["splits", "plan"]])
@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        (403, "AccessDenied", "Access Denied"),
        (403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."),
        (403, "SignatureDoesNotMatch", "The request signature we calculated does not match"),
        (400, "ExpiredToken", "The provided token has expired."),
    ],
)
def test_missing_rights(cli: Cli, command: list[str], status: int, code: str, text: str) -> None:
    with s3_error_server(status, code, text) as table:
        line = error_line(cli(*command, table), 4, "STORAGE_DENIED")
    assert "s3://lake/orders" in line
    assert "check the credentials of this process" in line


WRONG_REGION = "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-central-1'"


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("command", [["read"], ["timeline"], ["table", "desc"], ["splits", "plan"]])
def test_wrong_region(cli: Cli, command: list[str]) -> None:
    """A signature for another region: S3 answers 400, and a HEAD request gets no body."""
    with s3_error_server(400, "AuthorizationHeaderMalformed", WRONG_REGION) as table:
        line = error_line(cli(*command, table), 2, "CONFIGURATION")
    assert "s3://lake/orders: the bucket is not in region us-east-1, it is in eu-central-1: give ?region=eu-" in line


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_wrong_region_of_the_environment(cli: Cli, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "us-east-1")
    with s3_error_server(400, "AuthorizationHeaderMalformed", WRONG_REGION) as table:
        line = error_line(cli("read", table.removesuffix("&region=us-east-1")), 2, "CONFIGURATION")
    assert line.endswith(
        f"not in region us-east-1, it is in eu-central-1: give ?region=eu-central-1 in the table's URI, or {variable}"
    )


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("PermanentRedirect", "The bucket must be addressed using the specified endpoint."),
        ("Moved", "another form"),
    ],
)
def test_bucket_of_another_endpoint(cli: Cli, code: str, text: str) -> None:
    with s3_error_server(301, code, text) as table:
        line = error_line(cli("read", table), 2, "CONFIGURATION")
    assert "the bucket is not in region us-east-1" in line and "AWS_REGION" in line


@pytest.mark.golden
@pytest.mark.parametrize("flag", ["--listen", "--metrics-listen"])
def test_port_in_use(cli: Cli, golden: GoldenTables, flag: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        line = error_line(cli("serve", "--table", f"a={golden.table(V9)}", flag, address), 2, "CONFIGURATION")
    assert f"cannot listen at {address}" in line


class TestCertificates:
    """Expired certificates of the server and of the client."""

    @pytest.fixture
    def authority(self, tmp_path: pathlib.Path) -> Authority:
        return Authority(tmp_path / "pki")

    @staticmethod
    def expired(authority: Authority, name: str) -> Pair:
        past = datetime.datetime.now(datetime.UTC) - 3 * DAY
        return authority.signed(name, "127.0.0.1", begin=past, end=past + DAY)

    def test_server_does_not_start_with_an_expired_certificate(self, cli: Cli, authority: Authority) -> None:
        pair = self.expired(authority, "server")
        file = pathlib.Path(pair.cert).with_name("penstock.toml")
        file.write_text(f'[tables]\na = "x"\n[tls]\ncert = "{pair.cert}"\nkey = "{pair.key}"\n')
        line = error_line(cli("serve", "--config", file), 2, "CONFIGURATION")
        assert "tls.cert" in line and "expired on" in line and "renew it" in line

    def test_client_refuses_an_expired_server_certificate(
        self, cli: Cli, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pair = self.expired(authority, "server")
        pem = tuple(pathlib.Path(path).read_bytes() for path in (pair.key, pair.cert))
        server = grpc.server(None)  # type: ignore[arg-type]
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pem]))
        server.start()
        monkeypatch.setattr(client.time, "sleep", lambda seconds: pytest.fail("it was retried"))
        try:
            for command in (["read", "t"], ["groups", "list"]):
                result = cli(*command, "--server", f"127.0.0.1:{port}", "--server-ca", authority.ca)
                line = error_line(result, 4, "UNAUTHENTICATED")
                assert "the server's certificate is not accepted: certificate has expired: renew it" in line
        finally:
            server.stop(None)

    def test_client_with_an_expired_certificate_is_refused(
        self, cli: Cli, authority: Authority, unused_port: int
    ) -> None:
        pair = self.expired(authority, "client")
        flags = ["--server-ca", authority.ca, "--server-cert", pair.cert, "--server-key", pair.key]
        line = error_line(cli("read", "t", "--server", f"127.0.0.1:{unused_port}", *flags), 4, "UNAUTHENTICATED")
        assert "option serverCert: the certificate in" in line and "expired on" in line
