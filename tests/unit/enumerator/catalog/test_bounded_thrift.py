"""Responses of a Metastore of any size: a listing needs bounded memory, and ends."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from penstock.enumerator.catalog import hive
from penstock.enumerator.catalog.adapter import Item
from penstock.enumerator.catalog.hive import HiveCatalog
from penstock.proto.errors import StorageError

LIST, STRING, STRUCT, STOP = b"\x0f", b"\x0b", b"\x0c", b"\0"
REPLY = 2


def header(name: bytes = b"get_all_databases") -> bytes:
    return struct.pack("!II", 0x80010000 | REPLY, len(name)) + name + struct.pack("!i", 0)


def strings(*texts: bytes, count: int | None = None) -> bytes:
    """Field 0 of a result: a list of strings that claims `count` elements."""
    packed = b"".join(struct.pack("!i", len(text)) + text for text in texts)
    return LIST + struct.pack("!h", 0) + STRING + struct.pack("!i", len(texts) if count is None else count) + packed


@contextmanager
def metastore(*responses: bytes, endless: bytes = b"") -> Iterator[str]:
    """A server that answers each request with the next response; `endless` follows the last one, again and again."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            for response in responses:
                connection.recv(1 << 16)
                connection.sendall(response)
            while endless:
                connection.sendall(endless)
            connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def listed(address: str) -> list[Item]:
    return [item for item in HiveCatalog(address).listing() if item is not None]


def test_response_within_the_limits_is_read() -> None:
    with metastore(header() + strings(b"a") + STOP, header(b"get_all_tables") + strings() + STOP) as address:
        assert listed(address) == []


@pytest.mark.parametrize(
    ("response", "endless", "text"),
    [
        (header() + strings(count=1_000_000), struct.pack("!i", 1000) + b"x" * 1000, "more than 100000 bytes"),
        (header() + strings(count=1_000_001), b"", "more than 1000000 elements"),
        (header() + strings(count=-1), b"", "elements"),
        (header() + strings(*[b""] * 9) + strings(count=999_992), b"", "more than 1000000 elements"),
        (header() + strings(struct.pack("!i", 1 << 30), count=1)[:8] + struct.pack("!i", 1 << 30), b"", "Length"),
        (struct.pack("!i", 1 << 30), b"x" * 1000, "header"),
        (header(), STRUCT + struct.pack("!h", 9), "depth|recursion"),
        (header(), b"\x03" + struct.pack("!hb", 9, 1), "more than 100000 bytes"),
    ],
    ids=["texts", "elements", "negative", "lists", "text", "name", "depth", "fields"],
)
def test_response_beyond_a_limit_fails_the_listing(
    monkeypatch: pytest.MonkeyPatch, response: bytes, endless: bytes, text: str
) -> None:
    monkeypatch.setattr(hive, "MAX_RESPONSE_BYTES", 100_000)
    with metastore(response, endless=endless) as address, pytest.raises(StorageError, match=rf"(?i){text}"):
        listed(address)
