"""Tokens: made, kept as hashes in a file, recognised.

A token is 256 random bits, so one SHA-256 hides it as well as a slow hash would: there is nothing to guess. A line of
the file is `name:sha256:HEX` or `name:sha256:HEX:EXPIRY` (an ISO date or time, UTC); `#` begins a comment. A name may
stand twice, so that a new token counts before the old one is taken out. Never here: a token in a log or an error.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import pathlib
import re
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from penstock.proto.access import TOKEN_PREFIX
from penstock.proto.errors import ConfigurationError, Unauthenticated

MAX_FILE_BYTES: Final = 4 << 20
MAX_TOKEN_CHARS: Final = 512
_NAME = re.compile(r"[A-Za-z0-9._@/-]{1,100}")
_LINE = re.compile(r"(?P<name>[^:]*):sha256:(?P<hash>[0-9a-fA-F]{64})(?::(?P<expiry>.+))?")

log = logging.getLogger("penstock.enumerator.server")


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """One line of the file. `expiry_s`: seconds since 1970 UTC; None: never."""

    name: str
    digest: bytes
    expiry_s: float | None = None


def new_token(name: str, expiry: str = "") -> tuple[str, str]:
    """A new token, and its line for the file. ConfigurationError for a name or time that cannot stand there."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"name of a token: got {name[:100]!r}, expected 1 to 100 letters, digits, `.`, `_`, `-`, `@`, `/`"
        )
    if expiry:
        _expiry_s(expiry, "--expires")
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    line = f"{name}:sha256:{hashlib.sha256(token.encode()).hexdigest()}"
    return token, f"{line}:{expiry}" if expiry else line


def parse_tokens(text: str, where: str) -> tuple[TokenEntry, ...]:
    """The entries of a file's text. ConfigurationError names the line, and never shows it: it may hold a token."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        match = _LINE.fullmatch(bare)
        if match is None or not _NAME.fullmatch(match["name"]):
            raise ConfigurationError(
                f"tokens: {where}, line {number}: expected NAME:sha256:HEX or NAME:sha256:HEX:EXPIRY, as "
                "`penstock token new NAME` prints it"
            )
        expiry_s = _expiry_s(match["expiry"], f"tokens: {where}, line {number}") if match["expiry"] else None
        entries.append(TokenEntry(match["name"], bytes.fromhex(match["hash"]), expiry_s))
    if not entries:
        raise ConfigurationError(f"tokens: {where} holds no token: add a line that `penstock token new NAME` prints")
    return tuple(entries)


def _expiry_s(text: str, where: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{where}: expiry {text[:40]!r}: expected an ISO date or time such as 2027-01-31"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class TokenFile:
    """The tokens of a file, read anew when it changes. Any thread.

    A file that cannot be read or parsed at the start is a ConfigurationError; later the tokens known so far stay valid,
    and one error is logged: a file caught half-written must not cut off every reader.
    """

    def __init__(self, path: str, clock_s: Callable[[], float]) -> None:
        self._path = pathlib.Path(path)
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._stamp, self._entries = self._read()

    def name_of(self, token: str) -> str:
        """The name of a token that is known and not expired, else Unauthenticated (which of the two is told).

        Each known hash is compared in constant time, whether an earlier one was right or not.
        """
        digest = hashlib.sha256(token[: MAX_TOKEN_CHARS + 1].encode("utf-8", "replace")).digest()
        found = None
        for entry in self._current():
            if hmac.compare_digest(entry.digest, digest):
                now_s = self._clock_s()
                if entry.expiry_s is None or now_s < entry.expiry_s:
                    return entry.name
                found = entry
        if found is not None:
            raise Unauthenticated(f"the token of {found.name} has expired: ask for a new one")
        raise Unauthenticated("the token is not known to this server")

    def _current(self) -> tuple[TokenEntry, ...]:
        with self._lock:
            if self._stamp_now() != self._stamp:
                try:
                    self._stamp, self._entries = self._read()
                    log.info("tokens of %s read again: %d", self._path.name, len(self._entries))
                except ConfigurationError as error:
                    log.error("%s; the tokens known so far stay valid", error)
                    self._stamp = self._stamp_now()
            return self._entries

    def _stamp_now(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def _read(self) -> tuple[tuple[int, int, int], tuple[TokenEntry, ...]]:
        stamp = self._stamp_now()
        try:
            with self._path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigurationError(f"tokens: file {str(self._path)[:300]!r} cannot be read: {reason}") from None
        if len(data) > MAX_FILE_BYTES:
            raise ConfigurationError(f"tokens: file {str(self._path)[:300]!r} is larger than {MAX_FILE_BYTES} bytes")
        return stamp, parse_tokens(data.decode("utf-8", "replace"), self._path.name)
