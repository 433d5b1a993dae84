"""The HTTP port of a server: `/metrics` for Prometheus, `/` a page for people, `/status.json` beneath it. Read-only.

Loopback unless the operator says otherwise; like /metrics it asks nobody who they are, and shows names of tables,
groups and readers, never a row, a path or a credential. The page takes nothing from elsewhere: a strict content
security policy says so to the browser. Needs the extra `server`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from penstock.enumerator.activity import Activity
from penstock.enumerator.server.page_data import page_data

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

TIMEOUT_S: Final = 10
"""How long a peer may take to send its request."""
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


class HttpPort:
    """Answers at HOST:PORT until it is closed. OSError: the port is taken. Without activity there are metrics alone."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int, activity: Activity | None = None) -> None:
        server_class = _V6 if ":" in host else ThreadingHTTPServer
        self._server = server_class((host, port), _handler(registry, activity))
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="penstock-http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answers nobody any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _V6(ThreadingHTTPServer):
    import socket

    address_family = socket.AF_INET6


def _handler(registry: CollectorRegistry, activity: Activity | None) -> Any:
    """The class of handlers: prometheus-client's own for /metrics, ours for the rest."""
    from prometheus_client import MetricsHandler

    made: dict[str, Callable[[], tuple[bytes, str]]] = {}
    if activity is not None:
        for path, (name, kind) in _PAGES.items():
            data = (files("penstock.enumerator.server") / "page" / name).read_bytes()
            made[path] = lambda data=data, kind=kind: (data, kind)  # type: ignore[misc]
        made["/status.json"] = lambda: (json.dumps(page_data(activity)).encode(), "application/json")

    class Handler(MetricsHandler):
        """One request."""

        timeout = TIMEOUT_S
        server_version, sys_version = "penstock", ""

        def do_GET(self) -> None:
            """Metrics, or one of the pages."""
            path = self.path.partition("?")[0]
            if path == "/metrics" or (path == "/" and activity is None):
                super().do_GET()
                return
            found = made.get(path)
            if found is None:
                self._answer(HTTPStatus.NOT_FOUND, b"not found: /metrics, or / for the page\n", "text/plain")
                return
            self._answer(HTTPStatus.OK, *found())

        def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *values: object) -> None:  # noqa: A002 - the library's name
            """Nothing: a scrape every few seconds is no news."""

    return Handler.factory(registry)
