"""Thrift's binary protocol with limits for a whole response. Needs the extra `hive`: import it late."""

from __future__ import annotations

from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TProtocol import TProtocolException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TTransportException


class BoundedSocket(TSocket):  # type: ignore[misc]  # Thrift has no types
    """A connection that fails in a response of more than `most_bytes`. Each wait for bytes ends after `timeout_ms`."""

    def __init__(self, host: str, port: int, timeout_ms: int, most_bytes: int) -> None:
        super().__init__(host, port)
        self.setTimeout(timeout_ms)
        self._most_bytes, self._read_bytes = most_bytes, 0

    def read(self, sz: int) -> bytes:
        """See `TSocket.read`. TTransportException beyond the limit."""
        data: bytes = super().read(sz)
        self._read_bytes += len(data)
        if self._read_bytes > self._most_bytes:
            raise TTransportException(message=f"its response has more than {self._most_bytes} bytes")
        return data

    def write(self, buff: bytes) -> None:
        """See `TSocket.write`. Begins a request: its response has the whole limit."""
        self._read_bytes = 0
        super().write(buff)


class BoundedProtocol(TBinaryProtocol):  # type: ignore[misc]  # Thrift has no types
    """A protocol that fails on a text of more than `most_text_bytes`, and if all lists and maps of a response together
    have more than `most_elements`."""

    def __init__(self, transport: Any, most_text_bytes: int, most_elements: int) -> None:
        super().__init__(transport, strictRead=True, string_length_limit=most_text_bytes)
        self._most_elements, self._elements = most_elements, 0

    def readMessageBegin(self) -> tuple[str, int, int]:
        """See `TBinaryProtocol.readMessageBegin`."""
        self._elements = 0
        begun: tuple[str, int, int] = super().readMessageBegin()
        return begun

    def _check_container_length(self, length: int) -> None:
        self._elements += max(0, length)
        if length < 0 or self._elements > self._most_elements:
            raise TProtocolException(
                TProtocolException.SIZE_LIMIT, f"its response has more than {self._most_elements} elements"
            )
