"""An HTTP proxy before an object store that injects faults: slow responses, closed connections, truncated bodies, short
ranges, stale listings. It counts requests by kind.

Requests keep their Host header, so that signatures are valid. `plan` maps a `Request` to its fault.
"""

from __future__ import annotations

import contextlib
import enum
import http.client
import http.server
import re
import sys
import threading
import urllib.parse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

_PASSED_ON: Final = ("content-type", "etag", "last-modified", "accept-ranges", "content-range", "x-amz-request-id")


class Fault(enum.Enum):
    """Faults of a response."""

    SLOW_DOWN = "503, as S3 answers those who ask too often"
    SILENT = "no answer; the connection ends after a while"
    CUT = "half of the body, then the connection ends"
    SHORT = "half of the body, and headers that say that this is all"
    STALE = "the listing of the first request"
    DENIED = "403"
    ELSEWHERE = "the region 'eu-central-1' is wrong; expecting 'us-east-1'"


@dataclass(frozen=True)
class Request:
    """One request: `kind` is list, head, get or another method's name; `number` counts those of its kind and key."""

    kind: str
    key: str
    number: int


_REFUSALS: Final = {
    Fault.SLOW_DOWN: (503, "SlowDown"),
    Fault.DENIED: (403, "AccessDenied"),
    Fault.ELSEWHERE: (400, "AuthorizationHeaderMalformed"),
}

Plan = Callable[[Request], Fault | None]


class _Server(http.server.ThreadingHTTPServer):
    """Closes quietly a connection that a client reset, as clients do after a fault. Other errors are printed."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Called in the except block of a connection's thread."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class S3Proxy:
    """A proxy between clients and the store at `target` (HOST:PORT). The context manager closes it."""

    def __init__(self, target: str, silent_s: float = 4.0) -> None:
        self.target = target
        self.silent_s = silent_s
        self.plan: Plan = lambda request: None
        self.counts: Counter[str] = Counter()
        self.faults: Counter[Fault] = Counter()
        self._numbers: Counter[tuple[str, str]] = Counter()
        self._listings: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1  # a response is one write

            def _any(self) -> None:
                proxy.answer(self)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _any

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  the base class names it
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self._server.server_port}"

    def fresh(self, plan: Plan = lambda request: None) -> None:
        """Sets another plan, and resets the counters."""
        with self._lock:
            self.plan = plan
            self.counts, self.faults, self._numbers = Counter(), Counter(), Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Handles one request."""
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length) if length else None
        request = self._count_request(handler)
        fault = self.plan(request)
        if fault is not None:
            with self._lock:
                self.faults[fault] += 1
        if fault is Fault.SILENT:
            self._ended.wait(self.silent_s)
            handler.close_connection = True
            return
        if fault in _REFUSALS:
            self._refuse(handler, fault)
            return
        status, headers, data = self._passed(handler, body)
        if request.kind == "list":
            with self._lock:
                stored = self._listings.setdefault(handler.path, (status, headers, data))
            if fault is Fault.STALE:
                status, headers, data = stored
        self._send(handler, status, headers, data, fault)

    def _count_request(self, handler: http.server.BaseHTTPRequestHandler) -> Request:
        parts = urllib.parse.urlsplit(handler.path)
        query = urllib.parse.parse_qs(parts.query, keep_blank_values=True)
        if handler.command == "GET" and ("list-type" in query or "prefix" in query):
            kind, key = "list", query.get("prefix", [""])[0]
        else:
            kind, key = handler.command.lower(), urllib.parse.unquote(parts.path)
        with self._lock:
            self.counts[kind] += 1
            self._numbers[kind, key] += 1
            return Request(kind, key, self._numbers[kind, key])

    def _passed(
        self, handler: http.server.BaseHTTPRequestHandler, body: bytes | None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.target, timeout=30)
        try:
            connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for name, value in handler.headers.items():
                if name.lower() not in ("connection", "expect"):
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            data = answer.read()
            headers = {name: value for name, value in answer.getheaders() if name.lower() in _PASSED_ON}
            if handler.command == "HEAD":
                headers["Content-Length"] = answer.getheader("Content-Length") or "0"
            return answer.status, headers, data
        finally:
            connection.close()

    def _refuse(self, handler: http.server.BaseHTTPRequestHandler, fault: Fault) -> None:
        code, name = _REFUSALS[fault]
        data = f"<Error><Code>{name}</Code><Message>{fault.value}</Message></Error>".encode()
        headers = {"Content-Type": "application/xml"}
        self._send(handler, code, headers, b"" if handler.command == "HEAD" else data, None)

    def _send(
        self,
        handler: http.server.BaseHTTPRequestHandler,
        status: int,
        headers: dict[str, str],
        data: bytes,
        fault: Fault | None,
    ) -> None:
        sent, length = data, len(data)
        if fault in (Fault.CUT, Fault.SHORT) and len(data) > 1:
            sent = data[: len(data) // 2]
            if fault is Fault.SHORT:
                length = len(sent)
                headers = {name: _shortened(value, length) for name, value in headers.items()}
        with contextlib.suppress(OSError):
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name, value)
            if "Content-Length" not in headers:
                handler.send_header("Content-Length", str(length))
            handler.end_headers()
            handler.wfile.write(sent)
        if fault is Fault.CUT:
            handler.close_connection = True


def _shortened(value: str, length: int) -> str:
    """A Content-Range for the shorter body; other values are unchanged."""
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", value)
    return value if match is None else f"bytes {match[1]}-{int(match[1]) + length - 1}/{match[2]}"
