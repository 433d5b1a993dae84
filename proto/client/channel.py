"""The gRPC channels of a process: shared by address and access, with TLS and tokens; a forked child opens its own."""

from __future__ import annotations

import os
import pathlib
import threading
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Final

import grpc

from penstock.proto.client.certificates import validity_of
from penstock.proto.errors import ConfigurationError, Unauthenticated
from penstock.proto.model.access import ENVIRONMENT_PREFIX, SYSTEM_CA, ServerAccess
from penstock.proto.v1 import penstock_pb2_grpc as pb_grpc
from penstock.version import __version__

MAX_ANSWER_BYTES: Final = 64 << 20
MAX_CHANNELS: Final = 32
"""The maximum number of cached connections; the least recently used one is dropped, and closes after its last call."""
MAX_TOKEN_BYTES: Final = 4096
MAX_PEM_BYTES: Final = 1 << 20
KEEPALIVE_MS: Final = 60_000
"""The idle time after which a connection with active calls is probed, to detect a lost server."""
IDLE_MS: Final = 10_000
"""The time without a call after which a connection closes. Until then gRPC connects to a lost server every second, and
its port may belong to another process by now. The next call opens the connection again."""

_Key = tuple[str, ServerAccess]


class Connections:
    """The stubs of this process by (address, access), at most MAX_CHANNELS, least recently used first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stubs: OrderedDict[_Key, pb_grpc.EnumeratorServiceStub] = OrderedDict()
        self._inherited: list[OrderedDict[_Key, pb_grpc.EnumeratorServiceStub]] = []

    def stub(self, address: str, access: ServerAccess) -> pb_grpc.EnumeratorServiceStub:
        """The stub of the shared connection, which is created if there is none."""
        key = (address, access)
        with self._lock:
            stub = self._stubs.pop(key, None) or pb_grpc.EnumeratorServiceStub(_channel(address, access))
            self._stubs[key] = stub
            while len(self._stubs) > MAX_CHANNELS:
                self._stubs.popitem(last=False)
            return stub

    def forget(self, address: str, access: ServerAccess) -> None:
        """Drops the connection; active calls keep it until they end."""
        with self._lock:
            self._stubs.pop((address, access), None)

    def start_anew_in_child(self) -> None:
        """Resets the state after a fork: the parent's connections are neither used nor closed, and its lock may
        never be released."""
        self._lock = threading.Lock()
        self._inherited.append(self._stubs)
        self._stubs = OrderedDict()


def call_metadata(access: ServerAccess) -> tuple[tuple[str, str], ...]:
    """The metadata of a call: the token, read for each call, so that a replaced token applies to the next call."""
    return (("authorization", f"Bearer {_token(access.token)}"),) if access.token else ()


def _token(where: str) -> str:
    if where.startswith(ENVIRONMENT_PREFIX):
        name = where.removeprefix(ENVIRONMENT_PREFIX)
        text = os.environ.get(name, "")
        shown = f"environment variable {name[:80]}"
    else:
        text = _read(where, "serverToken", MAX_TOKEN_BYTES).decode("utf-8", "replace")
        shown = f"file {where[:300]}"
    token = text.strip()
    if not token or len(token) > MAX_TOKEN_BYTES or not all("!" <= letter <= "~" for letter in token):
        raise Unauthenticated(
            f"option serverToken: the {shown} holds no token: expected one line of printable ASCII, as "
            "`penstock token new` printed it"
        )
    return token


def _read(path: str, option: str, limit_bytes: int) -> bytes:
    try:
        with pathlib.Path(path).open("rb") as file:
            data = file.read(limit_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"option {option}: file {path[:300]!r} cannot be read: {reason}") from None
    if len(data) > limit_bytes:
        raise ConfigurationError(f"option {option}: file {path[:300]!r} is larger than {limit_bytes} bytes")
    return data


def _channel(address: str, access: ServerAccess) -> grpc.Channel:
    options: list[tuple[str, str | int]] = [
        ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
        ("grpc.max_send_message_length", MAX_ANSWER_BYTES),
        ("grpc.primary_user_agent", f"penstock/{__version__}"),
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 5000),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.client_idle_timeout_ms", IDLE_MS),
    ]
    channel: grpc.Channel
    if not access.secured:
        channel = grpc.insecure_channel(address, options=options)
        return channel
    roots = None if access.ca == SYSTEM_CA else _read(access.ca, "serverCa", MAX_PEM_BYTES)
    key = _read(access.key, "serverKey", MAX_PEM_BYTES) if access.key else None
    chain = _read(access.cert, "serverCert", MAX_PEM_BYTES) if access.cert else None
    for option, path, data in (("serverCa", access.ca, roots), ("serverCert", access.cert, chain)):
        if data is not None and b"-----BEGIN CERTIFICATE-----" not in data:
            raise ConfigurationError(f"option {option}: file {path[:300]!r} holds no certificate in PEM")
    shown = validity_of(chain) if chain else None
    if shown is not None and (problem := shown.problem(datetime.now(UTC))):
        raise Unauthenticated(f"option serverCert: the certificate in {access.cert[:300]!r} {problem}: renew it")
    channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(roots, key, chain), options=options)
    return channel


connections: Final = Connections()
"""The connections of this process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=connections.start_anew_in_child)
