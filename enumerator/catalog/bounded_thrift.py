"""Thrift's binary protocol with limits for a whole response. Thrift is imported late: the module loads without the
extra `hive`."""

from __future__ import annotations

from typing import Any


def bounded_connection(
    host: str, port: int, *, timeout_ms: int, most_bytes: int, most_text_bytes: int, most_elements: int
) -> tuple[Any, Any]:
    """The transport, not open yet, and the protocol of a connection. ImportError without the extra.

    Each wait for bytes ends after `timeout_ms`. A response fails with more than `most_bytes`, with a text of more than
    `most_text_bytes`, and if all its lists and maps together have more than `most_elements`.
    """
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.protocol.TProtocol import TProtocolException
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport, TTransportException

    class BoundedSocket(TSocket):  # type: ignore[misc]  # Thrift has no types
        """Counts the bytes of each response."""

        read_bytes = 0

        def read(self, sz: int) -> bytes:
            data: bytes = super().read(sz)
            self.read_bytes += len(data)
            if self.read_bytes > most_bytes:
                raise TTransportException(message=f"its response has more than {most_bytes} bytes")
            return data

        def write(self, buff: bytes) -> None:
            self.read_bytes = 0
            super().write(buff)

    class BoundedProtocol(TBinaryProtocol):  # type: ignore[misc]  # Thrift has no types
        """Counts the elements of each response."""

        elements = 0

        def readMessageBegin(self) -> tuple[str, int, int]:
            self.elements = 0
            begun: tuple[str, int, int] = super().readMessageBegin()
            return begun

        def _check_container_length(self, length: int) -> None:
            self.elements += max(0, length)
            if length < 0 or self.elements > most_elements:
                raise TProtocolException(
                    TProtocolException.SIZE_LIMIT, f"its response has more than {most_elements} elements"
                )

    connection = BoundedSocket(host, port)
    connection.setTimeout(timeout_ms)
    transport = TBufferedTransport(connection)
    return transport, BoundedProtocol(transport, strictRead=True, string_length_limit=most_text_bytes)
