"""The HTTP port of a server: `/metrics` for Prometheus, the status page at `/`, its data at `/status.json`. Read-only.

It listens on loopback unless it is configured otherwise, and has no authentication. It exposes names of tables, groups
and readers, never a row, a path or a credential. The page loads nothing from other hosts; a strict content security
policy enforces this in the browser. Needs the extra `server`.
"""

from __future__ import annotations

import io
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from penstock.enumerator.groups.activity import Activity
from penstock.enumerator.server.http.page_data import page_data

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_PAGES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}


log = logging.getLogger("penstock.enumerator.server")


@dataclass(frozen=True, slots=True)
class HttpBounds:
    """The limits of the port. A connection has one request."""

    connections: int = 32
    """Open connections, each with a thread. A further one is closed at once."""
    head_bytes: int = 16 << 10
    """The size of a request's line and headers; beyond it the response is 431."""
    seconds: float = 10.0
    """The time of a peer to send its request, and again to receive the response. Then its connection is closed."""


class HttpPort:
    """Serves at HOST:PORT until `close`. OSError: the port is in use. Without `activity` it serves only metrics."""

    def __init__(
        self,
        registry: CollectorRegistry,
        host: str,
        port: int,
        activity: Activity | None = None,
        bounds: HttpBounds = HttpBounds(),
    ) -> None:
        self._server = _Server((host, port), _handler(registry, activity, bounds), bounds.connections)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="penstock-http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops the server and closes the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    """A server with one thread for each connection, and a limit of connections."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: Any, connections: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._most, self._free = connections, threading.BoundedSemaphore(connections)
        self._has_warned = False
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread, or closes a connection beyond the limit."""
        if self._free.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except BaseException:
                self._free.release()  # no thread was started, so none releases it
                raise
            return
        if not self._has_warned:
            self._has_warned = True
            log.warning("metrics port: %d connections are open: further ones are closed at once", self._most)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handles one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs a broken connection, which is normal, at DEBUG."""
        log.debug("metrics port: a connection broke off", exc_info=True)


def _head(connection: socket.socket, bounds: HttpBounds) -> bytes | None:
    """A request up to its empty line, or to the end of the stream; None if it is too long. TimeoutError."""
    until_s = time.monotonic() + bounds.seconds
    head = b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head:
        connection.settimeout(max(0.001, until_s - time.monotonic()))
        chunk = connection.recv(4096)
        head += chunk
        if len(head) > bounds.head_bytes:
            return None
        if not chunk:
            break
        if time.monotonic() >= until_s:
            raise TimeoutError
    connection.settimeout(bounds.seconds)
    return head


def _handler(registry: CollectorRegistry, activity: Activity | None, bounds: HttpBounds) -> Any:
    """The class of request handlers. It extends the one of prometheus-client, which serves /metrics."""
    from prometheus_client import MetricsHandler

    resources: dict[str, Callable[[], tuple[bytes, str]]] = {}
    if activity is not None:
        for path, (name, kind) in _PAGES.items():
            data = (files("penstock.enumerator.server") / "page" / name).read_bytes()
            resources[path] = lambda data=data, kind=kind: (data, kind)  # type: ignore[misc]
        resources["/status.json"] = lambda: (json.dumps(page_data(activity)).encode(), "application/json")

    class Handler(MetricsHandler):
        """Handles one request."""

        server_version, sys_version = "penstock", ""

        def handle(self) -> None:
            """Reads the request within the limits, and answers it."""
            head = _head(self.connection, bounds)
            if head is None:
                self.connection.sendall(b"HTTP/1.0 431 Request Header Fields Too Large\r\n\r\n")
                return
            self.rfile.close()
            self.rfile = io.BytesIO(head)
            super().handle()

        def do_GET(self) -> None:
            """Sends the metrics, or a file of the page."""
            path = self.path.partition("?")[0]
            if path == "/metrics" or (path == "/" and activity is None):
                super().do_GET()
                return
            resource = resources.get(path)
            if resource is None:
                self._answer(HTTPStatus.NOT_FOUND, b"not found: /metrics, or / for the page\n", "text/plain")
                return
            self._answer(HTTPStatus.OK, *resource())

        def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *values: object) -> None:  # noqa: A002 - the library's name
            """Logs nothing, because scrapes are frequent."""

    return Handler.factory(registry)
