"""Checks a state directory and reports its content, for operators. Takes no leadership and changes no byte.

The check works while a server runs, and after a server stopped. There are no repairs: a server must not continue with a
state that lost records.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.enumerator.store.protocol import StoredRecord
from penstock.enumerator.store.sqlite.connections import checked_meta, connect, pragma, set_up_reader, uri_of
from penstock.enumerator.store.sqlite.errors import translated_errors
from penstock.enumerator.store.sqlite.lock import Holder, read_lock
from penstock.enumerator.store.sqlite.open import check_plan_list, check_structure, check_wal_at_rest
from penstock.enumerator.store.sqlite.row_format import (
    DATABASE,
    FIRST_SPLIT_PLACE,
    SELECT_PIECES,
    SELECT_PLANS,
    WAL,
    DamagedRow,
    PlanRow,
    piece_key,
    piece_of,
    plan_of,
)
from penstock.enumerator.store.sqlite.store import log_of
from penstock.proto.errors import ConfigurationError, InvariantViolation, StateDamaged


@dataclass(frozen=True, slots=True)
class KindCount:
    """Records of one kind and version, and the bytes of their payloads."""

    kind: str
    """The kind of the records."""
    version: int
    """The version of their payload format."""
    records: int
    """The number of records."""
    size_bytes: int
    """The total size of their payloads."""


@dataclass(slots=True, kw_only=True)
class StateReport:
    """The result of a check. If the state is damaged, it covers the part that could be read."""

    directory: str
    """The state directory."""
    holder: Holder | None = None
    """The process that locked the directory last; None: unknown."""
    live: bool = False
    """Whether that process still holds the lock."""
    format_version: int | None = None
    """The store's format version; None: it could not be read."""
    state_id: str = ""
    """The random id of the state."""
    epoch: int = 0
    """The epoch of the last leader."""
    records: int = 0
    """The number of records in the log."""
    kinds: tuple[KindCount, ...] = ()
    """The records by kind and version."""
    plans: int = 0
    """The number of held plans."""
    splits: int = 0
    """The number of splits of these plans."""
    size_bytes: int = 0
    """The size of the database and its WAL."""
    free_bytes: int = 0
    """The part of `size_bytes` that is empty pages, which SQLite will reuse."""
    damage: str = ""
    """The text of the first error; empty if the state is whole."""


def check_state(directory: Path | str) -> StateReport:
    """Reads every record and every piece of every plan. A running server continues; its WAL is not truncated until the
    check ends. ConfigurationError: there is no state; StateVersionError: a newer version wrote the store; StorageError.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise ConfigurationError(f"state directory {directory}: there is no such directory")
    if not any(directory.glob(f"{DATABASE}*")):
        raise ConfigurationError(f"state directory {directory}: there is no state in it (no {DATABASE})")
    while True:
        holder, live = read_lock(directory)
        report = StateReport(directory=str(directory), holder=holder, live=live)
        try:
            with translated_errors(directory, "read it", checking=True):
                _fill(report, directory, live=live)
        except StateDamaged as error:
            report.damage = str(error)
            if not live and read_lock(directory)[1]:
                continue  # a server started and wrote during a check that assumed unchanging files
        return report


def _fill(report: StateReport, directory: Path, *, live: bool) -> None:
    files = [path.stat().st_size for path in directory.glob(f"{DATABASE}*") if not path.name.endswith("-shm")]
    report.size_bytes = sum(files)
    if not (directory / DATABASE).exists():
        raise DamagedRow("it is missing, though its WAL is there")
    if not live:
        check_wal_at_rest(directory)
    with unchanged(directory, live=live) as uri, closing(connect(uri)) as connection:
        set_up_reader(connection)
        connection.execute("BEGIN")
        meta = checked_meta(connection, directory)
        report.format_version, report.state_id, report.epoch = meta.version, meta.state_id, meta.epoch
        free, page_bytes = pragma(connection, "freelist_count"), pragma(connection, "page_size")
        if not isinstance(free, int) or not isinstance(page_bytes, int):
            raise InvariantViolation(f"SQLite counts {free!r} free pages of {page_bytes!r} bytes")
        report.free_bytes = free * page_bytes
        _count(report, log_of(connection, meta))
        check_plan_list(connection, meta)
        plans = sorted((plan_of(row) for row in connection.execute(SELECT_PLANS)), key=lambda plan: plan.number)
        report.plans = len(plans)
        for plan in _whole(connection, plans):
            report.splits += plan.splits
        check_structure(connection, limit_bytes=None)


def _count(report: StateReport, records: Iterator[StoredRecord]) -> None:
    """Counts records by kind and version, up to the first damaged one."""
    number: Counter[tuple[str, int]] = Counter()
    size_bytes: Counter[tuple[str, int]] = Counter()
    try:
        for record in records:
            number[record.kind, record.version] += 1
            size_bytes[record.kind, record.version] += len(record.payload)
    finally:
        report.records = number.total()
        report.kinds = tuple(KindCount(*key, number[key], size_bytes[key]) for key in sorted(number))


def _whole(connection: sqlite3.Connection, plans: list[PlanRow]) -> Iterator[PlanRow]:
    """Yields each plan after all its pieces were checked, in one scan of the table of pieces. DamagedRow."""
    rows = iter(connection.execute(SELECT_PIECES))
    for plan in plans:
        for place in range(FIRST_SPLIT_PLACE + plan.splits):
            row = next(rows, None)
            missing = row is None or (isinstance(row[0], int) and row[0] > piece_key(plan.number, place))
            piece_of(None if missing else row, plan, place)
        yield plan
    if (left := next(rows, None)) is not None:
        raise DamagedRow(f"piece {left[0]} belongs to no plan")


@contextmanager
def unchanged(directory: Path, *, live: bool) -> Iterator[str]:
    """The URI with which SQLite reads the database and its WAL without creating, changing or deleting a file."""
    database = directory / DATABASE
    wal = directory / WAL
    if live:
        yield uri_of(database, "ro")
    elif not wal.exists() or wal.stat().st_size == 0:
        yield uri_of(database, "ro&immutable=1")
    elif (directory / f"{DATABASE}-shm").exists():
        yield uri_of(database, "ro&readonly_shm=1")
    else:  # SQLite would create the missing index of the WAL
        with tempfile.TemporaryDirectory() as copies:
            for path in (database, wal):
                shutil.copyfile(path, Path(copies) / path.name)
            yield uri_of(Path(copies) / DATABASE, "ro")
