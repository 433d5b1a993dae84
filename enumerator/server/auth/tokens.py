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
"""How often the file is looked at when nobody calls."""
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


@dataclass(frozen=True, slots=True)
class TokenLines:
    """What a file's text holds: the entries of its well-formed lines, and of the others the problem and the name before
    the first colon."""

    entries: tuple[TokenEntry, ...]
    problems: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()


def token_lines(text: str, where: str) -> TokenLines:
    """Every line, well-formed or not. A problem names the line, and never shows it: it may hold a token."""
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
    """The entries of a file's text. ConfigurationError for the first line that is not well-formed, and for a file
    without a token."""
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
    """How the file is now. `accepted`: tokens that count, expired ones included. `problem`: why the file cannot be read
    or parsed; '' if it can. `closed`: that lasts longer than the grace, so no token counts."""

    accepted: int
    problem: str = ""
    closed: bool = False


class TokenFile:
    """The tokens of a file, read again when it changes. Any thread.

    At the start a file that cannot be read or parsed, or without a token, is a ConfigurationError. Later a token counts
    from the moment that its line is there to the moment that it is gone, also of the last one. Of a file with malformed
    lines the well-formed ones count, and until `grace_s` is over those tokens known before whose name begins a
    malformed line. Of a file that cannot be read, or has no well-formed line but malformed ones, all tokens known
    before count until `grace_s` is over. After the grace no token counts until the file is right again.
    """

    def __init__(
        self,
        path: str,
        clock_s: Callable[[], float],
        *,
        grace_s: float = 60.0,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock_s`: seconds since 1970 UTC, for expiry. `elapsed_s`: never runs backwards, for the grace."""
        self._path = pathlib.Path(path)
        self._clock_s, self._elapsed_s, self._grace_s = clock_s, elapsed_s, grace_s
        self._listeners: list[Callable[[TokenStatus], object]] = []
        self._lock = threading.Lock()
        self._stamp = self._stamp_now()
        self._entries = parse_tokens(self._text(), self._path.name)
        self._problem, self._readable, self._since_s = "", True, 0.0
        self._status = TokenStatus(len(self._entries))

    def on_status(self, listener: Callable[[TokenStatus], object]) -> None:
        """Calls the listener with the status now, and with each new one; one call at a time."""
        with self._lock:
            self._listeners.append(listener)
            listener(self._status)

    def name_of(self, token: str) -> str:
        """The name of a token that is known and not expired, else Unauthenticated (which of the two is told).
        StorageError while the file has been unusable for longer than the grace.

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

    def refresh(self) -> TokenStatus:
        """Reads the file again if it changed or could not be read; the status now."""
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
        """Takes in what the file holds now; what of the tokens known before stays is the class's promise."""
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
            kept = (entry for entry in self._entries if entry.name in lines.names and entry.digest not in known)
            self._entries = (*lines.entries, *kept)

    def _log(self, status: TokenStatus) -> None:
        if status.closed:
            log.critical("%s; no token is accepted until the file is right: the grace is over", status.problem)
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
            found = self._path.stat()
        except (OSError, ValueError):
            return (0, 0, 0, 0)
        return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)

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
    """Refreshes a file of tokens every REFRESH_S, so that its status is known without a call. `stop` ends it."""

    def __init__(self, tokens: TokenFile) -> None:
        self._tokens = tokens
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-tokens", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends it; may be called again."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(REFRESH_S):
            try:
                self._tokens.refresh()
            except Exception:
                log.exception("tokens: a refresh of the file's status failed; it is repeated")
