"""The data files of one attempt at a task of a write, in another process than the one that completes the instant.

Several attempts may write the same file group at the same time, and an attempt may go on after its write has completed
or was rolled back: Spark retries tasks, and runs some of them twice. So an attempt writes its file into a folder of the
instant, from which the file appears in its partition at the end. The process of the transaction closes this folder
before it completes the instant, and whoever rolls it back with Penstock before it lists the files that it removes; then
no file of an attempt can appear any more. Hudi's rollback closes nothing: an attempt looks at the timeline before and
after its file appears, and removes the file if the instant has ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO

from penstock.proto.errors import PenstockError, StorageError, WriteConflict
from penstock.proto.model.positions import InstantTime
from penstock.table.config.properties import PROPERTIES_FILE
from penstock.table.files.markers import IoType, marker_path
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.writer.transaction.clock import newest_time
from penstock.writer.transaction.marked_files import joined
from penstock.writer.transaction.markers import attempt_folder, create_partition, markers_of
from penstock.writer.transaction.running_writes import can_complete


@dataclass(frozen=True, slots=True)
class AttemptFiles:
    """Creates the files of one attempt. For one thread."""

    table: HudiTable
    """The table, which lists its timeline with each call."""
    storage: WritableStorage
    """Its files."""
    requested_time: InstantTime
    """The instant of the write."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    """The wall clock, aware of its zone."""

    @contextlib.contextmanager
    def data_file(self, partition: str, name: str, io_type: IoType) -> Iterator[BinaryIO]:
        """Creates a data file, to be written while the block runs; it appears at the end of the block, and its marker
        and the marker file of its partition exist before.

        WriteConflict if the instant takes no files any more; FileExistsError if there is such a file; StorageError if
        this machine has another folder at the path of the table. There is no file then.
        """
        path, marker = joined(partition, name), marker_path(self.requested_time, partition, name, io_type)
        try:
            with self.storage.staged_file(attempt_folder(self.requested_time), path) as file:
                self._check_running(path)
                create_partition(self.storage, partition, self.requested_time)
                with contextlib.suppress(FileExistsError):
                    self.storage.create(marker, b"")
                yield file
                self._check_running(path)
                if self.storage.file_info(marker) is None:  # another writer rolled the instant back
                    raise self._ended(path, self.table.timeline())
        except FileNotFoundError as error:
            if self.storage.file_info(attempt_folder(self.requested_time)) is not None:
                raise
            refuse_missing_table(self.storage)
            raise self._ended(path, self.table.timeline()) from error
        try:
            self._check_running(path)
        except PenstockError:
            self.storage.remove(path)
            raise

    def _check_running(self, path: str) -> None:
        timeline = self.table.timeline()
        if not can_complete(self.table, self.storage, timeline, self.requested_time, self.now()):
            raise self._ended(path, timeline)

    def _ended(self, path: str, timeline: Timeline) -> Exception:
        table = redacted_uri(self.storage.base_path)
        if newest_time(timeline) < self.requested_time:  # the timeline keeps what ended the instant
            return StorageError(
                f"table {table}: on this machine the newest instant is {newest_time(timeline) or 'none'}, and the "
                f"driver has begun {self.requested_time}: it is another folder with the same path; the table must be "
                "on a file system that all executors share with the driver"
            )
        return WriteConflict(
            f"table {table}: instant {self.requested_time} has completed, was rolled back, or may be rolled back "
            f"because its heartbeat expired: file {path} of this attempt was not written"
        )


def refuse_missing_table(storage: WritableStorage) -> None:
    """StorageError if this machine has no table at the path."""
    if storage.file_info(PROPERTIES_FILE) is None:
        raise StorageError(
            f"table {redacted_uri(storage.base_path)}: this machine has no such table: the folder of the table must be "
            "on a file system that all executors share with the driver"
        )


@contextlib.contextmanager
def open_for_attempts(storage: WritableStorage, instant: str) -> Iterator[None]:
    """Attempts at tasks can create files of the instant while the block runs, and none after it."""
    storage.make_folder(attempt_folder(instant))
    try:
        yield
    finally:
        storage.close_folder(attempt_folder(instant))


def remove_unreported_files(storage: WritableStorage, instant: str, reported: Collection[tuple[str, int]]) -> int:
    """Removes the files of the instant's markers but the reported ones: those of attempts that failed, or that another
    attempt at the same task made superfluous. Returns how many there were. Attempts can create no more files then.

    reported: (path, size in bytes). StorageError if one of them is not there.
    """
    for path, size in reported:
        info = storage.file_info(path)
        if info is None or info.size_bytes != size:
            got = "there is none" if info is None else f"it has {info.size_bytes}"
            raise StorageError(
                f"table {redacted_uri(storage.base_path)}: a task reported file {path} of {size} bytes, and {got}: "
                "nothing was written; if executors run on other machines, the table must be on a file system that all "
                "share"
            )
    kept = {path for path, _ in reported}
    others = {joined(marker.partition, marker.file_name) for marker in markers_of(storage, instant)} - kept
    return sum(storage.remove(path) for path in sorted(others))
