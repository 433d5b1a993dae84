"""The durable store: one SQLite file in WAL mode, written by one process at a time.

Writes and reads use separate connections, so that a read does not wait for a disk sync.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.enumerator.store.protocol import AHEAD_BYTES, PlanPieces, StoredRecord
from penstock.enumerator.store.sqlite.connections import (
    Connect,
    find_piece,
    find_pieces,
    find_plan,
    read_meta,
    set_up_reader,
    uri_of,
)
from penstock.enumerator.store.sqlite.errors import of_directory, translated_errors
from penstock.enumerator.store.sqlite.lock import DirectoryLock, newest_holder
from penstock.enumerator.store.sqlite.row_format import (
    DATABASE,
    DROP_PIECES,
    DROP_PLAN,
    FIRST_SPLIT_PLACE,
    MAX_SPLITS,
    SCAN_PLACE,
    SELECT_PLANS,
    SELECT_RECORDS,
    WRITE_META,
    WRITE_PIECE,
    WRITE_PLAN,
    WRITE_RECORD,
    DamagedRow,
    Meta,
    PlanRow,
    piece_rows,
    plan_of,
    record_of,
    record_row,
)
from penstock.proto.errors import Fenced, PenstockError, StorageError, copy_of

READ_ROWS: Final = 256
"""Records that one fetch returns."""


class SqliteStore:
    """`penstock.enumerator.store.protocol.Store` on a directory. `penstock.enumerator.store.sqlite.open` creates it."""

    def __init__(
        self, directory: Path, meta: Meta, writer: sqlite3.Connection, lock: DirectoryLock, connect: Connect
    ) -> None:
        self._directory = directory
        self._epoch = meta.epoch
        self._state_id = meta.state_id
        self._lock = lock
        self._connect = connect
        self._writer = writer
        self._reader = self._new_reader()
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._failure: PenstockError | None = None

    @property
    def epoch(self) -> int:
        """See `Store`."""
        return self._epoch

    @property
    def state_id(self) -> str:
        """The random id of this state, constant for its lifetime. No two states share one."""
        return self._state_id

    @property
    def directory(self) -> Path:
        """The state directory."""
        return self._directory

    def append(
        self, records: Sequence[StoredRecord], plans: Sequence[PlanPieces] = (), dropped: Sequence[str] = ()
    ) -> None:
        """See `Store`."""
        with self._write_lock, self._writing("append to the log") as (connection, meta):
            rows = [record_row(meta.next_seq + i, self._epoch, record) for i, record in enumerate(records)]
            connection.executemany(WRITE_RECORD, rows)
            meta = replace(meta, next_seq=meta.next_seq + len(rows))
            for plan_id in dropped:
                meta = _drop(connection, meta, plan_id)
            for plan in plans:
                meta = _keep(connection, _drop(connection, meta, plan.plan_id), plan)
            connection.execute(WRITE_META, meta.row())

    def rewrite(self, records: Iterable[StoredRecord]) -> None:
        """See `Store`. `records` may be a lazy iterator over `records()` of this store."""
        with self._write_lock, self._writing("rewrite the log") as (connection, meta):
            connection.execute("DELETE FROM records")
            first = following = meta.next_seq
            for record in records:
                connection.execute(WRITE_RECORD, record_row(following, self._epoch, record))
                following += 1
            connection.execute(WRITE_META, replace(meta, first_seq=first, next_seq=following).row())

    def records(self) -> Iterator[StoredRecord]:
        """See `Store`. It reads a snapshot as of the first record; later writes do not change it."""
        self._raise_if_failed()
        with translated_errors(self._directory, "read the log"), closing(self._new_reader()) as connection:
            connection.execute("BEGIN")
            yield from log_of(connection, read_meta(connection))

    def plan_ids(self) -> frozenset[str]:
        """See `Store`."""
        with self._read_lock, self._reading() as connection:
            return frozenset(plan_of(row).plan_id for row in connection.execute(SELECT_PLANS))

    def scan(self, plan_id: str) -> bytes:
        """See `Store`."""
        with self._read_lock, self._reading() as connection:
            return find_piece(connection, _known(connection, plan_id), SCAN_PLACE)

    def splits(self, plan_id: str, indices: Sequence[int]) -> list[bytes]:
        """See `Store`."""
        with self._read_lock, self._reading() as connection:
            plan = _known(connection, plan_id)
            for index in indices:
                _check_index(plan, index)
            return [find_piece(connection, plan, FIRST_SPLIT_PLACE + index) for index in indices]

    def splits_from(self, plan_id: str, first: int, most: int) -> list[bytes]:
        """See `Store`."""
        with self._read_lock, self._reading() as connection:
            plan = _known(connection, plan_id)
            _check_index(plan, first)
            begin = FIRST_SPLIT_PLACE + first
            return find_pieces(connection, plan, begin, begin + min(most, plan.splits - first) - 1, AHEAD_BYTES)

    def close(self) -> None:
        """See `Store`."""
        with self._write_lock, self._read_lock:
            if self._failure is None:
                self._failure = of_directory(StorageError, self._directory, "the store is closed")
            with suppress(sqlite3.Error):
                self._reader.close()
            with suppress(sqlite3.Error):
                self._writer.close()
            self._lock.release()

    @contextmanager
    def _writing(self, action: str) -> Iterator[tuple[sqlite3.Connection, Meta]]:
        """One transaction of the newest leader. After any failure the store refuses all further calls."""
        self._raise_if_failed()
        connection = self._writer
        try:
            with translated_errors(self._directory, action):
                connection.execute("BEGIN IMMEDIATE")
                meta = read_meta(connection)
                if meta.epoch != self._epoch:
                    raise self._fenced(meta.epoch)
                yield connection, meta
                connection.execute("COMMIT")
        except BaseException as error:
            self._give_up(error)
            raise

    def _give_up(self, error: BaseException) -> None:
        if isinstance(error, PenstockError):
            self._failure = error
        elif not isinstance(error, Exception):  # the thread was stopped, perhaps within the commit
            self._failure = of_directory(StorageError, self._directory, "a write was interrupted")
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except sqlite3.Error as second:
            if self._failure is None:
                self._failure = of_directory(StorageError, self._directory, f"cannot roll back a write: {second}")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One read transaction."""
        self._raise_if_failed()
        connection = self._reader
        with translated_errors(self._directory, "read"):
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    def _raise_if_failed(self) -> None:
        if self._failure is not None:
            raise copy_of(self._failure)

    def _fenced(self, newest: int) -> Fenced:
        begin, rest = f"epoch {newest} writes now", f"this server has epoch {self._epoch} and must stop"
        text = f"{begin} ({newest_holder(self._directory)}), {rest}"
        return of_directory(Fenced, self._directory, text, f"{begin}, {rest}")

    def _new_reader(self) -> sqlite3.Connection:
        connection = self._connect(uri_of(self._directory / DATABASE, "rw"))
        try:
            set_up_reader(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def log_of(connection: sqlite3.Connection, meta: Meta) -> Iterator[StoredRecord]:
    """Every record in order. DamagedRow at the first damaged or missing one."""
    seq = meta.first_seq
    cursor = connection.execute(SELECT_RECORDS)
    while rows := cursor.fetchmany(READ_ROWS):
        for row in rows:
            record = record_of(row, seq)
            if seq >= meta.next_seq:
                raise DamagedRow(f"record {seq} is there, but the log ends before {meta.next_seq}")
            yield record
            seq += 1
    if seq != meta.next_seq:
        raise DamagedRow(f"records from {seq} up to {meta.next_seq} are missing")


def _known(connection: sqlite3.Connection, plan_id: str) -> PlanRow:
    plan = find_plan(connection, plan_id)
    if plan is None:
        raise KeyError(f"no plan {plan_id} is kept")
    return plan


def _check_index(plan: PlanRow, index: int) -> None:
    if not 0 <= index < plan.splits:
        raise KeyError(f"plan {plan.plan_id}: no split {index}, it has {plan.splits}")


def _drop(connection: sqlite3.Connection, meta: Meta, plan_id: str) -> Meta:
    plan = find_plan(connection, plan_id)
    if plan is None:
        return meta
    connection.execute(DROP_PLAN, (plan_id,))
    connection.execute(DROP_PIECES, plan.key_range())
    return replace(meta, plans=meta.plans - 1)


def _keep(connection: sqlite3.Connection, meta: Meta, plan: PlanPieces) -> Meta:
    if len(plan.splits) > MAX_SPLITS:
        raise ValueError(f"plan {plan.plan_id}: {len(plan.splits)} splits, at most {MAX_SPLITS}")
    row = PlanRow(plan.plan_id, meta.next_plan, len(plan.splits))
    connection.execute(WRITE_PLAN, row.row())
    connection.executemany(WRITE_PIECE, piece_rows(row.number, plan))
    return replace(meta, next_plan=meta.next_plan + 1, plans=meta.plans + 1)
