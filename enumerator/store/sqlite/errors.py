"""Translates failures of a state directory into errors of Penstock that say what to do. Opens no connection."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from penstock.enumerator.store.sqlite.row_format import DATABASE, FORMAT_VERSION, DamagedRow
from penstock.proto.errors import PenstockError, StateDamaged, StateVersionError, StorageError

E = TypeVar("E", bound=PenstockError)
_DAMAGE: Final = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_ERROR,  # a schema that SQLite cannot parse: the statements of the store are valid
        sqlite3.SQLITE_CONSTRAINT,  # a row exists already that does not exist according to the log
    }
)
_PRIMARY: Final = 0xFF
"""Mask of the primary result code in an extended result code of SQLite."""
_LEAST_ROOM_BYTES: Final = 64 << 10
"""A disk with less free space counts as full: SQLite extends its shared memory file by 32 KiB at a time."""


@contextmanager
def translated_errors(directory: Path, action: str, *, checking: bool = False) -> Iterator[None]:
    """Raises errors of SQLite, of damaged rows and of the operating system as StateDamaged or StorageError.

    The error names the directory and the action that failed. `checking`: the caller is `penstock state check`, so the
    error does not recommend that command.
    """
    try:
        yield
    except (DamagedRow, OSError) as error:
        raise _as_penstock(error, directory, action, checking) from error
    except sqlite3.Error as error:
        if not hasattr(error, "sqlite_errorcode") and not isinstance(error, sqlite3.OperationalError):
            raise  # an error of the sqlite3 module itself: a wrong call in this code
        raise _as_penstock(error, directory, action, checking) from error


def of_directory(kind: type[E], directory: Path, text: str, for_clients: str = "") -> E:
    """The error of a state directory. Clients of the server receive it without the directory, or `for_clients`."""
    error = kind(f"state directory {directory}: {text}")
    error.for_clients = f"state directory of the server: {for_clients or text}"
    return error


def damaged(directory: Path, damage: str, *, checking: bool = False) -> StateDamaged:
    """The error for a damaged state. It says what to do."""
    begin = f"{DATABASE} is damaged: {damage}: "
    first_step = "" if checking else f"look with `penstock state check {directory}`, then "
    rest = (
        "restore a backup of the directory, or start with a new one and reset the consumer groups "
        "(`penstock groups reset`)"
    )
    return of_directory(StateDamaged, directory, f"{begin}{first_step}{rest}", f"{begin}{rest}")


def newer_version(directory: Path, version: int) -> StateVersionError:
    """The error for a store that a newer version of Penstock wrote."""
    return StateVersionError(
        f"state directory {directory}: {DATABASE} has store format version {version}, this Penstock reads and writes "
        f"version {FORMAT_VERSION}: use the version of Penstock that wrote it, or a new directory"
    )


def _has_no_room(directory: Path) -> bool:
    """Whether the disk is full. For a mapped file, SQLite reports a full disk as an I/O error."""
    try:
        return shutil.disk_usage(directory).free < _LEAST_ROOM_BYTES
    except OSError:
        return False


def _as_penstock(error: Exception, directory: Path, action: str, checking: bool) -> PenstockError:
    if isinstance(error, DamagedRow):
        return damaged(directory, str(error), checking=checking)
    if isinstance(error, OSError):
        return of_directory(StorageError, directory, f"cannot {action}: {error.strerror or error}")
    # the sqlite3 module raises an error without a code for text that is not UTF-8
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & _PRIMARY
    if code in _DAMAGE:
        return damaged(directory, f"cannot {action}: {error}", checking=checking)
    hints = {
        sqlite3.SQLITE_FULL: "the disk is full: make room, then start the server again",
        sqlite3.SQLITE_IOERR: "the disk failed and its content is unknown: start the server again when the disk works",
        sqlite3.SQLITE_BUSY: "another process holds a write transaction open: stop it, then start the server again",
        sqlite3.SQLITE_READONLY: "it is not writable: check its permissions",
        sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check its permissions",
    }
    full = code == sqlite3.SQLITE_IOERR and _has_no_room(directory)
    hint = hints.get(sqlite3.SQLITE_FULL if full else code, "start the server again")
    return of_directory(StorageError, directory, f"cannot {action}: {error} ({hint})")
