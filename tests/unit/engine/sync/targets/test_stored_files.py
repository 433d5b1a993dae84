"""A file of an object store is replaced at once: what S3 is asked for when a part of it fails."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from penstock.engine.sync.targets.parquet_files import StoredFiles

BEGIN = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
COMPLETE = b'<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>'


class Store(http.server.ThreadingHTTPServer):
    """A store that accepts multipart uploads, and denies the requests of one kind."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.denied = ""
        self.requests: list[str] = []

    @property
    def uri(self) -> str:
        """A folder in it."""
        return f"s3://key:secret@bucket/t?scheme=http&endpoint_override=127.0.0.1:{self.server_port}&region=us-east-1"


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    server: Store

    def do_POST(self) -> None:
        self._answer("begin" if "uploads" in self.path else "complete", BEGIN if "uploads" in self.path else COMPLETE)

    def do_PUT(self) -> None:
        self._answer("part" if "partNumber=" in self.path else "object", b"")

    def do_DELETE(self) -> None:
        self._answer("abort", b"")

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def _answer(self, kind: str, body: bytes) -> None:
        self.server.requests.append(kind)
        is_denied = kind == self.server.denied
        body = b"<Error><Code>AccessDenied</Code></Error>" if is_denied else body
        self.send_response(403 if is_denied else 200)
        self.send_header("ETag", '"x"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_object_is_visible_with_the_last_request(store: Store) -> None:
    StoredFiles(store.uri).replace("manifest.json", b"new")
    assert store.requests == ["begin", "part", "complete"]


@pytest.mark.parametrize("denied", ["begin", "part", "complete"])
def test_failed_part_leaves_the_old_object(store: Store, denied: str) -> None:
    """The stream is closed after its error, and must not complete the upload then."""
    store.denied = denied
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        StoredFiles(store.uri).replace("manifest.json", b"new")
    assert store.requests[: ["begin", "part", "complete"].index(denied) + 1][-1] == denied
    assert "object" not in store.requests and ("complete" in store.requests) == (denied == "complete")
