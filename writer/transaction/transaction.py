"""A write of a table: requested, inflight, data files with markers, completed.

The order of the steps is Hudi's (`BaseHoodieWriteClient`, `HoodieActiveTimeline`, `WriteMarkers`): a marker exists
before its data file, every data file before the completed file, and the completed file before the markers go. A process
that is killed at any step leaves an instant that any writer, Hudi's or Penstock's, can roll back.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final

from penstock.proto.errors import PenstockError, StorageError, TableError, WriteConflict
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import TouchedGroups
from penstock.table.files.markers import marker_folder
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commit_encoder import encode_commit
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.instants import Action, Instant, State, instant_file_name
from penstock.writer.metadata_table.partitions import ListedPartitions, drop_metadata_table
from penstock.writer.metadata_table.update import changes_of, record_files
from penstock.writer.transaction.clock import newest_time, next_time
from penstock.writer.transaction.conflicts import (
    StartOfWrite,
    completed_since,
    first_conflict,
    first_other_schema,
    is_harmless,
    pending_restores,
    pending_services,
    touched_by,
)
from penstock.writer.transaction.heartbeat import (
    beating,
    heartbeat_path,
    start_heartbeat,
)
from penstock.writer.transaction.kept_settings import changed_setting
from penstock.writer.transaction.lock import CheckLock, table_lock
from penstock.writer.transaction.marked_files import MarkedFiles
from penstock.writer.transaction.markers import attempt_folder
from penstock.writer.transaction.running_writes import can_complete, timeline_path

log = logging.getLogger("penstock.writer")

LOCK_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteEnvironment:
    """What a write takes from outside of the table."""

    zone: tzinfo
    """The time zone of the timeline."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    """The wall clock, aware of its zone."""
    monotonic: Callable[[], float] = time.monotonic
    """Seconds of a clock that never goes back."""
    sleep: Callable[[float], None] = time.sleep
    """Waits for so many seconds."""
    lock_timeout_s: float = LOCK_TIMEOUT_S
    """How long a write waits for the table's lock."""


@dataclass(slots=True, kw_only=True)
class Transaction(MarkedFiles):
    """A write that has begun. For one thread."""

    table: HudiTable
    """The table as it was when the write began."""
    environment: WriteEnvironment
    """Clocks and zone."""
    action: Action
    """Its action."""
    start: StartOfWrite
    """The timeline at the beginning."""
    keeps_metadata: bool = True
    """Whether the metadata table is kept current, or removed when the write completes."""
    is_complete: bool = False
    """Whether readers see the write."""
    before_completion: Callable[[HudiTable], None] = lambda table: None
    """Called by `complete` under the lock, with the table as it is then. Its errors are those of `complete`."""

    def lease(self, touched: TouchedGroups) -> None:
        """Called before the files of these groups are written. Without a server, conflicts are found by `complete`."""

    def complete(
        self, metadata: CommitMetadata, touched: TouchedGroups, *, by_bucket: bool, writes_base_files: bool
    ) -> InstantTime:
        """Completes the write: now readers see its files. Returns the completion time; on layout 1 the requested one.

        WriteConflict if another writer changed the same file groups, or the columns, or rolled this write back;
        TableError if the table was upgraded in the meantime. Nothing is visible then, and the caller rolls back.
        """
        with self._locked() as check_lock:
            table = self._unchanged_table()
            timeline = table.timeline()
            self._check_alive(table, timeline)
            self.before_completion(table)
            commits = self._commits_since(table, timeline, metadata.schema_json)
            self._check_conflicts(
                table, timeline, commits, touched, by_bucket=by_bucket, writes_base_files=writes_base_files
            )
            layout = table.properties.layout
            check_lock()
            recorded = self._record_in_metadata(table, timeline, metadata)
            completion = new_time(table, self.environment, timeline, recorded or "")
            completed_action = metadata_action(self.action)
            data = encode_commit(metadata, completed_action, layout)
            name = instant_file_name(
                self.requested_time, self.action, State.COMPLETED, completion if layout == 2 else None, layout
            )
            check_lock()
            self._create_completed(timeline_path(table.properties, name), data)
            self.is_complete = True
        self._remove_traces()
        return completion if layout == 2 else self.requested_time

    def refuse_ended(self) -> None:
        """WriteConflict if another writer rolled the write back, or may do so."""
        self._check_alive(self.table, self.table.unpinned().timeline())

    def _record_in_metadata(self, table: HudiTable, timeline: Timeline, metadata: CommitMetadata) -> InstantTime | None:
        """Records the files in the metadata table, or removes it; the completion time there."""
        if not self.keeps_metadata:
            if ListedPartitions.of(table.properties).exists:
                drop_metadata_table(self.storage, table.properties, "the write's option metadata is off")
            return None
        return record_files(
            table,
            self.storage,
            timeline,
            self.requested_time,
            changes_of(metadata),
            lambda inner: new_time(table, self.environment, timeline, newest_time(inner)),
        )

    def _create_completed(self, path: str, data: bytes) -> None:
        """Creates the completed file. A failure after readers can see it is none: what they saw must stay."""
        try:
            self.storage.create(path, data)
        except StorageError as error:
            if self.storage.file_info(path) is None:
                raise
            log.warning("table %s: %s is complete, and may not be on the disk yet: %s", _name(self.table), path, error)

    def _locked(self) -> contextlib.AbstractContextManager[CheckLock]:
        return locked(self.storage, self.environment)

    def _check_alive(self, table: HudiTable, timeline: Timeline) -> None:
        """WriteConflict unless the instant is pending, its heartbeat has not expired, and nobody has planned to roll it
        back. A process that was paused renews its heartbeat first, also while its files are being removed."""
        if not can_complete(table, self.storage, timeline, self.requested_time, self.environment.now()):
            raise WriteConflict(
                f"table {_name(self.table)}: another writer rolled back instant {self.requested_time} of this write, "
                "or may do so because its heartbeat expired: nothing was written; write again"
            )

    def _unchanged_table(self) -> HudiTable:
        """The table with its properties read again. TableError if it was upgraded: its timeline is another one."""
        table = HudiTable(self.storage, self.table.properties).refreshed()
        mine, others = self.table.properties, table.properties
        if (mine.version, mine.layout) != (others.version, others.layout):
            raise TableError(
                f"table {_name(table)}: it changed during this write, from version {mine.version} to {others.version}: "
                "nothing was written; write again"
            )
        if name := changed_setting(mine.raw, others.raw):
            raise TableError(
                f"table {_name(table)}: its property {name} changed during this write, from "
                f"{mine.raw.get(name, '')[:80]!r} to {others.raw.get(name, '')[:80]!r}: nothing was written; write "
                "again"
            )
        return table

    def _commits_since(
        self, table: HudiTable, timeline: Timeline, schema_json: str
    ) -> list[tuple[Instant, CommitMetadata]]:
        """What completed since the beginning. WriteConflict if it has other columns than this write."""
        commits = [(item, table.commit(item)) for item in completed_since(timeline, self.start, self.requested_time)]
        if other := first_other_schema(schema_json, commits):
            raise WriteConflict(
                f"table {_name(table)}: {other.action} {other.requested_time} of another writer has other columns "
                f"than this write (instant {self.requested_time}): nothing was written; write again"
            )
        return commits

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
        layout = table.properties.layout
        others = [
            (item, touched_by(commit))
            for item, commit in commits
            if not is_harmless(
                commit,
                layout,
                writes_base_files=writes_base_files,
                was_pending=item.requested_time in self.start.pending,
            )
        ]
        others += [
            (item, planned_groups(table, item))
            for item in pending_services(timeline)
            if item.requested_time != self.requested_time
        ]
        others += [
            (item, planned_groups(table, item))
            for item in timeline.pending
            if item.action is Action.COMPACTION and (layout == 1 or writes_base_files)
            if item.requested_time not in self.start.pending
        ]
        conflict = first_conflict(touched, others, by_bucket=by_bucket)
        if conflict is not None:
            other, group = conflict
            raise WriteConflict(
                f"table {_name(table)}: {other.action} {other.requested_time} of another writer changes {group}, which "
                f"this write (instant {self.requested_time}) changes too: nothing was written; write again"
            )

    def _remove_traces(self) -> None:
        """Removes markers and heartbeat. The write is complete: a failure leaves files that harm nothing."""
        try:
            remove_traces(self.storage, self.requested_time)
        except PenstockError as error:
            log.warning("table %s: markers of instant %s stay: %s", _name(self.table), self.requested_time, error)


def new_time(table: HudiTable, environment: WriteEnvironment, timeline: Timeline, newest: str = "") -> InstantTime:
    """The time of a new instant, or of a completion: later than all times of the timeline, and than `newest`."""
    latest = max(newest_time(timeline), newest)
    return next_time(environment.now(), environment.zone, latest, _name(table))


def metadata_action(action: Action) -> Action:
    """The action that a completed file of this action has."""
    return {Action.COMPACTION: Action.COMMIT, Action.CLUSTERING: Action.REPLACE_COMMIT}.get(action, action)


def refuse_restoring(table: HudiTable, timeline: Timeline) -> None:
    """WriteConflict while a restore is pending: it would not remove what begins now."""
    for restore in pending_restores(timeline):
        raise WriteConflict(
            f"table {_name(table)}: restore {restore.requested_time} is pending: nothing was done; if it was "
            "interrupted, carry it on by `penstock restore`"
        )


def locked(storage: WritableStorage, environment: WriteEnvironment) -> contextlib.AbstractContextManager[CheckLock]:
    """Holds the table's lock while the block runs."""
    return table_lock(
        storage,
        timeout_s=environment.lock_timeout_s,
        monotonic=environment.monotonic,
        sleep=environment.sleep,
    )


@contextlib.contextmanager
def transaction(
    table: HudiTable,
    storage: WritableStorage,
    environment: WriteEnvironment,
    action: Action,
    requested: bytes = b"",
    *,
    keeps_metadata: bool = True,
) -> Iterator[Transaction]:
    """A write of the table while the block runs, as `begin`. The heartbeat is renewed meanwhile. If the block ends with
    an error before `complete` succeeded, the instant stays pending: the caller rolls it back."""
    begun = begin(table, storage, environment, action, requested, keeps_metadata=keeps_metadata)
    with beating(storage, begun.requested_time):
        yield begun


def begin(
    table: HudiTable,
    storage: WritableStorage,
    environment: WriteEnvironment,
    action: Action,
    requested: bytes = b"",
    *,
    keeps_metadata: bool = True,
) -> Transaction:
    """A new instant of the table, with its heartbeat. `requested` is the content of the requested file;
    `keeps_metadata` is that of `Transaction`."""
    with locked(storage, environment):
        timeline = table.timeline()
        refuse_restoring(table, timeline)
        instant = new_time(table, environment, timeline)
        begun = (requested_path(instant, action, table), heartbeat_path(instant))
        with removed_on_failure(storage, begun):
            start_heartbeat(storage, instant)
            storage.create(begun[0], requested)
    inflight = timeline_path(table.properties, inflight_name(instant, action, table))
    with removed_on_failure(storage, (inflight, *begun)):
        storage.create(inflight, b"")
    return Transaction(
        table=table,
        storage=storage,
        environment=environment,
        requested_time=instant,
        action=action,
        start=StartOfWrite.of(timeline),
        keeps_metadata=keeps_metadata,
    )


@contextlib.contextmanager
def removed_on_failure(storage: WritableStorage, paths: Sequence[str]) -> Iterator[None]:
    """Removes the files of an instant that could not begin, such as on a full disk: it has no data files yet."""
    try:
        yield
    except StorageError:
        with contextlib.suppress(StorageError):  # the next writer rolls it back
            for path in paths:
                storage.remove(path)
        raise


def requested_path(instant: str, action: Action, table: HudiTable) -> str:
    """The path of the requested file of an instant."""
    name = instant_file_name(instant, action, State.REQUESTED, None, table.properties.layout)
    return timeline_path(table.properties, name)


def inflight_name(instant: str, action: Action, table: HudiTable) -> str:
    """The name of the inflight file of an instant."""
    return instant_file_name(instant, action, State.INFLIGHT, None, table.properties.layout)


def remove_traces(storage: WritableStorage, instant: str) -> None:
    """Removes the markers and the heartbeat of an instant that ended. Attempts at its tasks can create no more files
    then."""
    storage.close_folder(attempt_folder(instant))
    storage.remove_folder(marker_folder(instant))
    storage.remove(heartbeat_path(instant))


def is_clustering(table: HudiTable, instant: Instant) -> bool:
    """Whether a pending instant is a clustering. On layout 1 its requested file says so."""
    if instant.action is Action.REPLACE_COMMIT:
        return table.requested_replace(instant).is_clustering
    return instant.action is Action.CLUSTERING


def planned_groups(table: HudiTable, instant: Instant) -> TouchedGroups:
    """The file groups that a pending service will replace or rewrite, by its plan."""
    if instant.action is Action.COMPACTION:
        plan = table.compaction_plan(instant)
        return TouchedGroups(groups=frozenset((group.partition, group.file_id) for group in plan))
    return TouchedGroups(groups=frozenset(table.requested_replace(instant).input_groups))


def _name(table: HudiTable) -> str:
    return redacted_uri(table.base_path)
