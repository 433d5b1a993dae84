"""How the state is laid out in SQLite: tables, rows, checksums. Pure: a function of the rows alone.

Belongs here: the format of the store and what makes a row damaged. Not here: connections (`sqlite`), the meaning of a
record (`penstock.enumerator.core`).

Format version 1. `records` is the log: `seq` without gaps from `first_seq` up to `next_seq` of `meta`. `pieces` holds
plans piece by piece, its key being the plan's number and the place (scan, splits in order), so that one piece is
one look-up in a table that grows at its end alone. Every row carries a CRC-32 over all of it, its key included.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.enumerator.store.protocol import PlanPieces, StoredRecord

FORMAT_VERSION: Final = 1
"""Of the store alone; kept in SQLite's `user_version` and again in `meta`. Records have versions of their own."""
APPLICATION_ID: Final = 0x50535444
"""SQLite's `application_id` of a state file: that it is Penstock's."""

DATABASE: Final = "penstock.db"
WAL: Final = f"{DATABASE}-wal"
REPLACED: Final = "replaced-"
"""How the names of folders begin that hold what a restore moved away."""
LOCK: Final = "penstock.lock"

SCAN_PLACE: Final = 0
FIRST_SPLIT_PLACE: Final = 1
_PLACE_BITS: Final = 32
MAX_SPLITS: Final = (1 << _PLACE_BITS) - FIRST_SPLIT_PLACE
_MAX_VERSION: Final = 1 << 31

SCHEMA: Final = (
    "CREATE TABLE records (seq INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, kind TEXT NOT NULL, "
    "version INTEGER NOT NULL, payload BLOB NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE plans (plan_id TEXT PRIMARY KEY, number INTEGER NOT NULL, splits INTEGER NOT NULL, "
    "crc INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE pieces (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, state_id TEXT NOT NULL, "
    "epoch INTEGER NOT NULL, first_seq INTEGER NOT NULL, next_seq INTEGER NOT NULL, next_plan INTEGER NOT NULL, "
    "plans INTEGER NOT NULL, crc INTEGER NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT_VERSION}",
)

SELECT_META: Final = "SELECT version, state_id, epoch, first_seq, next_seq, next_plan, plans, crc FROM meta"
WRITE_META: Final = "INSERT OR REPLACE INTO meta VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)"
SELECT_RECORDS: Final = "SELECT seq, epoch, kind, version, payload, crc FROM records ORDER BY seq"
WRITE_RECORD: Final = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)"
SELECT_PLANS: Final = "SELECT plan_id, number, splits, crc FROM plans ORDER BY plan_id"
SELECT_PLAN: Final = "SELECT plan_id, number, splits, crc FROM plans WHERE plan_id = ?"
WRITE_PLAN: Final = "INSERT INTO plans VALUES (?, ?, ?, ?)"
SELECT_PIECE: Final = "SELECT id, bytes, crc FROM pieces WHERE id = ?"
SELECT_PIECES_FROM: Final = "SELECT id, bytes, crc FROM pieces WHERE id BETWEEN ? AND ? ORDER BY id"
SELECT_PIECES: Final = "SELECT id, bytes, crc FROM pieces ORDER BY id"
WRITE_PIECE: Final = "INSERT INTO pieces VALUES (?, ?, ?)"
DROP_PLAN: Final = "DELETE FROM plans WHERE plan_id = ?"
DROP_PIECES: Final = "DELETE FROM pieces WHERE id BETWEEN ? AND ?"


class DamagedRow(ValueError):
    """A row that is not what was written, or is not there; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """What the store knows of itself, changed in each transaction."""

    version: int
    state_id: str
    epoch: int
    first_seq: int
    next_seq: int
    next_plan: int
    plans: int

    def row(self) -> tuple[int | str, ...]:
        """As WRITE_META takes it."""
        numbers = (self.epoch, self.first_seq, self.next_seq, self.next_plan, self.plans)
        return (self.version, self.state_id, *numbers, _meta_crc(self))


@dataclass(frozen=True, slots=True)
class PlanRow:
    """Where the pieces of a kept plan are."""

    plan_id: str
    number: int
    splits: int

    def row(self) -> tuple[int | str, ...]:
        """As WRITE_PLAN takes it."""
        return (self.plan_id, self.number, self.splits, _plan_crc(self))

    def key_range(self) -> tuple[int, int]:
        """The first and the last key that pieces of this plan can have."""
        return piece_key(self.number, 0), piece_key(self.number + 1, 0) - 1


def piece_key(number: int, place: int) -> int:
    """The key of a piece: plans behind each other, pieces in their order."""
    return (number << _PLACE_BITS) | place


def meta_of(row: Sequence[object] | None) -> Meta:
    """DamagedRow if it is not whole."""
    match row:
        case (int() as version, str() as state_id, int() as epoch, int() as first, int() as following, *others):
            match others:
                case (int() as next_plan, int() as plans, int() as crc):
                    meta = Meta(
                        version=version,
                        state_id=state_id,
                        epoch=epoch,
                        first_seq=first,
                        next_seq=following,
                        next_plan=next_plan,
                        plans=plans,
                    )
                    if crc == _meta_crc(meta):
                        return meta
    raise DamagedRow("the row of what the store knows of itself (meta) is missing or its checksum does not fit")


def record_row(seq: int, epoch: int, record: StoredRecord) -> tuple[int | str | bytes, ...]:
    """As WRITE_RECORD takes it. ValueError for a record that no store takes."""
    check_record(record)
    return (seq, epoch, record.kind, record.version, record.payload, _record_crc(seq, epoch, record))


def check_record(record: StoredRecord) -> None:
    """ValueError for a record that no store takes."""
    if not record.kind or not 0 <= record.version < _MAX_VERSION:
        raise ValueError(f"record {record.kind!r} version {record.version}: expected a kind and a version below 2^31")


def record_of(row: Sequence[object], expected_seq: int) -> StoredRecord:
    """DamagedRow if it is not whole, or not the one that follows."""
    match row:
        case (int() as seq, int() as epoch, str() as kind, int() as version, bytes() as payload, int() as crc):
            if seq != expected_seq:
                raise DamagedRow(f"record {expected_seq} is missing (the next one there is {seq})")
            record = StoredRecord(kind, version, payload)
            if 0 <= version < _MAX_VERSION and crc == _record_crc(seq, epoch, record):
                return record
    raise DamagedRow(f"record {expected_seq}: its checksum does not fit its bytes")


def plan_of(row: Sequence[object]) -> PlanRow:
    """DamagedRow if it is not whole."""
    match row:
        case (str() as plan_id, int() as number, int() as splits, int() as crc):
            plan = PlanRow(plan_id, number, splits)
            if crc == _plan_crc(plan):
                return plan
    raise DamagedRow(f"plan {str(row[0])[:80]!r}: its checksum does not fit")


def piece_rows(number: int, plan: PlanPieces) -> Iterator[tuple[int, bytes, int]]:
    """A plan's pieces as WRITE_PIECE takes them."""
    key = piece_key(number, SCAN_PLACE)
    for data in (plan.scan, *plan.splits):
        yield key, data, _piece_crc(key, data)
        key += 1


def piece_of(row: Sequence[object] | None, plan: PlanRow, place: int) -> bytes:
    """DamagedRow if it is missing or not whole."""
    named = "scan" if place == SCAN_PLACE else f"split {place - FIRST_SPLIT_PLACE}"
    if row is None:
        raise DamagedRow(f"plan {plan.plan_id}: its {named} is missing")
    match row:
        case (int() as key, bytes() as data, int() as crc):
            if key == piece_key(plan.number, place) and crc == _piece_crc(key, data):
                return data
    raise DamagedRow(f"plan {plan.plan_id}: the checksum of its {named} does not fit its bytes")


def _record_crc(seq: int, epoch: int, record: StoredRecord) -> int:
    kind = record.kind.encode()
    head = struct.pack("<qqqq", seq, epoch, record.version, len(kind)) + kind
    return zlib.crc32(record.payload, zlib.crc32(head))


def _piece_crc(key: int, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(key.to_bytes(8, "little", signed=True)))


def _plan_crc(plan: PlanRow) -> int:
    return zlib.crc32(struct.pack("<qq", plan.number, plan.splits) + plan.plan_id.encode())


def _meta_crc(meta: Meta) -> int:
    numbers = (meta.version, meta.epoch, meta.first_seq, meta.next_seq, meta.next_plan, meta.plans)
    return zlib.crc32(struct.pack("<6q", *numbers) + meta.state_id.encode())
