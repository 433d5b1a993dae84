"""The data files of one attempt at a task of a write, in another process than the one that completes the instant.

Several attempts may write the same file group at the same time, and an attempt may go on after its write has completed
or was rolled back: Spark retries tasks, and runs some of them twice. So an attempt writes its file into a folder of the
instant, from which the file appears in its partition at the end. The process of the transaction closes this folder
before it completes the instant or rolls it back; then no file of an attempt can appear any more. After the rollback of
a process that was killed, an attempt finds that its marker is gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from penstock.proto.errors import StorageError, WriteConflict
from penstock.proto.model.positions import InstantTime
from penstock.table.config.properties import PROPERTIES_FILE
from penstock.table.files.markers import IoType, marker_path
from penstock.table.storage.filesystem import redacted_uri
from penstock.table.storage.local_writes import WritableStorage
from penstock.writer.transaction.marked_files import joined
from penstock.writer.transaction.markers import attempt_folder, create_partition, markers_of


@dataclass(frozen=True, slots=True)
class AttemptFiles:
    """Creates the files of one attempt. For one thread."""

    storage: WritableStorage
    """The table's files."""
    requested_time: InstantTime
    """The instant of the write."""

    @contextlib.contextmanager
    def data_file(self, partition: str, name: str, io_type: IoType) -> Iterator[BinaryIO]:
        """Creates a data file, to be written while the block runs; it appears at the end of the block, and its marker
        and the marker file of its partition exist before.

        WriteConflict if the instant takes no files any more; FileExistsError if there is such a file; StorageError if
        the table is not in the reach of this machine.
        """
        path, marker = joined(partition, name), marker_path(self.requested_time, partition, name, io_type)
        try:
            with self.storage.staged_file(attempt_folder(self.requested_time), path) as file:
                create_partition(self.storage, partition, self.requested_time)
                with contextlib.suppress(FileExistsError):
                    self.storage.create(marker, b"")
                yield file
                if self.storage.file_info(marker) is None:  # another writer rolled the instant back
                    raise self._closed(path)
        except FileNotFoundError as error:
            if self.storage.file_info(attempt_folder(self.requested_time)) is not None:
                raise
            raise self._closed(path) from error

    def _closed(self, path: str) -> Exception:
        table = redacted_uri(self.storage.base_path)
        if self.storage.file_info(PROPERTIES_FILE) is None:
            return StorageError(
                f"table {table}: this machine has no such table: the folder of the table must be on a file system that "
                "all executors share with the driver"
            )
        return WriteConflict(
            f"table {table}: instant {self.requested_time} has completed, or was rolled back: file {path} of this "
            "attempt was not written"
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
