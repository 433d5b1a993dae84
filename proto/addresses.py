"""Addresses HOST:PORT of an enumerator. Standard library only, nothing is looked up.

Without TLS both sides stay on the loopback interface; what makes an exception of that is not decided here.
"""

from __future__ import annotations

import ipaddress
import re

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
