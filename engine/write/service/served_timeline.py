"""The timeline of a table for a server that coordinates writes: `TableTimeline`, built of `writer.transaction`."""

from __future__ import annotations

import zlib
from typing import Final

from penstock.engine.write.settings import timeline_zone
from penstock.enumerator.writes.table_timeline import BegunInstant
from penstock.proto.errors import CorruptFile, StorageError, TableError, WriteConflict
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import TouchedGroups, WriteCommit, WriteSpec
from penstock.table.config.properties import load_properties
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import open_writable
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.commits import CommitMetadata, parse_commit
from penstock.table.timeline.instants import Action, Instant, State, instant_file_name
from penstock.writer.transaction.conflicts import StartOfWrite
from penstock.writer.transaction.failed_writes import roll_back, roll_back_failed
from penstock.writer.transaction.heartbeat import heartbeat_path, start_heartbeat
from penstock.writer.transaction.lock import LOCK_FILE
from penstock.writer.transaction.markers import attempt_folder
from penstock.writer.transaction.transaction import Transaction, WriteEnvironment, begin, metadata_action

MAX_METADATA_BYTES: Final = 64 << 20
"""The largest commit metadata, decompressed."""


class ServedTimeline:
    """The timeline of the table at a path."""

    def __init__(self, path: str) -> None:
        self._storage = open_writable(path)
        self._table = HudiTable(self._storage, load_properties(self._storage))

    def begin(self, spec: WriteSpec) -> BegunInstant:
        """See `TableTimeline.begin`."""
        environment = self._environment(spec)
        roll_back_failed(self._table, self._storage, environment, sole_writer=False)
        begun = begin(
            self._table,
            self._storage,
            environment,
            Action(spec.action),
            spec.requested,
            keeps_metadata=spec.keeps_metadata,
        )
        self._storage.make_folder(attempt_folder(begun.requested_time))  # once, so that it stays closed after the end
        return BegunInstant(
            instant=begun.requested_time,
            newest_completed=begun.start.newest_completed,
            pending=tuple(sorted(begun.start.pending)),
        )

    def take_over(self, instant: InstantTime) -> None:
        """See `TableTimeline.take_over`."""
        if any(item.requested_time == instant for item in self._table.timeline().pending):
            start_heartbeat(self._storage, instant)

    def beat(self, instant: InstantTime) -> None:
        """See `TableTimeline.beat`."""
        if self._storage.file_info(heartbeat_path(instant)) is not None:
            self._storage.touch(heartbeat_path(instant))

    def complete(self, spec: WriteSpec, begun: BegunInstant, commit: WriteCommit) -> InstantTime:
        """See `TableTimeline.complete`."""
        action = Action(spec.action)
        metadata = self._metadata(action, begun.instant, commit)
        self.beat(begun.instant)
        transaction = Transaction(
            table=self._table,
            storage=self._storage,
            environment=self._environment(spec),
            requested_time=begun.instant,
            action=action,
            start=StartOfWrite(begun.newest_completed, frozenset(begun.pending)),
            keeps_metadata=spec.keeps_metadata,
        )
        try:
            return transaction.complete(
                metadata, commit.touched, by_bucket=spec.by_bucket, writes_base_files=commit.writes_base_files
            )
        except WriteConflict as error:
            if self._storage.file_info(LOCK_FILE) is None:
                raise
            # Another process holds the lock, or took it: the decision stays, and the commit is tried again.
            raise StorageError(f"the commit of instant {begun.instant} waits: {error}") from error

    def completion(self, instant: InstantTime) -> InstantTime | None:
        """See `TableTimeline.completion`."""
        timeline = self._table.timeline()
        completed = timeline.completed_write(instant)
        if completed is None and instant < timeline.first_active and self._table.has_archived():
            archived = self._table.archive().instants
            completed = next((item for item in archived if item.requested_time == instant and item.is_completed), None)
        return None if completed is None else completed.completion_time or completed.requested_time

    def roll_back(self, spec: WriteSpec, instant: InstantTime) -> None:
        """See `TableTimeline.roll_back`."""
        roll_back(self._table, self._storage, self._environment(spec), instant)

    def _environment(self, spec: WriteSpec) -> WriteEnvironment:
        return WriteEnvironment(zone=timeline_zone(self._table.properties, spec.timeline_timezone))

    def _metadata(self, action: Action, requested_time: InstantTime, commit: WriteCommit) -> CommitMetadata:
        """The commit metadata. TableError if it has another file group than the leases."""
        layout = self._table.properties.layout
        completed = metadata_action(action)
        instant = Instant(
            requested_time=requested_time,
            completion_time=None,
            action=completed,
            state=State.COMPLETED,
            file_name=instant_file_name(requested_time, completed, State.INFLIGHT, None, layout),
        )
        where = redacted_uri(self._storage.base_path)
        metadata = parse_commit(decompressed(commit.metadata, where), instant, where)
        touched = TouchedGroups(
            groups=frozenset({*((stat.partition, stat.file_id) for stat in metadata.stats), *metadata.replaced})
        )
        if missing := touched.groups - commit.touched.groups:
            raise TableError(
                f"table {where}, instant {requested_time}: the commit metadata has file group {min(missing)}, which "
                "the commit does not name: nothing was written"
            )
        return metadata


def compressed(data: bytes) -> bytes:
    """The content of a completed file, as `WriteCommit` has it."""
    return zlib.compress(data)


def decompressed(data: bytes, where: str) -> bytes:
    """The inverse of `compressed`. CorruptFile for other bytes, and for more than MAX_METADATA_BYTES."""
    decoder = zlib.decompressobj()
    try:
        content = decoder.decompress(data, MAX_METADATA_BYTES)
    except zlib.error as error:
        raise CorruptFile(f"table {where}: commit metadata of a write: {error}; expected zlib") from None
    if not decoder.eof or decoder.unused_data:
        raise CorruptFile(
            f"table {where}: commit metadata of a write is cut off, or larger than {MAX_METADATA_BYTES} bytes"
        )
    return content
