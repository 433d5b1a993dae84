"""The server's side of TLS: its certificate, and the authority of its clients. Shell: reads PEM files."""

from __future__ import annotations

import pathlib
from datetime import UTC, datetime
from typing import Final

import grpc

from penstock.enumerator.server.config.settings import TlsSettings
from penstock.proto.client.certificates import validity_of
from penstock.proto.errors import ConfigurationError

MAX_PEM_BYTES: Final = 1 << 20


def server_credentials(tls: TlsSettings) -> grpc.ServerCredentials | None:
    """What to listen with; None without a certificate. With `client_ca` a connection without a certificate that it
    signed ends in the handshake. ConfigurationError names the key and the file, also of a certificate that expired."""
    if not tls.cert:
        return None
    pair = (_pem(tls.key, "tls.key", b"PRIVATE KEY-----"), _pem(tls.cert, "tls.cert", b"-----BEGIN CERTIFICATE-----"))
    held = validity_of(pair[1])
    if held is not None and (problem := held.problem(datetime.now(UTC))):
        raise ConfigurationError(f"tls.cert: the certificate in {tls.cert[:300]!r} {problem}: renew it")
    roots = _pem(tls.client_ca, "tls.clientCa", b"-----BEGIN CERTIFICATE-----") if tls.client_ca else None
    made: grpc.ServerCredentials = grpc.ssl_server_credentials(
        [pair], root_certificates=roots, require_client_auth=roots is not None
    )
    return made


def _pem(path: str, key: str, mark: bytes) -> bytes:
    try:
        with pathlib.Path(path).open("rb") as file:
            data = file.read(MAX_PEM_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{key}: file {path[:300]!r} cannot be read: {reason}") from None
    if len(data) > MAX_PEM_BYTES or mark not in data:
        raise ConfigurationError(f"{key}: file {path[:300]!r}: expected PEM with `{mark.decode().strip('-')}`")
    return data
