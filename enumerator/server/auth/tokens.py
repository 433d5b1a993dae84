"""Tokens: creates them, reads the file of their hashes, and verifies them. No log line or error contains a token.

A token has 256 random bits, so one SHA-256 protects it as well as a slow hash. A line of the file is `name:sha256:HEX`
or `name:sha256:HEX:EXPIRY` (an ISO date or time, UTC); `#` begins a comment. A name may have several lines, so that a
new token is valid before the old one is removed.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import pathlib
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from penstock.proto.errors import ConfigurationError, StorageError, Unauthenticated
from penstock.proto.model.access import TOKEN_PREFIX

MAX_FILE_BYTES: Final = 4 << 20
MAX_TOKEN_CHARS: Final = 512
REFRESH_S: Final = 1.0
"""The interval of checks of the file without calls."""
_NAME = re.compile(r"[A-Za-z0-9._@/-]{1,100}")
_LINE = re.compile(r"(?P<name>[^:]*):sha256:(?P<hash>[0-9a-fA-F]{64})(?::(?P<expiry>.+))?")

log = logging.getLogger("penstock.enumerator.server")


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """One line of the file."""

    name: str
    """The name of the token."""
    digest: bytes
    """The SHA-256 of the token."""
    expiry_s: float | None = None
    """When it expires, in seconds since 1970 UTC; None: never."""


def new_token(name: str, expiry: str = "") -> tuple[str, str]:
    """A new token, and its line for the file. ConfigurationError for an invalid name or time."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"name of a token: got {name[:100]!r}, expected 1 to 100 letters, digits, `.`, `_`, `-`, `@`, `/`"
        )
    if expiry:
        _expiry_s(expiry, "--expires")
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    line = f"{name}:sha256:{hashlib.sha256(token.encode()).hexdigest()}"
    return token, f"{line}:{expiry}" if expiry else line


@dataclass(frozen=True, slots=True)
class TokenLines:
    """The parsed text of a file."""

    entries: tuple[TokenEntry, ...]
    """The well-formed lines."""
    problems: tuple[str, ...] = ()
    """The problem of each malformed line."""
    names: frozenset[str] = frozenset()
    """The names before the first colon of the malformed lines."""


def token_lines(text: str, where: str) -> TokenLines:
    """Parses every line. A problem contains the line's number and never its text, which may contain a token."""
    entries, problems, names = [], [], set()
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        try:
            entries.append(_entry(bare, f"tokens: {where}, line {number}"))
        except ConfigurationError as error:
            problems.append(str(error))
            names.add(bare.partition(":")[0])
    return TokenLines(tuple(entries), tuple(problems), frozenset(names))


def parse_tokens(text: str, where: str) -> tuple[TokenEntry, ...]:
    """The entries of a file's text. ConfigurationError for the first malformed line, and for a file without a token."""
    lines = token_lines(text, where)
    if lines.problems:
        raise ConfigurationError(lines.problems[0])
    if not lines.entries:
        raise ConfigurationError(f"tokens: {where} holds no token: add a line that `penstock token new NAME` prints")
    return lines.entries


def _entry(line: str, where: str) -> TokenEntry:
    match = _LINE.fullmatch(line)
    if match is None or not _NAME.fullmatch(match["name"]):
        raise ConfigurationError(
            f"{where}: expected NAME:sha256:HEX or NAME:sha256:HEX:EXPIRY, as `penstock token new NAME` prints it"
        )
    expiry_s = _expiry_s(match["expiry"], where) if match["expiry"] else None
    return TokenEntry(match["name"], bytes.fromhex(match["hash"]), expiry_s)


def _expiry_s(text: str, where: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{where}: expiry {text[:40]!r}: expected an ISO date or time such as 2027-01-31"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


@dataclass(frozen=True, slots=True)
class TokenStatus:
    """The current status of the file."""

    accepted: int
    """The number of valid tokens, including expired ones."""
    problem: str = ""
    """Why the file cannot be read or parsed; '' if it can."""
    closed: bool = False
    """Whether the problem lasts longer than the grace period, so that no token is valid."""


class TokenFile:
    """The tokens of a file, which is read again when it changes. Any thread.

    At the start, a file that cannot be read or parsed, or has no token, is a ConfigurationError. Later:

    * A token is valid while its line is in the file. This includes the last line.
    * If some lines are malformed, the well-formed ones are valid. A previous token whose name begins a malformed line
      stays valid for the grace period.
    * If the file cannot be read, or has only malformed lines, all previous tokens stay valid for the grace period.
    * After the grace period no token is valid until the file is correct again.
    """

    def __init__(
        self,
        path: str,
        clock_s: Callable[[], float],
        *,
        grace_s: float = 60.0,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock_s`: seconds since 1970 UTC, for expiry. `elapsed_s`: a monotonic clock, for the grace period."""
        self._path = pathlib.Path(path)
        self._clock_s, self._elapsed_s, self._grace_s = clock_s, elapsed_s, grace_s
        self._listeners: list[Callable[[TokenStatus], object]] = []
        self._lock = threading.Lock()
        self._stamp = self._stamp_now()
        self._entries = parse_tokens(self._text(), self._path.name)
        self._problem, self._readable, self._since_s = "", True, 0.0
        self._status = TokenStatus(len(self._entries))

    def on_status(self, listener: Callable[[TokenStatus], object]) -> None:
        """Calls the listener with the current status, and with each new one; one call at a time."""
        with self._lock:
            self._listeners.append(listener)
            listener(self._status)

    def name_of(self, token: str) -> str:
        """The name of a valid token. Unauthenticated: the token is unknown or expired; the text says which.
        StorageError while the file has been unusable for longer than the grace period.

        Each comparison of a hash takes constant time.
        """
        digest = hashlib.sha256(token[: MAX_TOKEN_CHARS + 1].encode("utf-8", "replace")).digest()
        expired = None
        for entry in self._current():
            if hmac.compare_digest(entry.digest, digest):
                now_s = self._clock_s()
                if entry.expiry_s is None or now_s < entry.expiry_s:
                    return entry.name
                expired = entry
        if expired is not None:
            raise Unauthenticated(f"the token of {expired.name} has expired: ask for a new one")
        raise Unauthenticated("the token is not known to this server")

    def refresh(self) -> TokenStatus:
        """Reads the file again if it changed or could not be read, and returns the current status."""
        with self._lock:
            stamp = self._stamp_now()
            if stamp != self._stamp or not self._readable:
                self._stamp = stamp
                self._read_again()
            closed = bool(self._problem) and self._elapsed_s() - self._since_s >= self._grace_s
            if closed:
                self._entries = ()
            status = TokenStatus(len(self._entries), self._problem, closed)
            if status != self._status:
                self._log(status)
                self._status = status
                for listener in self._listeners:
                    listener(status)
            return status

    def _current(self) -> tuple[TokenEntry, ...]:
        status = self.refresh()
        if status.closed:
            raise StorageError(
                f"the server cannot check tokens: its file of tokens has been unusable for more than {self._grace_s:g} "
                "s; the server's log names the problem"
            )
        return self._entries

    def _read_again(self) -> None:
        """Applies the current content of the file. The class says which previous tokens stay valid."""
        try:
            lines = token_lines(self._text(), self._path.name)
            self._readable = True
        except ConfigurationError as error:
            lines, self._readable = TokenLines((), (str(error),)), False
        if lines.problems and not self._problem:
            self._since_s = self._elapsed_s()
        self._problem = lines.problems[0] if lines.problems else ""
        if lines.entries or not lines.problems:
            known = {entry.digest for entry in lines.entries}
            retained = (entry for entry in self._entries if entry.name in lines.names and entry.digest not in known)
            self._entries = (*lines.entries, *retained)

    def _log(self, status: TokenStatus) -> None:
        if status.closed:
            log.critical("%s; no token is accepted until the file is correct: the grace is over", status.problem)
        elif status.problem:
            log.error(
                "%s; %d tokens stay valid until the grace of %g s is over",
                status.problem,
                status.accepted,
                self._grace_s,
            )
        else:
            log.info("tokens of %s read again: %d", self._path.name, status.accepted)
        if not status.accepted and not status.problem:
            log.warning("tokens: %s holds no token: nobody is authenticated by one", self._path.name)

    def _stamp_now(self) -> tuple[int, int, int, int]:
        try:
            status = self._path.stat()
        except (OSError, ValueError):
            return (0, 0, 0, 0)
        return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)

    def _text(self) -> str:
        """ConfigurationError for a file that cannot be read, or is larger than MAX_FILE_BYTES."""
        try:
            with self._path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigurationError(f"tokens: file {str(self._path)[:300]!r} cannot be read: {reason}") from None
        if len(data) > MAX_FILE_BYTES:
            raise ConfigurationError(f"tokens: file {str(self._path)[:300]!r} is larger than {MAX_FILE_BYTES} bytes")
        return data.decode("utf-8", "replace")


class TokenRefresh:
    """A thread that refreshes a file of tokens every REFRESH_S, so that its status is current without calls."""

    def __init__(self, tokens: TokenFile) -> None:
        self._tokens = tokens
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-tokens", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread. May be called again."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(REFRESH_S):
            try:
                self._tokens.refresh()
            except Exception:
                log.exception("tokens: a refresh of the file's status failed; it is repeated")
