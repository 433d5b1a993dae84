"""The table's lock, which writers of Hudi with `FileSystemBasedLockProvider` take too: the file `.hoodie/lock`.

Source: Hudi `FileSystemBasedLockProvider`: who creates the file has the lock, and deletes it to release. Hudi does not
read its content; Penstock stores the process there, so that the lock of a process that was killed does not stay.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import secrets
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import WriteConflict
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri

LOCK_FILE: Final = ".hoodie/lock"
_MAX_BYTES: Final = 4096
_POLL_S: Final = 0.05

CheckLock = Callable[[], None]
"""Raises WriteConflict if the lock was lost."""


@dataclass(frozen=True, slots=True)
class LockOwner:
    """A process."""

    host: str
    """Name of its machine, with the machine's boot and the container's process namespace."""
    pid: int
    """Its number there."""
    started: int
    """When it started, in clock ticks since the boot; another process of the same number started at another time."""

    def encode(self, **more: str) -> bytes:
        """The content of a file that names this process."""
        return json.dumps({"host": self.host, "pid": self.pid, "started": self.started, **more}).encode()


def this_process() -> LockOwner:
    """The calling process."""
    return LockOwner(_host(), os.getpid(), _started(os.getpid()) or 0)


def _host() -> str:
    """The machine, and on Linux its boot and the namespace of process numbers: containers with the network of their
    machine share its name, but not its processes."""
    proc = pathlib.Path("/proc")
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {(proc / 'self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> int | None:
    """When the process started; None if it does not run."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return int(fields[19]) if fields[0] not in ("Z", "X") else None


def is_dead(content: bytes) -> bool:
    """Whether the lock of this content was taken by a process of this machine that no longer runs. False if the content
    does not tell, as that of Hudi's locks."""
    try:
        owner = json.loads(content)
        host, pid, started = owner["host"], int(owner["pid"]), int(owner["started"])
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return False
    return bool(host == _host() and started and _started(pid) != started)


@contextlib.contextmanager
def table_lock(
    storage: WritableStorage, *, timeout_s: float, monotonic: Callable[[], float], sleep: Callable[[float], None]
) -> Iterator[CheckLock]:
    """Holds the lock while the block runs. The block calls what it gets before it changes the timeline: it raises
    WriteConflict if the lock is no longer this process's, because an operator or Hudi removed it.

    WriteConflict if another writer holds the lock for longer than `timeout_s`.
    """
    deadline = monotonic() + timeout_s
    content = this_process().encode(holder=secrets.token_hex(8))  # a process can have several writers
    while not _acquire(storage, content):
        if _remove_dead(storage):
            continue
        if monotonic() >= deadline:
            info = storage.file_info(LOCK_FILE)
            since = "" if info is None else f", created {_time(info.modified_ns)}"
            raise WriteConflict(
                f"table {redacted_uri(storage.base_path)}: another writer has held the table's lock ({LOCK_FILE}"
                f"{since}) for {timeout_s:g} s: nothing was written; try again, or delete the file if no writer runs"
            )
        sleep(_POLL_S)
    try:
        yield lambda: _check(storage, content)
    finally:
        if _has(storage, content):
            storage.remove(LOCK_FILE)


def _time(nanoseconds: int) -> str:
    moment = datetime.datetime.fromtimestamp(nanoseconds // 10**9, datetime.UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _acquire(storage: WritableStorage, content: bytes) -> bool:
    try:
        storage.create(LOCK_FILE, content)
    except FileExistsError:
        return False
    return True


def _check(storage: WritableStorage, content: bytes) -> None:
    if not _has(storage, content):
        raise WriteConflict(
            f"table {redacted_uri(storage.base_path)}: this write lost the table's lock ({LOCK_FILE}): an operator "
            "removed it, or a writer of Hudi for which it had expired: nothing was written; write again"
        )


def _has(storage: WritableStorage, content: bytes) -> bool:
    """Whether the lock is still the one with this content."""
    try:
        return storage.read_bytes(LOCK_FILE, _MAX_BYTES) == content
    except FileNotFoundError:
        return False


def _remove_dead(storage: WritableStorage) -> bool:
    """Removes the lock of a process that was killed, if it is that of one. One process at a time: else a second one
    could remove the lock that a third one has taken in the meantime."""
    folder = os.open(pathlib.Path(storage.base_path) / ".hoodie", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            return is_dead(storage.read_bytes(LOCK_FILE, _MAX_BYTES)) and storage.remove(LOCK_FILE)
        return False
    finally:
        os.close(folder)
