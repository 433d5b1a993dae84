"""TLS credentials of the server: its certificate, and the authority of client certificates. Reads PEM files."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import grpc

from penstock.enumerator.server.config.settings import TlsSettings
from penstock.proto.client.certificates import validity_of
from penstock.proto.errors import ConfigurationError

MAX_PEM_BYTES: Final = 1 << 20
CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class PemFiles:
    """The contents of the PEM files of a server."""

    cert: bytes
    """The server's certificate, followed by intermediate certificates."""
    key: bytes = field(repr=False)
    """Its private key."""
    client_ca: bytes | None
    """The authorities that sign certificates of clients; None: clients need no certificate."""


def pem_files(tls: TlsSettings) -> PemFiles | None:
    """The contents of the files; None without a certificate. ConfigurationError names the key and the file, also for an
    expired certificate."""
    if not tls.cert:
        return None
    key, cert = _pem(tls.key, "tls.key", b"PRIVATE KEY-----"), _pem(tls.cert, "tls.cert", CERTIFICATE)
    validity = validity_of(cert)
    if validity is not None and (problem := validity.problem(datetime.now(UTC))):
        raise ConfigurationError(f"tls.cert: the certificate in {tls.cert[:300]!r} {problem}: renew it")
    return PemFiles(cert, key, _pem(tls.client_ca, "tls.clientCa", CERTIFICATE) if tls.client_ca else None)


def server_credentials(tls: TlsSettings) -> grpc.ServerCredentials | None:
    """The credentials of the port; None without a certificate. With `client_ca`, the handshake fails for a client
    without a certificate that this authority signed. Errors: see `pem_files`."""
    files = pem_files(tls)
    if files is None:
        return None
    credentials: grpc.ServerCredentials = grpc.ssl_server_credentials(
        [(files.key, files.cert)],
        root_certificates=files.client_ca,
        require_client_auth=files.client_ca is not None,
    )
    return credentials


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
