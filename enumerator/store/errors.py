"""What went wrong in a state directory, as errors of Penstock with what to do about it. Opens no connection."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.enumerator.store.row_format import DATABASE, FORMAT_VERSION, DamagedRow
from penstock.proto.errors import PenstockError, StateDamaged, StateVersionError, StorageError

_DAMAGE: Final = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_ERROR,  # a schema that it cannot make out: our own statements are right
        sqlite3.SQLITE_CONSTRAINT,  # a row that is there already, which the log says is not
    }
)
_PRIMARY: Final = 0xFF
"""The bits of SQLite's extended error codes that are the code itself."""
_LEAST_ROOM_BYTES: Final = 64 << 10
"""With less a disk counts as full: SQLite makes its shared memory 32 KiB at a time."""


@contextmanager
def told(directory: Path, doing: str, *, checking: bool = False) -> Iterator[None]:
    """Errors of SQLite, of rows and of the system as StateDamaged or StorageError that name the directory.

    `checking`: by `penstock state check`, which needs not be named.
    """
    try:
        yield
    except (DamagedRow, OSError) as error:
        raise _as_penstock(error, directory, doing, checking) from error
    except sqlite3.Error as error:
        if not hasattr(error, "sqlite_errorcode") and not isinstance(error, sqlite3.OperationalError):
            raise  # of the sqlite3 module itself: we called it wrongly
        raise _as_penstock(error, directory, doing, checking) from error


def damaged(directory: Path, what: str, *, checking: bool = False) -> StateDamaged:
    """The error for damage, with what to do."""
    look = "" if checking else f"look with `penstock state check {directory}`, then "
    return StateDamaged(
        f"state directory {directory}: {DATABASE} is damaged: {what}: {look}restore a backup of the directory, or "
        "start with a new one and reset the consumer groups (`penstock groups reset`)"
    )


def newer_version(directory: Path, found: int) -> StateVersionError:
    """The error for a store that another version of Penstock wrote."""
    return StateVersionError(
        f"state directory {directory}: {DATABASE} has store format version {found}, this Penstock reads and writes "
        f"version {FORMAT_VERSION}: use the version of Penstock that wrote it, or a new directory"
    )


def again(error: PenstockError) -> PenstockError:
    """An error of the same kind for another thread or a later call: no two share one traceback."""
    return type(error)(str(error))


def _has_no_room(directory: Path) -> bool:
    """Whether the disk is full: SQLite calls that a failed disk where it maps a file."""
    try:
        return shutil.disk_usage(directory).free < _LEAST_ROOM_BYTES
    except OSError:
        return False


def _as_penstock(error: Exception, directory: Path, doing: str, checking: bool) -> PenstockError:
    if isinstance(error, DamagedRow):
        return damaged(directory, str(error), checking=checking)
    if isinstance(error, OSError):
        return StorageError(f"state directory {directory}: cannot {doing}: {error.strerror or error}")
    # text that is no UTF-8 is found by the sqlite3 module, which gives no code
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & _PRIMARY
    if code in _DAMAGE:
        return damaged(directory, f"cannot {doing}: {error}", checking=checking)
    hints = {
        sqlite3.SQLITE_FULL: "the disk is full: make room, then start the server again",
        sqlite3.SQLITE_IOERR: "the disk failed: nobody knows what it holds, start the server again once it is sound",
        sqlite3.SQLITE_BUSY: "another process keeps a write open: end it, then start the server again",
        sqlite3.SQLITE_READONLY: "it may not be written: check its permissions",
        sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check its permissions",
    }
    full = code == sqlite3.SQLITE_IOERR and _has_no_room(directory)
    hint = hints.get(sqlite3.SQLITE_FULL if full else code, "start the server again")
    return StorageError(f"state directory {directory}: cannot {doing}: {error} ({hint})")
