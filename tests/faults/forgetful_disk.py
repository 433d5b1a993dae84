"""A disk under SQLite that forgets what was not synced when the power fails, and that fails or blocks on request.

`ForgetfulDisk` is a file layer (VFS) of the SQLite library that Python's `sqlite3` uses, so that the product's store
runs on it unchanged. It passes every call on to the real file system, and notes the writes of each file since its last
sync.
`after_power_failure` is a copy of a directory with any part of these writes.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import itertools
import os
import pathlib
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from ctypes import POINTER, Structure, addressof, byref, c_char_p, c_int, c_int64, c_void_p, cast
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from penstock.enumerator.store.sqlite.connections import BUSY_S

IOERR_WRITE, IOERR_FSYNC, IOERR_READ = sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_READ
_OK: Final = 0
_NUMBERS: Final = itertools.count(1)
_CALLBACKS: Final[list[object]] = []
"""What SQLite may still call: a connection that a failed test left open is closed at any later time."""

Call = Literal["read", "write", "truncate", "sync"]
_OPEN = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_CLOSE = ctypes.CFUNCTYPE(c_int, c_void_p)
_TRANSFER = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = ctypes.CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)


class _Vfs(Structure):
    """`sqlite3_vfs`, version 3."""

    _fields_ = (
        ("version", c_int), ("file_bytes", c_int), ("most_path_bytes", c_int), ("following", c_void_p),
        ("name", c_char_p), ("data", c_void_p), ("open", c_void_p), ("others", c_void_p * 14),
    )  # fmt: skip


class _Methods(Structure):
    """`sqlite3_io_methods`, version 3."""

    _fields_ = (
        ("version", c_int), ("close", c_void_p), ("read", c_void_p), ("write", c_void_p), ("truncate", c_void_p),
        ("sync", c_void_p), ("others", c_void_p * 13),
    )  # fmt: skip


@dataclass
class _File:
    """What is durable of a file, and the writes since: (offset, bytes), or (size, None) for a truncation."""

    durable: bytearray
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        """All writes become durable."""
        self.durable, self.pending = self.with_writes(self.pending), []

    def with_writes(self, writes: Iterable[tuple[int, bytes | None]]) -> bytearray:
        """The durable content with these writes."""
        content = bytearray(self.durable)
        for place, data in writes:
            if data is None:
                del content[place:]
                continue
            content.extend(bytes(max(0, place - len(content))))
            content[place : place + len(data)] = data
        return content


class ForgetfulDisk:
    """A file layer of this process. `connect` opens a connection on it, like `connections.connect`."""

    def __init__(self, factory: type[sqlite3.Connection] = sqlite3.Connection) -> None:
        """`factory`: the class of its connections."""
        self.before_call: Callable[[Call], int] = lambda call: _OK
        """Called before each call that concerns a file; another number than 0 is the error that SQLite receives
        instead. Writes that a failed sync was to make durable are lost. It raises nothing: SQLite calls it."""
        self.calls = 0
        self._factory, self._files, self._inodes = factory, dict[int, _File](), dict[int, int]()
        self._library = ctypes.CDLL(_sqlite3.__file__)
        self._library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        base = self._library.sqlite3_vfs_find(None).contents
        self._base_vfs, self._base_open = addressof(base), _OPEN(base.open)
        self._methods: dict[int, tuple[_Methods, tuple[Any, ...]]] = {}
        self._vfs = _Vfs.from_buffer_copy(base)
        self.name = f"forgetful-{next(_NUMBERS)}"
        self._vfs.name = self.name.encode()
        self._open = _OPEN(self._open_file)
        self._vfs.open = cast(self._open, c_void_p)
        _CALLBACKS.append((self._vfs, self._open, self._methods, self._base_open))
        assert self._library.sqlite3_vfs_register(byref(self._vfs), 0) == _OK

    def close(self) -> None:
        """Removes the file layer; its connections must be closed."""
        self._library.sqlite3_vfs_unregister(byref(self._vfs))

    def connect(self, uri: str) -> sqlite3.Connection:
        """A connection on this disk."""
        return sqlite3.connect(
            f"{uri}&vfs={self.name}", uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False,
            factory=self._factory,
        )  # fmt: skip

    def after_power_failure(
        self, directory: pathlib.Path, to: pathlib.Path, survives: Callable[[], bool]
    ) -> pathlib.Path:
        """A copy of the directory as it is after a power failure now. `survives` decides about each write that was not
        synced."""
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        for path in directory.iterdir():
            if path.name.endswith("-shm"):
                continue
            file = self._files.get(path.stat().st_ino)
            if file is None:
                shutil.copyfile(path, to / path.name)
            else:
                (to / path.name).write_bytes(file.with_writes(write for write in file.pending if survives()))
        return to

    def _open_file(self, vfs: int, name: int, file: int, flags: int, out: int) -> int:
        code = self._base_open(self._base_vfs, name, file, flags, out)
        methods = c_void_p.from_address(file)
        if code == _OK and name and methods.value:
            path = pathlib.Path(os.fsdecode(ctypes.string_at(name)))
            inode, content = path.stat().st_ino, path.read_bytes()
            self._inodes[file] = inode
            if inode not in self._files or not content:  # the inode of a deleted file is used again
                self._files[inode] = _File(bytearray(content))
            methods.value = addressof(self._replaced(methods.value))
        return code

    def _replaced(self, address: int) -> _Methods:
        """The methods of a file of the real file system with those of this disk in front of them."""
        if address not in self._methods:
            base = _Methods.from_address(address)
            close, truncate, sync = _CLOSE(base.close), _TRUNCATE(base.truncate), _SYNC(base.sync)
            read, write = _TRANSFER(base.read), _TRANSFER(base.write)
            calls = (
                _CLOSE(lambda file: self._forget(file) or close(file)),
                _TRANSFER(lambda file, data, size, at: self._error("read", file) or read(file, data, size, at)),
                _TRANSFER(
                    lambda file, data, size, at: (
                        self._error("write", file)
                        or self._note(file, at, ctypes.string_at(data, size))
                        or write(file, data, size, at)
                    )
                ),
                _TRUNCATE(
                    lambda file, size: (
                        self._error("truncate", file) or self._note(file, size, None) or truncate(file, size)
                    )
                ),
                _SYNC(lambda file, flags: self._error("sync", file) or self._synced(file) or sync(file, flags)),
            )
            ours = _Methods.from_buffer_copy(base)
            ours.close, ours.read, ours.write, ours.truncate, ours.sync = (cast(call, c_void_p) for call in calls)
            self._methods[address] = ours, calls
        return self._methods[address][0]

    def _error(self, call: Call, file: int) -> int:
        self.calls += 1
        code = self.before_call(call)
        if code != _OK and call == "sync":
            self._files[self._inodes[file]].pending.clear()
        return code

    def _note(self, file: int, place: int, data: bytes | None) -> int:
        self._files[self._inodes[file]].pending.append((place, data))
        return _OK

    def _synced(self, file: int) -> int:
        self._files[self._inodes[file]].sync()
        return _OK

    def _forget(self, file: int) -> int:
        self._inodes.pop(file, None)
        return _OK
