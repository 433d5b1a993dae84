"""The lock of a state directory. It shows whether a serving process is alive.

The lock is not the leadership, which is the epoch in the database. It keeps two servers from taking the leadership from
each other in turns.

It is a BSD lock (`flock`) on `penstock.lock`. The operating system releases it when its process ends for any reason. A
second open in the same process conflicts with the first. A takeover replaces the file with a new, locked one, so the
file under that name always belongs to the newest leader; lock files by name alone (and the `filelock` library) cannot
do this. POSIX only.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from penstock.enumerator.store.sqlite.row_format import LOCK
from penstock.proto.errors import ConfigurationError, StorageError

try:
    import fcntl
except ImportError as missing:  # Windows
    raise ConfigurationError(
        "a state directory needs POSIX file locks, which this system does not have: serve without one, or on Linux or "
        "macOS"
    ) from missing

RETRY_INTERVAL_S: Final = 0.02
"""The interval between attempts to take the lock."""
LEAST_WAIT_S: Final = 0.06
"""The shortest wait: `penstock state check` takes the lock for a moment to test it, which must not fail an opening."""
_MAX_HOLDER_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks that this module uses, all in seconds."""

    monotonic: Callable[[], float] = time.monotonic
    """A monotonic clock, for timeouts."""
    sleep: Callable[[float], None] = time.sleep
    """Blocks the thread for a time."""
    wall: Callable[[], float] = time.time
    """The wall clock, in seconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that locked a state directory last."""

    pid: int
    """Its process id."""
    host: str
    """Its host's name."""
    since: str
    """When it took the lock, as an ISO time in UTC."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


class DirectoryLock:
    """A lock that is held until `release`, or until another process replaces it."""

    def __init__(self, path: Path, descriptor: int, *, from_another: bool) -> None:
        self.from_another = from_another
        """Whether it was taken over from a process that may be alive and may still have the files open."""
        self._path = path
        self._descriptor: int | None = descriptor

    def is_newest(self) -> bool:
        """Whether no other process has replaced this lock."""
        return self._descriptor is not None and _same_file(self._descriptor, self._path)

    def release(self) -> None:
        """Releases the lock. May be called again."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)


def take_lock(directory: Path, *, takeover: bool, wait_ms: int, clocks: Clocks) -> DirectoryLock:
    """The directory's lock. If another process holds it: waits for up to `wait_ms`, or takes over at once.

    StorageError: the holder, which it names, did not release the lock in this time; or an operating system error.
    """
    path = directory / LOCK
    until = clocks.monotonic() + max(wait_ms / 1000, LEAST_WAIT_S)
    try:
        while True:
            lock = _try_lock(path, clocks)
            if lock is not None:
                return lock
            if takeover:
                return _put_in_place(path, clocks)
            if clocks.monotonic() >= until:
                raise StorageError(
                    f"state directory {directory}: {_read_holder(path) or 'another process'} serves from it, and did "
                    f"not end within {wait_ms} ms: stop it, wait longer, or take over"
                )
            clocks.sleep(RETRY_INTERVAL_S)
    except OSError as error:
        raise StorageError(f"state directory {directory}: cannot lock {LOCK}: {error.strerror}") from error


def read_lock(directory: Path) -> tuple[Holder | None, bool]:
    """The process that locked the directory last, if known, and whether it still holds the lock. Changes nothing."""
    path = directory / LOCK
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None, False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return _read_holder(path), error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
    finally:
        os.close(descriptor)
    return _read_holder(path), False


def _try_lock(path: Path, clocks: Clocks) -> DirectoryLock | None:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same_file(descriptor, path):
                _write_holder(descriptor, clocks)
                return DirectoryLock(path, descriptor, from_another=False)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # locked, but replaced in the meantime


def _put_in_place(path: Path, clocks: Clocks) -> DirectoryLock:
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _write_holder(descriptor, clocks)
        fresh.replace(path)
    except BaseException:
        os.close(descriptor)
        fresh.unlink(missing_ok=True)
        raise
    return DirectoryLock(path, descriptor, from_another=True)


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), named)


def _write_holder(descriptor: int, clocks: Clocks) -> None:
    since = datetime.fromtimestamp(clocks.wall(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(asdict(Holder(os.getpid(), socket.gethostname(), since))).encode(), 0)


def _read_holder(path: Path) -> Holder | None:
    try:
        with path.open("rb") as stream:
            fields = json.loads(stream.read(_MAX_HOLDER_BYTES))
        return Holder(int(fields["pid"]), str(fields["host"]), str(fields["since"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def newest_holder(directory: Path) -> str:
    """The process that holds or last held the directory, for the text of an error."""
    return str(_read_holder(directory / LOCK) or "another process")
