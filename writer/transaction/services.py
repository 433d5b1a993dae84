"""Transactions of table services: their plan is an instant that any process may carry out, one at a time.

Source: Hudi `BaseHoodieTableServiceClient`: who carries out a plan keeps the heartbeat of its instant, which it takes
under the table's lock. A run that failed leaves the plan; the next run removes the files of the failed one first.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from penstock.proto.errors import PenstockError, WriteConflict
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import TouchedGroups
from penstock.table.files.markers import IoType, Marker, marker_folder, parse_marker
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.instants import Action, Instant, State
from penstock.writer.transaction.conflicts import (
    StartOfWrite,
    first_conflict,
    rewritten_by,
)
from penstock.writer.transaction.heartbeat import (
    EXPIRES_S,
    age_s,
    beating,
    has_heartbeat,
    heartbeat_path,
    start_heartbeat,
    writer_is_dead,
)
from penstock.writer.transaction.marked_files import joined
from penstock.writer.transaction.markers import markers_of, remove_marked_files
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

log = logging.getLogger("penstock.writer")

_ATTEMPTS = 1_000_000

Planner = Callable[[HudiTable, InstantTime], bytes | None]
"""Makes the requested file of a service at this instant of a pinned table; None if there is nothing to do."""


@dataclass(frozen=True, slots=True)
class ScheduledService:
    """A planned service."""

    instant: InstantTime
    """Its requested time."""
    heartbeat: bytes
    """The content of its heartbeat, which says that this process carries it out; b"" if it has none."""


def schedule(
    table: HudiTable,
    storage: WritableStorage,
    environment: WriteEnvironment,
    action: Action,
    planner: Planner,
    *,
    begins: bool,
) -> ScheduledService | None:
    """Plans a service, under the table's lock: no write completes between the plan's instant and its file. None, and
    nothing changes, if there is nothing to do.

    begins: this process carries the plan out next. It has a heartbeat from the start, so that others know if the
    process is killed.
    """
    with locked(storage, environment) as check_lock:
        table = table.refreshed().pinned()
        refuse_restoring(table, table.timeline())
        instant = new_time(table, environment, table.timeline())
        requested = planner(table, instant)
        if requested is None:
            return None
        path = requested_path(instant, action, table)
        with removed_on_failure(storage, (path, heartbeat_path(instant))):
            heartbeat = start_heartbeat(storage, instant) if begins else b""
            check_lock()
            storage.create(path, requested)
    return ScheduledService(instant, heartbeat)


@dataclass(slots=True, kw_only=True)
class ServiceTransaction(Transaction):
    """A run of a planned service. Another process may take it over when this one seems dead: then nothing that this one
    still does may be seen."""

    heartbeat: bytes
    """The content of this run's heartbeat."""
    attempt: int
    """The number in the write tokens of this run's files, which no other run has."""
    _sizes: dict[str, int] = field(default_factory=dict)

    @contextlib.contextmanager
    def data_file(self, partition: str, name: str, io_type: IoType) -> Iterator[BinaryIO]:
        """As `Transaction.data_file`. WriteConflict if another process carries out the plan; the file is removed then.

        It is checked afterwards too: the other process may have completed the instant meanwhile, so that the file would
        be one of the table.
        """
        self._check_owner()
        with Transaction.data_file(self, partition, name, io_type) as file:
            yield file
        try:
            self._check_owner()
        except WriteConflict:
            self.storage.remove(joined(partition, name))
            raise

    def complete(
        self, metadata: CommitMetadata, touched: TouchedGroups, *, by_bucket: bool, writes_base_files: bool
    ) -> InstantTime:
        """As `Transaction.complete`. Before, files of the instant that the metadata does not name are removed."""
        self._sizes = {stat.path: stat.file_size_bytes for stat in metadata.stats}
        return Transaction.complete(self, metadata, touched, by_bucket=by_bucket, writes_base_files=writes_base_files)

    def _check_alive(self, table: HudiTable, timeline: Timeline) -> None:
        Transaction._check_alive(self, table, timeline)
        self._check_owner()
        markers = markers_of(self.storage, self.requested_time)
        infos = {path: self.storage.file_info(path) for path in self._sizes}
        if not {*self._own_markers()} <= {*markers} or any(
            info is None or info.size_bytes != self._sizes[path] for path, info in infos.items()
        ):
            raise self._taken_over()  # by a writer of Hudi without heartbeats
        remove_marked_files(self.storage, self.requested_time, markers, kept=self._sizes)

    def _check_conflicts(
        self,
        table: HudiTable,
        timeline: Timeline,
        commits: Sequence[tuple[Instant, CommitMetadata]],
        touched: TouchedGroups,
        *,
        by_bucket: bool,
        writes_base_files: bool,
    ) -> None:
        """As `Transaction._check_conflicts`. Logs of a compaction's groups may have come in the meantime; the rows
        of a new base file would be lost."""
        if self.action is not Action.COMPACTION:
            Transaction._check_conflicts(
                self, table, timeline, commits, touched, by_bucket=by_bucket, writes_base_files=writes_base_files
            )
            return
        others = [(item, rewritten_by(commit)) for item, commit in commits]
        if (conflict := first_conflict(touched, others, by_bucket=False)) is not None:
            other, group = conflict
            raise WriteConflict(
                f"table {redacted_uri(table.base_path)}: {other.action} {other.requested_time} of another writer "
                f"rewrote {group}, and compaction {self.requested_time} of it would lose its rows: nothing of this run "
                "is visible"
            )

    def _check_owner(self) -> None:
        if not has_heartbeat(self.storage, self.requested_time, self.heartbeat):
            raise self._taken_over()

    def _taken_over(self) -> WriteConflict:
        return WriteConflict(
            f"table {redacted_uri(self.table.base_path)}: another process has taken over {self.action} "
            f"{self.requested_time}, because this one seemed dead, or removed its files: nothing of this run is visible"
        )

    def _own_markers(self) -> list[Marker]:
        return [marker for path in self._markers if (marker := parse_marker(path)) is not None]

    def revert(self) -> None:
        """Removes the files of this run; the plan stays. If another process has taken over, only this run's files."""
        remove_marked_files(self.storage, self.requested_time, self._own_markers())
        if has_heartbeat(self.storage, self.requested_time, self.heartbeat):
            _remove_run(self.table, self.storage, self.requested_time, self.action)


@contextlib.contextmanager
def service_transaction(
    table: HudiTable,
    storage: WritableStorage,
    environment: WriteEnvironment,
    planned: Instant,
    *,
    sole_writer: bool,
    heartbeat: bytes = b"",
) -> Iterator[ServiceTransaction]:
    """A run of a planned service while the block runs. `heartbeat`: that of `schedule`, if this process planned it.

    WriteConflict if another process runs it: its heartbeat has not expired, or the instant is inflight without a
    heartbeat, as in a writer of Hudi, and it is not said that there is no other writer. What a dead run left is removed
    first. If the block ends with an error, the files of this run are removed, and the plan stays; so does a heartbeat
    of `schedule`, for `leave` or a rollback.
    """
    instant = planned.requested_time
    with locked(storage, environment):
        table = table.refreshed()
        timeline = table.timeline()
        refuse_restoring(table, timeline)
        pending = next((item for item in timeline.pending if item.requested_time == instant), None)
        if pending is None or pending.action is not planned.action:
            raise WriteConflict(
                f"table {redacted_uri(table.base_path)}: {planned.action} {instant} is no longer pending: another "
                "process completed it, or rolled it back"
            )
        is_own = bool(heartbeat) and has_heartbeat(storage, instant, heartbeat)
        if not is_own:
            if not sole_writer:
                _refuse_running(storage, environment, pending)
            heartbeat = start_heartbeat(storage, instant)
    with beating(storage, instant):
        begun = ServiceTransaction(
            table=table,
            storage=storage,
            environment=environment,
            requested_time=instant,
            action=pending.action,
            start=StartOfWrite.of(timeline),
            heartbeat=heartbeat,
            attempt=secrets.randbelow(_ATTEMPTS),
        )
        try:
            _remove_run(table, storage, instant, pending.action)
            storage.create(timeline_path(table.properties, inflight_name(instant, pending.action, table)), b"")
            yield begun
        except BaseException:
            _revert(begun, leaves=not is_own)
            raise


def leave(storage: WritableStorage, scheduled: ScheduledService) -> None:
    """Leaves a planned service to the next process that carries it out."""
    if has_heartbeat(storage, scheduled.instant, scheduled.heartbeat):
        storage.remove(heartbeat_path(scheduled.instant))


def _revert(begun: ServiceTransaction, *, leaves: bool) -> None:
    if begun.is_complete:
        return
    try:
        begun.revert()
        if leaves:
            leave(begun.storage, ScheduledService(begun.requested_time, begun.heartbeat))
    except PenstockError as error:
        name = redacted_uri(begun.table.base_path)
        log.warning("table %s: files of %s %s stay: %s", name, begun.action, begun.requested_time, error)


def _refuse_running(storage: WritableStorage, environment: WriteEnvironment, pending: Instant) -> None:
    instant, where = pending.requested_time, f"table {redacted_uri(storage.base_path)}"
    age = age_s(storage, instant, environment.now().timestamp())
    if age is None and pending.state is State.INFLIGHT:
        raise WriteConflict(
            f"{where}: {pending.action} {instant} is inflight without a heartbeat: a writer of Hudi runs it, or was "
            "killed: nothing was done; if no writer runs, give sole_writer=True"
        )
    if age is not None and age <= EXPIRES_S and not writer_is_dead(storage, instant):
        raise WriteConflict(
            f"{where}: another process runs {pending.action} {instant}: its last heartbeat is {age:.0f} s old: nothing "
            f"was done; wait until it ends, or {EXPIRES_S:.0f} s after it was killed"
        )


def _remove_run(table: HudiTable, storage: WritableStorage, instant: str, action: Action) -> None:
    """Removes what a run left: data files by their markers, then the inflight file, then the markers."""
    remove_marked_files(storage, instant, markers_of(storage, instant))
    storage.remove(timeline_path(table.properties, inflight_name(instant, action, table)))
    storage.remove_folder(marker_folder(instant))
