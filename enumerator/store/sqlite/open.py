"""Opens a state directory and takes its leadership: only the process with the newest epoch writes.

An opening creates a new state or checks the existing one before it writes the next epoch.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.enumerator.store.sqlite.connections import (
    Connect,
    checked_meta,
    connect,
    pragma,
    read_meta,
    set_up_writer,
    uri_of,
)
from penstock.enumerator.store.sqlite.errors import translated_errors
from penstock.enumerator.store.sqlite.lock import Clocks, DirectoryLock, take_lock
from penstock.enumerator.store.sqlite.row_format import (
    DATABASE,
    FORMAT_VERSION,
    REPLACED,
    SCHEMA,
    SELECT_PLANS,
    WAL,
    WRITE_META,
    DamagedRow,
    Meta,
    plan_of,
)
from penstock.enumerator.store.sqlite.store import SqliteStore, log_of
from penstock.enumerator.store.sqlite.wal import check_wal
from penstock.proto.errors import ConfigurationError, InvariantViolation, StateDamaged, StorageError

CHECKED_BYTES: Final = 256 << 20
"""Each opening checks the structure of a database up to this size. `penstock state check` checks any size."""


def open_sqlite(
    directory: Path | str,
    *,
    takeover: bool = False,
    wait_ms: int = 0,
    clocks: Clocks = Clocks(),  # noqa: B008 - frozen
    connect: Connect = connect,
) -> SqliteStore:
    """Opens the store of a state directory under a new epoch. A missing directory is created.

    If another live process holds the directory: waits for up to `wait_ms`, then raises StorageError, which names that
    process. With `takeover` it is fenced at once. The whole log is read before leadership is taken: StateDamaged and
    StateVersionError leave the directory unchanged. ConfigurationError: the directory cannot be created.
    """
    directory = _created(Path(directory))
    lock = take_lock(directory, takeover=takeover, wait_ms=wait_ms, clocks=clocks)
    try:
        with translated_errors(directory, "open it"):
            if not (directory / DATABASE).exists():
                _check_no_restore_ended_early(directory)
                _create(directory, connect)
            if not lock.from_another:
                check_wal_at_rest(directory)
            writer = connect(uri_of(directory / DATABASE, "rw"))
            try:
                set_up_writer(writer)
                _check(writer, directory)
                _empty_wal(writer)
                meta = _lead(writer, directory, lock)
                return SqliteStore(directory, meta, writer, lock, connect)
            except BaseException:
                writer.close()
                raise
    except BaseException:
        lock.release()
        raise


def _check_no_restore_ended_early(directory: Path) -> None:
    """StateDamaged if an interrupted restore moved the database away without a replacement. A new, empty state would
    lose the position of every group."""
    replaced = sorted(directory.glob(f"{REPLACED}*"))
    if replaced:
        raise StateDamaged(
            f"state directory {directory}: there is no {DATABASE}, and {replaced[-1].name} holds one that a restore "
            "moved away: the restore did not end; run `penstock state restore` again, or move the files back"
        )


def _created(directory: Path) -> Path:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigurationError(f"state directory {directory}: that is a file: name a directory") from error
    except OSError as error:
        raise ConfigurationError(f"state directory {directory}: cannot make it: {error.strerror}") from error
    return directory


def _create(directory: Path, connect: Connect) -> None:
    """Creates an empty state, and renames it when it is complete. An incomplete file is thus always damage."""
    left = sorted(directory.glob(f"{DATABASE}-*"))
    if left:
        raise DamagedRow(f"it is missing, though {left[0].name} is there")
    fresh = directory / f"{DATABASE}.new"
    for name in (fresh.name, f"{fresh.name}-wal", f"{fresh.name}-shm", f"{fresh.name}-journal"):
        (directory / name).unlink(missing_ok=True)  # left by an opening that was killed
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    with closing(connect(uri_of(fresh, "rw"))) as connection:
        pragma(connection, "synchronous = FULL")
        if pragma(connection, "journal_mode = WAL") != "wal":
            raise StorageError(
                f"state directory {directory}: its file system cannot hold an SQLite WAL; use a local disk"
            )
        connection.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA:
            connection.execute(statement)
        empty = Meta(
            version=FORMAT_VERSION,
            state_id=secrets.token_hex(16),
            epoch=0,
            first_seq=1,
            next_seq=1,
            next_plan=1,
            plans=0,
        )
        connection.execute(WRITE_META, empty.row())
        connection.execute("COMMIT")
    fresh.replace(directory / DATABASE)
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_wal_at_rest(directory: Path) -> None:
    """DamagedRow if the WAL is damaged in the middle. No process may be writing it."""
    wal = directory / WAL
    if wal.exists():
        with wal.open("rb") as stream:
            check_wal(stream, WAL)


def _empty_wal(connection: sqlite3.Connection) -> None:
    """Copies the WAL into the database and truncates it, so that frames of a killed process after the WAL's end are not
    read again. If a reader prevents this, the next opening does it."""
    timeout = pragma(connection, "busy_timeout")
    pragma(connection, "busy_timeout = 0")
    try:
        pragma(connection, "wal_checkpoint(TRUNCATE)")
    finally:
        pragma(connection, f"busy_timeout = {timeout}")


def _check(connection: sqlite3.Connection, directory: Path) -> None:
    """DamagedRow or StateVersionError if the log or the list of plans is damaged. Pieces are checked on read."""
    connection.execute("BEGIN")
    try:
        meta = checked_meta(connection, directory)
        check_structure(connection, limit_bytes=CHECKED_BYTES)
        for _ in log_of(connection, meta):
            pass
        check_plan_list(connection, meta)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def check_structure(connection: sqlite3.Connection, *, limit_bytes: int | None) -> None:
    """Runs SQLite's own check, unless the file is larger than the limit. DamagedRow."""
    pages, page_bytes = pragma(connection, "page_count"), pragma(connection, "page_size")
    if not isinstance(pages, int) or not isinstance(page_bytes, int):
        raise InvariantViolation(f"SQLite counts {pages!r} pages of {page_bytes!r} bytes")
    if limit_bytes is None or pages * page_bytes <= limit_bytes:
        result = pragma(connection, "quick_check(1)")
        if result != "ok":
            raise DamagedRow(" ".join(str(result).split()))


def check_plan_list(connection: sqlite3.Connection, meta: Meta) -> None:
    """DamagedRow if the row of a plan is damaged or missing."""
    plans = len([plan_of(row) for row in connection.execute(SELECT_PLANS)])
    if plans != meta.plans:
        raise DamagedRow(f"got {plans} plans, expected {meta.plans}")


def _lead(connection: sqlite3.Connection, directory: Path, lock: DirectoryLock) -> Meta:
    """Takes the next epoch, if this process still has the newest lock."""
    connection.execute("BEGIN IMMEDIATE")
    meta = read_meta(connection)
    if not lock.is_newest():
        raise StorageError(f"state directory {directory}: another process took it over at this moment: try again")
    meta = replace(meta, epoch=meta.epoch + 1)
    connection.execute(WRITE_META, meta.row())
    connection.execute("COMMIT")
    return meta
