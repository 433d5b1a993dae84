"""`Inotify`: events of local folders on Linux, by libc's inotify calls through ctypes.

Four calls and one struct: less than a dependency, which would have to be kept for every version of Python. On other
systems `open_inotify` returns None.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
from typing import Final

from penstock.proto.value_classes import dataclass

CREATED: Final = 0x100
WRITTEN: Final = 0x8
MOVED_IN: Final = 0x80
FOLDER_GONE: Final = 0x400 | 0x800 | 0x2000 | 0x8000
"""The folder was deleted, moved or unmounted, or its watch has ended."""
OVERFLOW: Final = 0x4000
_ONLY_FOLDERS: Final = 0x01000000
_MASK: Final = CREATED | WRITTEN | MOVED_IN | 0x400 | 0x800 | _ONLY_FOLDERS
_HEAD: Final = struct.Struct("iIII")
_READ_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class FolderEvent:
    """One event of a watched folder."""

    watch: int
    """The number of the watch; -1 for an overflow."""
    mask: int
    """What happened: the flags above."""
    name: str
    """The name of the file in the folder; '' for an event of the folder itself."""


class Inotify:
    """One inotify instance. `read` is called by one thread, `add` and `remove` by any."""

    def __init__(self) -> None:
        """OSError if the system gives no instance."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._wake, self._waker = os.pipe()
        try:
            self._file = self._checked(self._libc.inotify_init1(os.O_CLOEXEC))
        except OSError:
            os.close(self._wake)
            os.close(self._waker)
            raise
        self._poll = select.poll()
        for file in (self._file, self._wake):
            self._poll.register(file, select.POLLIN)

    def add(self, folder: str) -> int:
        """Watches the folder; returns the number of its watch, the same one if it is watched already. OSError."""
        return self._checked(self._libc.inotify_add_watch(self._file, os.fsencode(folder), _MASK))

    def remove(self, watch: int) -> None:
        """Ends a watch; no effect if it has ended."""
        self._libc.inotify_rm_watch(self._file, watch)

    def read(self) -> list[FolderEvent]:
        """Waits for the next events; none after `close`. OSError."""
        if self._wake not in dict(self._poll.poll()):
            return parse_events(os.read(self._file, _READ_BYTES))
        for file in (self._file, self._wake):
            os.close(file)
        return []

    def close(self) -> None:
        """Ends `read`, which closes the instance. No other call may follow."""
        os.write(self._waker, b"\0")  # needs no free watch; a mere close is not noticed while a fork has the pipe
        os.close(self._waker)

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def parse_events(data: bytes) -> list[FolderEvent]:
    """The events in the bytes that the kernel returned."""
    events, offset = [], 0
    while offset < len(data):
        watch, mask, _, name_bytes = _HEAD.unpack_from(data, offset)
        offset += _HEAD.size
        name = os.fsdecode(data[offset : offset + name_bytes].rstrip(b"\0"))
        offset += name_bytes
        events.append(FolderEvent(watch, mask, name))
    return events


def open_inotify() -> Inotify | None:
    """An instance, or None where the system has no inotify. OSError if it gives no further instance."""
    return Inotify() if sys.platform == "linux" else None
