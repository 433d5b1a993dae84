"""SQLite connections of the store, and the few statements that all its parts share.

Belongs here: how a connection is set up (WAL, durability, limits). Not here: what is written (`sqlite`), who may
(`opening`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.enumerator.store.errors import newer_version
from penstock.enumerator.store.row_format import (
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
"""16 MiB of WAL, then its pages go to the database."""
WAL_LIMIT_BYTES: Final = 64 << 20
"""What a big transaction left of the WAL file beyond this is given back to the disk."""

Connect = Callable[[str], sqlite3.Connection]
"""Opens a connection for an SQLite URI; tests put their own here."""


def connect(uri: str) -> sqlite3.Connection:
    """A connection in autocommit mode, for use under a lock from any thread."""
    return sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


def uri_of(database: Path, mode: str) -> str:
    """SQLite's URI of a file; mode: `rw`, `rwc` or `ro`, and further settings behind it."""
    return f"{database.absolute().as_uri()}?mode={mode}"


def set_up_writer(connection: sqlite3.Connection) -> None:
    """Durable commits, a WAL that stays small. DamagedRow: the file says that it is not in WAL mode."""
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
    """A connection that cannot write."""
    for setting in ("query_only = ON", "cache_size = -16384", "cell_size_check = ON", "trusted_schema = OFF"):
        pragma(connection, setting)


def pragma(connection: sqlite3.Connection, text: str) -> object:
    """The first value that a PRAGMA answers, if any."""
    row = connection.execute(f"PRAGMA {text}").fetchone()
    return None if row is None else row[0]


def read_meta(connection: sqlite3.Connection) -> Meta:
    """What the store knows of itself. DamagedRow."""
    rows = connection.execute(SELECT_META).fetchmany(2)
    return meta_of(rows[0] if len(rows) == 1 else None)


def checked_meta(connection: sqlite3.Connection, directory: Path) -> Meta:
    """As `read_meta`, of a file of which nothing is known. DamagedRow, StateVersionError."""
    found = pragma(connection, "user_version")
    if pragma(connection, "application_id") != APPLICATION_ID:
        raise DamagedRow("it is not a state file of Penstock")
    if not isinstance(found, int):
        raise InvariantViolation(f"SQLite has the user version {found!r}")
    if found > FORMAT_VERSION:
        try:
            meta = read_meta(connection)
        except (DamagedRow, sqlite3.Error):
            raise newer_version(directory, found) from None  # what a newer version keeps where, only it knows
        if meta.version == found:
            raise newer_version(directory, found)
        raise DamagedRow(f"its header says store format version {found}, its content {meta.version}")
    meta = read_meta(connection)
    if found != FORMAT_VERSION or meta.version != FORMAT_VERSION:
        raise DamagedRow(f"its header says store format version {found}, its content {meta.version}")
    return meta


def find_plan(connection: sqlite3.Connection, plan_id: str) -> PlanRow | None:
    """Of a kept plan. DamagedRow."""
    row = connection.execute(SELECT_PLAN, (plan_id,)).fetchone()
    return None if row is None else plan_of(row)


def find_piece(connection: sqlite3.Connection, plan: PlanRow, place: int) -> bytes:
    """One piece of a kept plan. DamagedRow."""
    row = connection.execute(SELECT_PIECE, (piece_key(plan.number, place),)).fetchone()
    return piece_of(row, plan, place)


def find_pieces(connection: sqlite3.Connection, plan: PlanRow, first: int, last: int, most_bytes: int) -> list[bytes]:
    """Pieces at the places first..last of a kept plan; fewer where they are more than `most_bytes`, but one.
    DamagedRow."""
    found: list[bytes] = []
    size_bytes = 0
    rows = connection.execute(SELECT_PIECES_FROM, (piece_key(plan.number, first), piece_key(plan.number, last)))
    for place in range(first, last + 1):
        data = piece_of(rows.fetchone(), plan, place)
        size_bytes += len(data)
        if found and size_bytes > most_bytes:
            break
        found.append(data)
    return found
