"""Reads the raw bytes of a split's log files.

Bytes are held only while the log is decoded, and only where reading them again would be expensive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptFile, StorageError
from penstock.proto.model.splits import FileRef
from penstock.proto.value_classes import dataclass
from penstock.reader.split.shared_log import SharedLog
from penstock.reader.values.memory_pool import return_unused
from penstock.table.storage.filesystem import Storage, is_local

_RETURN_BYTES: Final = 4 << 20
HELD_BYTES: Final = 64 << 20
"""Logs of a split that are together up to this size are read once. Larger ones are read again for each pass."""


def _read(source: pa.NativeFile, begin: int, end: int) -> pa.Buffer:
    """Reads into separate memory that is returned to the system when it is freed: Arrow's pool would keep its pages."""
    buffer = np.empty(max(0, end - begin), np.uint8)
    if begin:
        source.seek(begin)
    filled = 0
    while filled < len(buffer) and (end_read := source.readinto(buffer.data[filled:])):
        filled += end_read
    return pa.py_buffer(buffer).slice(0, filled)


class LogFiles:
    """The bytes of log files, by index in `Split.logs`. `release` frees them all."""

    def __init__(
        self,
        storage: Storage,
        logs: Sequence[FileRef],
        table: str,
        held_bytes: int = HELD_BYTES,
        shared: SharedLog | None = None,
    ) -> None:
        """`shared` has, and gets, bytes of files that other reads need too."""
        self._storage, self._logs, self._table, self._shared = storage, logs, table, shared
        self.keeps_all: Final = sum(log.size_bytes for log in logs) <= held_bytes
        """Whether every file is read once; else a file is held until the next one is read."""
        self._held: dict[int, pa.Buffer] = {}
        self._sizes: dict[int, int] = {}

    def data(self, log: int) -> pa.Buffer:
        """The whole file. CorruptFile if it is gone, shorter than planned, or changed between two passes."""
        held = self._held.get(log)
        if held is not None:
            return held
        if self._shared is not None and (kept := self._shared.data(self._logs[log])) is not None:
            return kept
        if not self.keeps_all:
            self._held.clear()
        data = self._held[log] = self._read(log)
        if self._shared is not None:
            self._shared.keep_data(self._logs[log], data)
        return data

    def parts(self, log: int) -> LogParts:
        """The file for decoding: from memory if it is held or on a remote store, else one part at a time."""
        return LogParts(self, log)

    def part(self, log: int, begin: int, end: int) -> tuple[pa.Buffer, int]:
        """(bytes that contain begin..end-1 of the file or reach to its end, the offset of the first byte).

        Errors as for `data`. A file that was released may have become longer.
        """
        is_kept = log in self._held or (self._shared is not None and self._shared.data(self._logs[log]) is not None)
        if is_kept or not is_local(self._storage):
            return self.data(log), 0
        return self._read(log, begin, end), begin

    def release_local(self) -> None:
        """Frees bytes that are on a local storage: their parts are read again when needed."""
        if is_local(self._storage) and sum(self._sizes.values()) >= _RETURN_BYTES:
            self._held.clear()

    def release(self) -> None:
        """Frees all bytes; for larger logs, memory that decoding left unused is returned to the system."""
        self._held.clear()
        if sum(self._sizes.values()) >= _RETURN_BYTES:
            return_unused()

    def _read(self, log: int, begin: int = 0, end: int | None = None) -> pa.Buffer:
        ref = self._logs[log]
        where = self._where(ref)
        try:
            with self._storage.open_input(ref.path) as source:
                size = int(source.size())
                data = _read(source, begin, size if end is None else min(end, size))
        except FileNotFoundError:
            gone = CorruptFile(
                f"{where} is in the plan but is gone; the cleaner may have removed it. Plan the query again, "
                "and keep cleaned versions longer than a query lasts"
            )
            gone.is_gone = True
            raise gone from None
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0][:300]
            raise StorageError(f"{where}: reading failed: {reason}; a retry may succeed") from error
        end_read = min(size, begin + data.size)
        if size < ref.size_bytes or (end is None and end_read < ref.size_bytes):
            raise CorruptFile(
                f"{where} is truncated: got {end_read} bytes, expected {ref.size_bytes}: restore the file, or roll "
                "back the instant that wrote it"
            )
        known = self._sizes.setdefault(log, size)
        if size != known if end is None else size < known or end_read < min(end, size):
            raise CorruptFile(f"{where} changed while it was read; plan the query again")
        return data

    def _where(self, ref: FileRef) -> str:
        return f"table {self._table}: log file {ref.path}"


@dataclass(frozen=True, slots=True)
class LogParts:
    """One of the files, read a part at a time."""

    files: LogFiles
    """The log files of the slice."""
    log: int
    """The index of the file among them."""

    def part(self, begin: int, end: int) -> tuple[pa.Buffer, int]:
        """As `LogFiles.part`."""
        return self.files.part(self.log, begin, end)
