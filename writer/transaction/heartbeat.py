"""Heartbeats of running writes, as Hudi's writers with the LAZY policy for failed writes keep them.

Source: Hudi `HoodieHeartbeatClient`: the file `.hoodie/.heartbeat/<instant>`, whose time of the last change its writer
sets every minute. A heartbeat that is older than two minutes has expired, and any writer may roll the instant back.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator
from typing import Final

from penstock.proto.errors import StorageError
from penstock.table.storage.local_writes import WritableStorage
from penstock.writer.transaction.lock import is_dead, this_process

FOLDER: Final = ".hoodie/.heartbeat"
INTERVAL_S: Final = 60.0
EXPIRES_S: Final = 120.0
"""Hudi's `hoodie.client.heartbeat.interval_in_ms` times its tolerable misses, 2."""
_MAX_BYTES: Final = 4096


def heartbeat_path(instant: str) -> str:
    """The heartbeat of an instant."""
    return f"{FOLDER}/{instant}"


def start_heartbeat(storage: WritableStorage, instant: str) -> bytes:
    """Creates the heartbeat, or takes it over, and returns its content. Hudi does not read it; it names this process,
    so that others need not wait if it is killed, and this run of the instant."""
    content = this_process().encode(holder=secrets.token_hex(8))
    storage.replace(heartbeat_path(instant), content)
    return content


def has_heartbeat(storage: WritableStorage, instant: str, content: bytes) -> bool:
    """Whether the instant's heartbeat is still the one with this content."""
    try:
        return storage.read_bytes(heartbeat_path(instant), _MAX_BYTES) == content
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def beating(storage: WritableStorage, instant: str) -> Iterator[None]:
    """Renews the heartbeat every minute while the block runs, in a thread."""
    stopped = threading.Event()

    def beat() -> None:
        while not stopped.wait(INTERVAL_S):
            with contextlib.suppress(StorageError):  # the next beat may succeed; `complete` checks the age
                storage.touch(heartbeat_path(instant))

    thread = threading.Thread(target=beat, name=f"heartbeat-{instant}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def age_s(storage: WritableStorage, instant: str, now_s: float) -> float | None:
    """The seconds since the last beat; None if the instant has no heartbeat."""
    info = storage.file_info(heartbeat_path(instant))
    return None if info is None else now_s - info.modified_ns / 1e9


def writer_is_dead(storage: WritableStorage, instant: str) -> bool:
    """Whether the heartbeat was created by a process of this machine that no longer runs."""
    try:
        return is_dead(storage.read_bytes(heartbeat_path(instant), _MAX_BYTES))
    except FileNotFoundError:
        return False
