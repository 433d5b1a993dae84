"""The raw bytes of a split's log files: read when asked for, kept only while the log is being decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptFile, StorageError
from penstock.proto.splits import FileRef
from penstock.table.storage import Storage

_WORTH_RETURNING_BYTES: Final = 4 << 20
HELD_BYTES: Final = 64 << 20
"""Logs of a split up to this size together are read once; of larger ones a file is read again for each pass."""


def _whole(source: pa.NativeFile) -> pa.Buffer:
    """Into memory of its own, which goes back to the system when it is let go: Arrow's pool would keep its pages."""
    room = np.empty(source.size(), np.uint8)
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
        data = self._held[log] = self._read(self._logs[log])
        if self._sizes.setdefault(log, data.size) != data.size:
            raise CorruptFile(f"{self._where(self._logs[log])} changed while it was read; plan the query again")
        return data

    def release(self) -> None:
        """Drops all bytes held; of larger logs, what decoding them left unused goes back to the system."""
        self._held.clear()
        if sum(self._sizes.values()) >= _WORTH_RETURNING_BYTES:
            pa.default_memory_pool().release_unused()
            pa.system_memory_pool().release_unused()

    def _read(self, ref: FileRef) -> pa.Buffer:
        where = self._where(ref)
        try:
            with self._storage.open_input(ref.path) as source:
                data = _whole(source)
        except FileNotFoundError:
            raise CorruptFile(
                f"{where} is named by the plan and gone: cleaned under the reader? Plan the query again, and keep "
                "cleaned versions longer than a query lasts"
            ) from None
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0][:300]
            raise StorageError(f"{where}: reading failed: {reason}; asking again may help") from error
        if data.size < ref.size_bytes:
            raise CorruptFile(
                f"{where} is truncated: got {data.size} bytes, expected {ref.size_bytes}: restore the file, or roll "
                "back the instant that wrote it"
            )
        return data

    def _where(self, ref: FileRef) -> str:
        return f"table {self._table}: log file {ref.path}"
