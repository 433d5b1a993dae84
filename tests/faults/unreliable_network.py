"""A network between clients and a server that loses, delays and reorders messages; for tests.

Each client has connections of its own (`UnreliableNetwork.address`). TCP delivers the bytes of one connection in order,
so messages are lost with their connection, and reordered between connections: a request that was under way when a
connection broke may arrive after later requests of the same client on its next connection.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

CHUNK_BYTES: Final = 65536
DELAY_S: Final = 0.02
LATE_MESSAGES: Final = 3
"""A late request arrives after so many messages of the next connections."""
_FRAME_HEADER_BYTES, _HEADERS = 9, 1


class Fault(enum.Enum):
    """Faults of a message."""

    REQUEST_LOST = "the request is lost, and the connection ends"
    ANSWER_LOST = "the answer is lost, and the connection ends"
    LATE = "the connection ends for the client; the request arrives after later ones"
    DELAYED = "the message is delayed"


Plan = Callable[[bool], Fault | None]
"""The fault of the next message. Its argument: whether the message is a request."""


def every_kind(limit: int) -> Plan:
    """Faults of all kinds in turn, between messages that arrive, until there were `limit` of them."""
    requests = itertools.cycle([None, None, Fault.REQUEST_LOST, None, Fault.LATE, None, None, Fault.DELAYED])
    answers = itertools.cycle([None, None, None, Fault.ANSWER_LOST, None, None, Fault.DELAYED])
    left = itertools.count(limit, -1)

    def fault_of(is_request: bool) -> Fault | None:
        fault = next(requests if is_request else answers)
        return fault if fault is not None and next(left) > 0 else None

    return fault_of


def has_call(data: bytes) -> bool:
    """Whether the bytes begin with frames of HTTP/2 that hold the headers of a call or of its answer. False for the
    preface of a connection, settings, pings and windows, which are never lost alone."""
    place = 0
    while place + _FRAME_HEADER_BYTES <= len(data):
        if data[place + 3] == _HEADERS:
            return True
        place += _FRAME_HEADER_BYTES + int.from_bytes(data[place : place + 3])
    return False


@dataclass(eq=False)
class _Late:
    """A request that arrives after `after` more messages."""

    sink: socket.socket
    data: bytes
    after: int = LATE_MESSAGES


@dataclass
class UnreliableNetwork:
    """Connections from one client to the server at `target` (HOST:PORT). A context manager, which ends them."""

    target: str
    plan: Plan
    faults: Counter[Fault] = field(default_factory=Counter)
    """The faults so far. A late request counts when it arrives."""

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self._late: list[_Late] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        return self

    @property
    def address(self) -> str:
        """The address for the client."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _shut(self._listener)
        self._listener.close()
        self._threads[0].join()
        for end in self._ends:
            _shut(end)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            host, _, port = self.target.rpartition(":")
            far = socket.create_connection((host, int(port)), timeout=10)
            far.settimeout(None)
            self._ends += [near, far]
            for source, sink, is_request in ((near, far, True), (far, near, False)):
                thread = threading.Thread(target=self._pass_on, args=(source, sink, is_request), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, is_request: bool) -> None:
        is_late = False
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                with self._lock:
                    fault = self.plan(is_request) if has_call(data) else None
                    if fault is Fault.LATE:
                        self._late.append(_Late(sink, data))
                        is_late = True
                    elif fault is not None:
                        self.faults[fault] += 1
                if fault is Fault.DELAYED:
                    threading.Event().wait(DELAY_S)
                elif fault is not None:
                    break
                sink.sendall(data)
                if is_request and has_call(data):
                    self._deliver_late()
        _shut(source)
        if not is_late:  # the server still reads the request that arrives late
            _shut(sink)

    def _deliver_late(self) -> None:
        with self._lock:
            for late in self._late:
                late.after -= 1
            due = [late for late in self._late if late.after <= 0]
            self._late = [late for late in self._late if late.after > 0]
        for late in due:
            with contextlib.suppress(OSError):
                late.sink.sendall(late.data)
                with self._lock:
                    self.faults[Fault.LATE] += 1


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def networks(target: str, count: int, faults_each: int) -> Iterator[list[UnreliableNetwork]]:
    """A network for each of so many clients."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(UnreliableNetwork(target, every_kind(faults_each))) for _ in range(count)]
