"""A write that the first of its tasks begins, and another process completes: no process runs from its beginning to its
end.

So its heartbeat names no process, and whichever task runs renews it. A file, `.hoodie/.aux/writes/<id of the write>`,
says to the other tasks which instant the first one began.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from penstock.proto.model.positions import InstantTime
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action
from penstock.writer.transaction.conflicts import StartOfWrite
from penstock.writer.transaction.heartbeat import beating, heartbeat_path
from penstock.writer.transaction.markers import attempt_folder
from penstock.writer.transaction.running_writes import timeline_path
from penstock.writer.transaction.transaction import (
    Transaction,
    WriteEnvironment,
    inflight_name,
    locked,
    new_time,
    refuse_restoring,
    removed_on_failure,
    requested_path,
)

FOLDER: Final = ".hoodie/.aux/writes"
KEPT: Final = timedelta(days=1)
"""How long the file of a write stays: a task that goes on after its end begins no other instant."""
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunWrite:
    """A write that a task has begun."""

    instant: InstantTime
    """Its instant."""
    start: StartOfWrite
    """The timeline at the beginning."""

    def encode(self) -> bytes:
        """The content of its file."""
        fields = {
            "instant": self.instant,
            "newestCompleted": self.start.newest_completed,
            "pending": sorted(self.start.pending),
        }
        return json.dumps(fields).encode()

    @staticmethod
    def parse(data: bytes) -> BegunWrite:
        """The inverse of `encode`."""
        fields = json.loads(data)
        start = StartOfWrite(fields["newestCompleted"], frozenset(fields["pending"]))
        return BegunWrite(instant=InstantTime(fields["instant"]), start=start)


def begun_write(storage: WritableStorage, write_id: str) -> BegunWrite | None:
    """The write of this id; None if no task has begun it."""
    try:
        return BegunWrite.parse(storage.read_bytes(f"{FOLDER}/{write_id}", _MAX_BYTES))
    except FileNotFoundError:
        return None


def begin_once(
    table: HudiTable,
    storage: WritableStorage,
    environment: WriteEnvironment,
    action: Action,
    write_id: str,
    check: Callable[[HudiTable], None],
) -> BegunWrite:
    """The write of this id, which begins here if no other task has begun it. Tasks can create files then.

    `check` is called before, under the lock, with the table as it is; its errors are raised, and nothing begins.
    WriteConflict while a restore is pending.
    """
    if (begun := begun_write(storage, write_id)) is not None:
        return begun
    with locked(storage, environment) as check_lock:
        if (begun := begun_write(storage, write_id)) is not None:
            return begun
        table = table.refreshed().pinned()
        timeline = table.timeline()
        refuse_restoring(table, timeline)
        check(table)
        _remove_old_files(storage, timeline, environment)
        instant = new_time(table, environment, timeline)
        begun = BegunWrite(instant=instant, start=StartOfWrite.of(timeline))
        requested = requested_path(instant, action, table)
        inflight = timeline_path(table.properties, inflight_name(instant, action, table))
        with removed_on_failure(storage, (inflight, requested, heartbeat_path(instant))):
            check_lock()
            storage.replace(heartbeat_path(instant), b"")
            storage.create(requested, b"")
            storage.create(inflight, b"")
            storage.make_folder(attempt_folder(instant))
            storage.create(f"{FOLDER}/{write_id}", begun.encode())
    return begun


@contextlib.contextmanager
def carried_on(
    table: HudiTable,
    storage: WritableStorage,
    environment: WriteEnvironment,
    action: Action,
    begun: BegunWrite,
    *,
    keeps_metadata: bool,
) -> Iterator[Transaction]:
    """The transaction of a write that tasks have carried out, in the process that completes it. `table` has the
    properties of the beginning. Tasks can create no more files."""
    with kept_alive(storage, begun):
        storage.close_folder(attempt_folder(begun.instant))
        yield Transaction(
            table=table,
            storage=storage,
            environment=environment,
            requested_time=begun.instant,
            action=action,
            start=begun.start,
            keeps_metadata=keeps_metadata,
        )


@contextlib.contextmanager
def kept_alive(storage: WritableStorage, begun: BegunWrite) -> Iterator[None]:
    """Renews the heartbeat of the write at once, and every minute while the block runs."""
    storage.touch(heartbeat_path(begun.instant))
    with beating(storage, begun.instant):
        yield


def _remove_old_files(storage: WritableStorage, timeline: Timeline, environment: WriteEnvironment) -> None:
    pending = {item.requested_time for item in timeline.pending}
    oldest_ns = (environment.now() - KEPT).timestamp() * 1e9
    for info in storage.list_dir(FOLDER):
        if not info.is_dir and info.modified_ns < oldest_ns:
            begun = begun_write(storage, info.name)
            if begun is None or begun.instant not in pending:
                storage.remove(info.path)
