"""Only the loopback interface may be spoken to without TLS."""

from __future__ import annotations

import pytest

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.access import loopback_address


@pytest.mark.parametrize("address", ["127.0.0.1:7070", "localhost:1", "LOCALHOST:65535", "[::1]:7070", "127.9.9.9:80"])
def test_loopback_addresses_are_accepted(address: str) -> None:
    assert loopback_address(address) == address


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1:7070", "0.0.0.0:7070", "[::]:7070", "lake.example:7070", "[2001:db8::1]:1", "127.0.0.1.evil.example:1"],
)
def test_other_hosts_without_tls_are_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"TLS is required there; use 127\.0\.0\.1"):
        loopback_address(address)


@pytest.mark.parametrize(
    "address", ["", "7070", "127.0.0.1", "127.0.0.1:", ":7070", "http://127.0.0.1:7070", "::1:7070", "127.0.0.1:7070 "]
)
def test_invalid_addresses_are_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="expected HOST:PORT"):
        loopback_address(address)


def test_port_0_is_for_listening_only() -> None:
    assert loopback_address("127.0.0.1:0", any_port=True) == "127.0.0.1:0"
    with pytest.raises(ConfigurationError, match="port 0, expected 1 to 65535"):
        loopback_address("127.0.0.1:0")
    with pytest.raises(ConfigurationError, match="port 65536"):
        loopback_address("127.0.0.1:65536", any_port=True)
