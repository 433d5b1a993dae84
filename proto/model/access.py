"""How a client proves who it is and whom it trusts: paths and names, never a secret itself.

Values only, standard library only. Belongs here: what the options `serverCa`, `serverCert`, `serverKey`, `serverToken`
say. Not here: reading the files (`client_channel`). A value of this kind may be logged, pickled and sent to Spark's
executors; the files it names must exist where the calls are made.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import ConfigurationError

_HOST_PORT = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<host>[A-Za-z0-9.-]{1,253})):(?P<port>\d{1,5})")


def checked_address(text: str, *, any_port: bool = False) -> str:
    """`text`, if it is HOST:PORT (an IPv6 host in brackets), else ConfigurationError saying why.

    `any_port` allows port 0: let the system choose.
    """
    host_and_port(text, any_port=any_port)
    return text


def host_and_port(text: str, *, any_port: bool = False) -> tuple[str, int]:
    """The two parts of an address, the host without brackets. Errors as `checked_address`."""
    match = _HOST_PORT.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"address {text[:300]!r}: expected HOST:PORT such as 127.0.0.1:7070 or [::1]:7070")
    port = int(match["port"])
    if not (0 if any_port else 1) <= port <= 65535:
        raise ConfigurationError(f"address {text!r}: port {port}, expected {0 if any_port else 1} to 65535")
    return match["v6"] or match["host"], port


def is_loopback(address: str) -> bool:
    """Whether a checked address is on the loopback interface, by its text."""
    host, _ = host_and_port(address, any_port=True)
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def loopback_address(text: str, *, any_port: bool = False, advice: str = "") -> str:
    """`text`, if it is an address of the loopback interface, else ConfigurationError; `advice` says what to do."""
    if not is_loopback(checked_address(text, any_port=any_port)):
        raise ConfigurationError(
            f"address {text!r} is not on the loopback interface: TLS is required there; "
            + (advice or "use 127.0.0.1, or a tunnel that ends there")
        )
    return text


SYSTEM_CA: Final = "system"
ENVIRONMENT_PREFIX: Final = "env:"
TOKEN_PREFIX: Final = "pst_"
"""How a token begins that `penstock token new` made: so that one in the wrong place is noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccess:
    """`ca`: a PEM file of the authorities that sign servers, or `system`; '' speaks without TLS. `cert` and `key`: PEM
    files by which the client shows itself. `token`: a file that holds a token, or `env:NAME`.

    ConfigurationError for a certificate without key or authority, or for a token in place of its file.
    """

    ca: str = ""
    cert: str = ""
    key: str = ""
    token: str = ""

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
"""Plaintext, no token: a server on this machine."""


def client_address(text: str, access: ServerAccess) -> str:
    """`text`, if a client with this access may speak to it: any address over TLS, else loopback alone."""
    if access.secured:
        return checked_address(text)
    return loopback_address(
        text, advice=f"give the option serverCa: a PEM file of the server's authority, or `{SYSTEM_CA}`"
    )
