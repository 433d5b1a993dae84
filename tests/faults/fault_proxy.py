"""A TCP proxy that drops, delays, cuts or duplicates bytes in one or both directions; for tests.

Bytes are dropped or duplicated in the chunks in which they were received. gRPC peers see a silent or a broken
connection.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

CHUNK_BYTES: Final = 65536


@dataclass(slots=True)
class DirectionFaults:
    """The faults of one direction from now on: bytes are lost, delayed, or sent `doubled` times."""

    dropped: bool = False
    delay_s: float = 0.0
    doubled: int = 0
    passed_bytes: int = 0
    lost_bytes: int = 0

    def heal(self) -> None:
        """Removes all faults."""
        self.dropped, self.delay_s, self.doubled = False, 0.0, 0


class FaultProxy:
    """Forwards bytes between clients and the server at `target` (HOST:PORT). A context manager, which closes the
    proxy."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.to_server, self.to_client = DirectionFaults(), DirectionFaults()
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def heal(self) -> None:
        """Removes the faults of both directions. Connections that lost bytes are cut, because they cannot continue."""
        broken = self.to_server.lost_bytes or self.to_client.lost_bytes
        self.to_server.heal()
        self.to_client.heal()
        if broken:
            self.cut()

    def cut(self) -> None:
        """Ends every connection at once."""
        with self._lock:
            cut, self._open = self._open, set()
        for connection in cut:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            host, _, port = self.target.rpartition(":")
            try:
                far = socket.create_connection((host, int(port)), timeout=10)
            except OSError:  # like a load balancer without a backend
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._open |= {near, far}
            for source, sink, way in ((near, far, self.to_server), (far, near, self.to_client)):
                threading.Thread(target=self._pass_on, args=(source, sink, way), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, way: DirectionFaults) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                if way.delay_s:
                    time.sleep(way.delay_s)
                if way.dropped:
                    way.lost_bytes += len(data)
                    continue
                sink.sendall(data)
                way.passed_bytes += len(data)
                if way.doubled:
                    way.doubled -= 1
                    way.lost_bytes += len(data)  # bytes after the lost ones cannot be parsed
                    sink.sendall(data)
        for connection in (source, sink):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(source)
        source.close()
