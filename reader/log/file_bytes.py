"""The raw bytes of a split's log files: read when asked for, kept only while the log is being decoded, and only where
reading them again costs much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptFile, StorageError
from penstock.proto.model.splits import FileRef
from penstock.reader.values.memory_pool import return_unused
from penstock.table.storage.filesystem import Storage, is_local

_WORTH_RETURNING_BYTES: Final = 4 << 20
HELD_BYTES: Final = 64 << 20
"""Logs of a split up to this size together are read once; of larger ones a file is read again for each pass."""


def _read(source: pa.NativeFile, begin: int, end: int) -> pa.Buffer:
    """Into memory of its own, which goes back to the system when it is let go: Arrow's pool would keep its pages."""
    room = np.empty(max(0, end - begin), np.uint8)
    if begin:
        source.seek(begin)
    filled = 0
    while filled < len(room) and (got := source.readinto(room.data[filled:])):
        filled += got
    return pa.py_buffer(room).slice(0, filled)


class LogFiles:
    """Bytes of log files by their place in `Split.logs`. `release` lets go of them all."""

    def __init__(self, storage: Storage, logs: Sequence[FileRef], table: str, held_bytes: int = HELD_BYTES) -> None:
        self._storage, self._logs, self._table = storage, logs, table
        self._keeps_all = sum(log.size_bytes for log in logs) <= held_bytes
        self._held: dict[int, pa.Buffer] = {}
        self._sizes: dict[int, int] = {}

    def data(self, log: int) -> pa.Buffer:
        """The whole file. CorruptFile if it is gone, shorter than the plan says, or changed between two passes."""
        held = self._held.get(log)
        if held is not None:
            return held
        if not self._keeps_all:
            self._held.clear()
        data = self._held[log] = self._read(log)
        return data

    def parts(self, log: int) -> LogParts:
        """The file as it is decoded: from memory if it is held, or costs requests; else a part at a time."""
        return LogParts(self, log)

    def part(self, log: int, begin: int, end: int) -> tuple[pa.Buffer, int]:
        """Bytes that hold begin..end-1 of the file, or all to its end, and the place of the first. Errors as `data`; a
        file that was let go may have become longer."""
        if log in self._held or not is_local(self._storage):
            return self.data(log), 0
        return self._read(log, begin, end), begin

    def let_go(self) -> None:
        """Drops what is as near in the storage: its parts are read again as they are asked for."""
        if is_local(self._storage) and sum(self._sizes.values()) >= _WORTH_RETURNING_BYTES:
            self._held.clear()

    def release(self) -> None:
        """Drops all bytes held; of larger logs, what decoding them left unused goes back to the system."""
        self._held.clear()
        if sum(self._sizes.values()) >= _WORTH_RETURNING_BYTES:
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
                f"{where} is named by the plan and gone: cleaned under the reader? Plan the query again, and keep "
                "cleaned versions longer than a query lasts"
            )
            gone.is_gone = True
            raise gone from None
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0][:300]
            raise StorageError(f"{where}: reading failed: {reason}; asking again may help") from error
        got = min(size, begin + data.size)
        if size < ref.size_bytes or (end is None and got < ref.size_bytes):
            raise CorruptFile(
                f"{where} is truncated: got {got} bytes, expected {ref.size_bytes}: restore the file, or roll back the "
                "instant that wrote it"
            )
        known = self._sizes.setdefault(log, size)
        if size != known if end is None else size < known or got < min(end, size):
            raise CorruptFile(f"{where} changed while it was read; plan the query again")
        return data

    def _where(self, ref: FileRef) -> str:
        return f"table {self._table}: log file {ref.path}"


@dataclass(frozen=True, slots=True)
class LogParts:
    """One of the files, a part at a time."""

    files: LogFiles
    log: int

    def part(self, begin: int, end: int) -> tuple[pa.Buffer, int]:
        """As `LogFiles.part`."""
        return self.files.part(self.log, begin, end)
