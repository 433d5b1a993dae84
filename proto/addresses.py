"""Addresses HOST:PORT of an enumerator. Standard library only, nothing is looked up.

This version speaks without TLS, and so on the loopback interface alone; both sides refuse any other address.
"""

from __future__ import annotations

import ipaddress
import re

from penstock.proto.errors import ConfigurationError

_HOST_PORT = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<host>[A-Za-z0-9.-]{1,253})):(?P<port>\d{1,5})")


def loopback_address(text: str, *, any_port: bool = False) -> str:
    """`text`, if it is HOST:PORT (an IPv6 host in brackets) of the loopback interface.

    `any_port` allows port 0: let the system choose. ConfigurationError for anything else, saying why.
    """
    match = _HOST_PORT.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"address {text[:300]!r}: expected HOST:PORT such as 127.0.0.1:7070 or [::1]:7070")
    port = int(match["port"])
    if not (0 if any_port else 1) <= port <= 65535:
        raise ConfigurationError(f"address {text!r}: port {port}, expected {0 if any_port else 1} to 65535")
    if not _is_loopback(match["v6"] or match["host"]):
        raise ConfigurationError(
            f"address {text!r} is not on the loopback interface: TLS is required there, and arrives with a later "
            "version; until then use 127.0.0.1, or a tunnel that ends there"
        )
    return text


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
