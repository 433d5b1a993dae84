"""`ServerAccess`, a client's TLS and token settings, and addresses of servers.

It contains paths and names, never a secret, so it may be logged, pickled and sent to Spark's executors. The files must
exist where the calls are made; `penstock.proto.client.channel` reads them.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.value_classes import dataclass

_HOST_PORT = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<host>[A-Za-z0-9.-]{1,253})):(?P<port>\d{1,5})")


def checked_address(text: str, *, any_port: bool = False) -> str:
    """`text` if it is HOST:PORT (an IPv6 host in brackets), else ConfigurationError with the reason.

    `any_port` allows port 0, for which the system chooses a port.
    """
    host_and_port(text, any_port=any_port)
    return text


def host_and_port(text: str, *, any_port: bool = False) -> tuple[str, int]:
    """The host, without brackets, and the port of an address. Errors as in `checked_address`."""
    match = _HOST_PORT.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"address {text[:300]!r}: expected HOST:PORT such as 127.0.0.1:7070 or [::1]:7070")
    port = int(match["port"])
    if not (0 if any_port else 1) <= port <= 65535:
        raise ConfigurationError(f"address {text!r}: port {port}, expected {0 if any_port else 1} to 65535")
    return match["v6"] or match["host"], port


def is_loopback(address: str) -> bool:
    """Whether a checked address is on the loopback interface, by its text; no name is resolved."""
    host, _ = host_and_port(address, any_port=True)
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def loopback_address(text: str, *, any_port: bool = False, advice: str = "") -> str:
    """`text` if it is an address of the loopback interface, else ConfigurationError that ends with `advice`."""
    if not is_loopback(checked_address(text, any_port=any_port)):
        raise ConfigurationError(
            f"address {text!r} is not on the loopback interface: TLS is required there; "
            + (advice or "use 127.0.0.1, or a tunnel that ends there")
        )
    return text


SYSTEM_CA: Final = "system"
ENVIRONMENT_PREFIX: Final = "env:"
TOKEN_PREFIX: Final = "pst_"
"""The prefix of tokens from `penstock token new`, by which a token in place of a file name is detected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccess:
    """How a client authenticates servers and itself.

    ConfigurationError for a certificate without key or authority, and for a token in place of its file.
    """

    ca: str = ""
    """A PEM file of the authorities that sign servers' certificates, or `system`; '': no TLS."""
    cert: str = ""
    """A PEM file with the client's certificate, or ''."""
    key: str = ""
    """A PEM file with the private key of `cert`, or ''."""
    token: str = ""
    """A file that contains a token, `env:NAME` for an environment variable, or ''."""

    def __post_init__(self) -> None:
        if bool(self.cert) != bool(self.key):
            given, missing = ("serverCert", "serverKey") if self.cert else ("serverKey", "serverCert")
            raise ConfigurationError(f"option {given} is given without {missing}: a certificate needs its key")
        if self.cert and not self.ca:
            raise ConfigurationError(
                f"option serverCert needs TLS: give serverCa, a PEM file of the server's authority, or {SYSTEM_CA}"
            )
        if self.token.startswith(TOKEN_PREFIX):
            raise ConfigurationError(
                f"option serverToken holds a token: give the file that holds it, or {ENVIRONMENT_PREFIX}NAME of an "
                "environment variable, so that it appears in no list of processes, plan or log (this one should be "
                "replaced: `penstock token new`)"
            )

    @property
    def secured(self) -> bool:
        """Whether calls go over TLS."""
        return bool(self.ca)


NO_ACCESS: Final = ServerAccess()
"""No TLS and no token, for a server on this machine."""


def client_address(text: str, access: ServerAccess) -> str:
    """`text` if a client with this access may connect to it: any address with TLS, else loopback addresses only."""
    if access.secured:
        return checked_address(text)
    return loopback_address(
        text, advice=f"give the option serverCa: a PEM file of the server's authority, or `{SYSTEM_CA}`"
    )
