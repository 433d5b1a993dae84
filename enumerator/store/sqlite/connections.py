"""SQLite connections of the store: set-up (WAL, durability, limits), and the statements that its modules share."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.enumerator.store.sqlite.errors import newer_version
from penstock.enumerator.store.sqlite.row_format import (
    APPLICATION_ID,
    FORMAT_VERSION,
    SELECT_META,
    SELECT_PIECE,
    SELECT_PIECES_FROM,
    SELECT_PLAN,
    DamagedRow,
    Meta,
    PlanRow,
    meta_of,
    piece_key,
    piece_of,
    plan_of,
)
from penstock.proto.errors import InvariantViolation

BUSY_S: Final = 10.0
"""How long a write waits for another process that is writing (at a takeover)."""
CHECKPOINT_PAGES: Final = 4096
"""After this many pages (16 MiB) of WAL, SQLite copies them to the database."""
WAL_LIMIT_BYTES: Final = 64 << 20
"""After a large transaction, SQLite truncates the WAL file to this size."""

Connect = Callable[[str], sqlite3.Connection]
"""Opens a connection for an SQLite URI. Tests pass their own."""


def connect(uri: str) -> sqlite3.Connection:
    """A connection in autocommit mode. Any thread may use it under a lock."""
    return sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


def uri_of(database: Path, mode: str) -> str:
    """The URI of a file for SQLite. `mode`: `rw`, `rwc` or `ro`, and further parameters after it."""
    return f"{database.absolute().as_uri()}?mode={mode}"


def set_up_writer(connection: sqlite3.Connection) -> None:
    """Sets durable commits and a small WAL. DamagedRow: the file is not in WAL mode."""
    if pragma(connection, "journal_mode") != "wal":
        raise DamagedRow("its header says that it has no WAL")
    for setting in (
        "synchronous = FULL",
        "fullfsync = ON",
        "checkpoint_fullfsync = ON",
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        f"journal_size_limit = {WAL_LIMIT_BYTES}",
        "cache_size = -16384",
        "secure_delete = OFF",
        "cell_size_check = ON",
        "trusted_schema = OFF",
    ):
        pragma(connection, setting)


def set_up_reader(connection: sqlite3.Connection) -> None:
    """Makes a connection read-only."""
    for setting in ("query_only = ON", "cache_size = -16384", "cell_size_check = ON", "trusted_schema = OFF"):
        pragma(connection, setting)


def pragma(connection: sqlite3.Connection, text: str) -> object:
    """The first value of a PRAGMA's result; None if it returns no row."""
    row = connection.execute(f"PRAGMA {text}").fetchone()
    return None if row is None else row[0]


def read_meta(connection: sqlite3.Connection) -> Meta:
    """The store's row of metadata. DamagedRow."""
    rows = connection.execute(SELECT_META).fetchmany(2)
    return meta_of(rows[0] if len(rows) == 1 else None)


def checked_meta(connection: sqlite3.Connection, directory: Path) -> Meta:
    """`read_meta` for an unchecked file. DamagedRow, StateVersionError."""
    version = pragma(connection, "user_version")
    if pragma(connection, "application_id") != APPLICATION_ID:
        raise DamagedRow("it is not a state file of Penstock")
    if not isinstance(version, int):
        raise InvariantViolation(f"SQLite has the user version {version!r}")
    if version > FORMAT_VERSION:
        try:
            meta = read_meta(connection)
        except (DamagedRow, sqlite3.Error):
            raise newer_version(directory, version) from None  # a newer version may use another layout
        if meta.version == version:
            raise newer_version(directory, version)
        raise DamagedRow(f"its header says store format version {version}, its content {meta.version}")
    meta = read_meta(connection)
    if version != FORMAT_VERSION or meta.version != FORMAT_VERSION:
        raise DamagedRow(f"its header says store format version {version}, its content {meta.version}")
    return meta


def find_plan(connection: sqlite3.Connection, plan_id: str) -> PlanRow | None:
    """The row of a held plan; None for an unknown id. DamagedRow."""
    row = connection.execute(SELECT_PLAN, (plan_id,)).fetchone()
    return None if row is None else plan_of(row)


def find_piece(connection: sqlite3.Connection, plan: PlanRow, place: int) -> bytes:
    """One piece of a held plan. DamagedRow."""
    row = connection.execute(SELECT_PIECE, (piece_key(plan.number, place),)).fetchone()
    return piece_of(row, plan, place)


def find_pieces(connection: sqlite3.Connection, plan: PlanRow, first: int, last: int, most_bytes: int) -> list[bytes]:
    """The pieces at the places first..last of a held plan. It stops before `most_bytes` is exceeded, but returns at
    least one piece. DamagedRow."""
    pieces: list[bytes] = []
    size_bytes = 0
    rows = connection.execute(SELECT_PIECES_FROM, (piece_key(plan.number, first), piece_key(plan.number, last)))
    for place in range(first, last + 1):
        data = piece_of(rows.fetchone(), plan, place)
        size_bytes += len(data)
        if pieces and size_bytes > most_bytes:
            break
        pieces.append(data)
    return pieces
