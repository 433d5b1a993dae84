"""The format of the state in SQLite: tables, rows, checksums. Pure.

Format version 1. `records` is the log: `seq` has no gaps from `first_seq` up to `next_seq` of `meta`. `pieces` holds
plans piece by piece. The key of a piece is the plan's number and the place (the scan, then the splits in order), so
reading one piece is one look-up, and the table grows only at its end. Every row carries a CRC-32 over all its columns,
including its key.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.enumerator.store.protocol import MAX_VERSION, PlanPieces, StoredRecord, check_record

FORMAT_VERSION: Final = 1
"""The version of the store's format, in SQLite's `user_version` and in `meta`. Records have their own versions."""
APPLICATION_ID: Final = 0x50535444
"""SQLite's `application_id`, which marks a state file of Penstock."""

DATABASE: Final = "penstock.db"
WAL: Final = f"{DATABASE}-wal"
REPLACED: Final = "replaced-"
"""Prefix of the folders that hold the files that a restore moved away."""
LOCK: Final = "penstock.lock"

SCAN_PLACE: Final = 0
FIRST_SPLIT_PLACE: Final = 1
_PLACE_BITS: Final = 32
MAX_SPLITS: Final = (1 << _PLACE_BITS) - FIRST_SPLIT_PLACE

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
    """A row is damaged or missing; the text says which row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """The store's metadata, written by each transaction."""

    version: int
    """The format version."""
    state_id: str
    """The random id of the state."""
    epoch: int
    """The epoch of the leader that wrote last."""
    first_seq: int
    """The sequence number of the first record of the log."""
    next_seq: int
    """The sequence number after the last record."""
    next_plan: int
    """The number of the next plan."""
    plans: int
    """The number of held plans."""

    def row(self) -> tuple[int | str, ...]:
        """The parameters of WRITE_META."""
        numbers = (self.epoch, self.first_seq, self.next_seq, self.next_plan, self.plans)
        return (self.version, self.state_id, *numbers, _meta_crc(self))


@dataclass(frozen=True, slots=True)
class PlanRow:
    """The location of the pieces of a held plan."""

    plan_id: str
    """The plan's id."""
    number: int
    """The plan's number, the upper part of its pieces' keys."""
    splits: int
    """The number of its splits."""

    def row(self) -> tuple[int | str, ...]:
        """The parameters of WRITE_PLAN."""
        return (self.plan_id, self.number, self.splits, _plan_crc(self))

    def key_range(self) -> tuple[int, int]:
        """The first and the last possible key of this plan's pieces."""
        return piece_key(self.number, 0), piece_key(self.number + 1, 0) - 1


def piece_key(number: int, place: int) -> int:
    """The key of a piece. Keys are ordered by plan, then by place."""
    return (number << _PLACE_BITS) | place


def meta_of(row: Sequence[object] | None) -> Meta:
    """The parsed row of `meta`. DamagedRow if it is missing or damaged."""
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
    raise DamagedRow("the metadata row (meta) is missing or its checksum does not fit")


def record_row(seq: int, epoch: int, record: StoredRecord) -> tuple[int | str | bytes, ...]:
    """The parameters of WRITE_RECORD. ValueError for an invalid record."""
    check_record(record)
    return (seq, epoch, record.kind, record.version, record.payload, _record_crc(seq, epoch, record))


def record_of(row: Sequence[object], expected_seq: int) -> StoredRecord:
    """The parsed row of `records`. DamagedRow if it is damaged, or its sequence number is not the expected one."""
    match row:
        case (int() as seq, int() as epoch, str() as kind, int() as version, bytes() as payload, int() as crc):
            if seq != expected_seq:
                raise DamagedRow(f"record {expected_seq} is missing (the next one there is {seq})")
            record = StoredRecord(kind, version, payload)
            if 0 <= version <= MAX_VERSION and crc == _record_crc(seq, epoch, record):
                return record
    raise DamagedRow(f"record {expected_seq}: its checksum does not fit its bytes")


def plan_of(row: Sequence[object]) -> PlanRow:
    """The parsed row of `plans`. DamagedRow if it is damaged."""
    match row:
        case (str() as plan_id, int() as number, int() as splits, int() as crc):
            plan = PlanRow(plan_id, number, splits)
            if crc == _plan_crc(plan):
                return plan
    raise DamagedRow(f"plan {str(row[0])[:80]!r}: its checksum does not fit")


def piece_rows(number: int, plan: PlanPieces) -> Iterator[tuple[int, bytes, int]]:
    """The parameters of WRITE_PIECE for each piece of a plan."""
    key = piece_key(number, SCAN_PLACE)
    for data in (plan.scan, *plan.splits):
        yield key, data, _piece_crc(key, data)
        key += 1


def piece_of(row: Sequence[object] | None, plan: PlanRow, place: int) -> bytes:
    """The bytes of a row of `pieces`. DamagedRow if it is missing or damaged."""
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
