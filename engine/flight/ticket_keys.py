"""The keys that sign tickets: a random one, or those of a file that several data servers share.

A line of the file is one key: at least 64 hexadecimal digits; `#` begins a comment. The first key signs, all keys are
accepted. So a key is replaced without an interruption: add the new key last on every server, then move it to the first
line, and remove the old one after the lifetime of its tickets.
"""

from __future__ import annotations

import hashlib
import hmac
import pathlib
import re
import secrets
from dataclasses import dataclass, field
from typing import Final

from penstock.proto.errors import ConfigurationError

MAC_BYTES: Final = 32
"""The length of a signature."""
MAX_KEYS: Final = 16
_MAX_FILE_BYTES: Final = 64 << 10
_LINE: Final = re.compile(r"(?:[0-9a-fA-F]{2}){32,256}")
_PURPOSE: Final = b"penstock flight ticket 1\0"
"""Signed before the data, so that a signature for another purpose is none of a ticket."""


@dataclass(frozen=True, slots=True)
class TicketKeys:
    """Keys for HMAC-SHA256. The `repr` contains none of them."""

    keys: tuple[bytes, ...] = field(repr=False)
    """The keys; the first one signs."""

    def signature(self, data: bytes) -> bytes:
        """The signature of the data, MAC_BYTES long."""
        return _mac(self.keys[0], data)

    def signed(self, data: bytes, signature: bytes) -> bool:
        """Whether one of the keys made the signature. Each comparison takes constant time."""
        return any(hmac.compare_digest(_mac(key, data), signature) for key in self.keys)


def random_keys() -> TicketKeys:
    """One new key: its tickets are valid only at the process that signs them."""
    return TicketKeys((secrets.token_bytes(32),))


def keys_of_file(path: str) -> TicketKeys:
    """The keys of a file. ConfigurationError: it cannot be read, or a line is no key; the text contains no key."""
    try:
        with pathlib.Path(path).open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"ticket key: file {path[:300]!r} cannot be read: {reason}") from None
    return TicketKeys(_parsed(data, f"ticket key: file {path[:300]!r}"))


def _parsed(data: bytes, where: str) -> tuple[bytes, ...]:
    if len(data) > _MAX_FILE_BYTES:
        raise ConfigurationError(f"{where} is larger than {_MAX_FILE_BYTES} bytes")
    keys = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if not _LINE.fullmatch(bare):
            raise ConfigurationError(
                f"{where}, line {number}: expected 64 hexadecimal digits or more, as `openssl rand -hex 32` prints"
            )
        keys.append(bytes.fromhex(bare))
    if not 1 <= len(keys) <= MAX_KEYS:
        raise ConfigurationError(f"{where}: got {len(keys)} keys, expected 1 to {MAX_KEYS}, one a line")
    return tuple(keys)


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, _PURPOSE + data, hashlib.sha256)
