"""The global indexes: a key is unique in the table, so that a row may have to leave its stored partition. Pure.

Source: Hudi `HoodieIndexUtils.tagGlobalLocationBackToRecords` and `mergeForPartitionUpdatesAndDeletionsIfNeeded`. Other
than there, a row that loses against the stored one in another partition is left out: Hudi writes the stored row again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.reader.merge.fold import RecordKind
from penstock.writer.index.slices import LatestSlice
from penstock.writer.rows.keyed_rows import KeyedRows
from penstock.writer.rows.partition_paths import RowPartitions


@dataclass(frozen=True, slots=True, eq=False)
class StoredRows:
    """The stored rows of searched keys. Arrays are parallel, an entry for each stored row."""

    rows: np.ndarray
    """int64, ascending: the searched row."""
    slices: np.ndarray
    """int64: the place of the slice that has its key."""
    wins: np.ndarray
    """bool: whether the stored row wins over the searched one."""

    def only(self, chosen: np.ndarray) -> StoredRows:
        """Some of the entries."""
        return StoredRows(self.rows[chosen], self.slices[chosen], self.wins[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRows:
    """The rows of a write, each in the partition and slice into which it is written."""

    rows: KeyedRows
    """The rows. A row that moves stands here twice: as a delete in its old partition, and in its new one."""
    slices: np.ndarray
    """int64 parallel to the rows: the place of the slice; -1 for a row of a new key."""


def in_own_partition(rows: KeyedRows, stored: StoredRows, slices: Sequence[LatestSlice]) -> np.ndarray:
    """For each stored row, whether it is in the partition of the searched one."""
    number = {path: place for place, path in enumerate(rows.partitions.paths)}
    of_slice = np.array([number.get(item.partition, -1) for item in slices], np.int64)
    return np.asarray(of_slice[stored.slices] == rows.partitions.numbers[stored.rows])


def placed_rows(rows: KeyedRows, stored: StoredRows, slices: Sequence[LatestSlice], *, moves_keys: bool) -> PlacedRows:
    """Where the rows are written; one row of each key.

    * A row without a stored one is new in its own partition. A delete without one is left out.
    * A delete is written where its key is stored.
    * So is another row, if it is stored in the row's own partition, or with moves_keys=false.
    * Else the row moves: it is a delete without an ordering value where its key is stored, and new in its own
      partition. If a stored row wins over it, it is left out.
    """
    entries = [_unknown(rows, stored)]
    deletes = rows.kinds[stored.rows] != RecordKind.DATA
    stays = deletes | (not moves_keys)
    own = in_own_partition(rows, stored, slices)
    entries.append(_entries(stored.only(stays | own)))
    leaving = ~(stays | own)
    has_own = _rows_with(rows, stored.only(own & ~stays))
    beaten = _rows_with(rows, stored.only(leaving & stored.wins))
    moved = leaving & ~np.where(has_own[stored.rows], stored.wins, beaten[stored.rows])
    entries.append(_entries(stored.only(moved), kind=RecordKind.DEFAULT_DELETE))
    arrived = np.flatnonzero(_rows_with(rows, stored.only(moved)) & ~has_own)
    entries.append(_new(arrived))
    row, place, kind = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    order = np.argsort(row, kind="stable")
    return _placed(rows, slices, row[order], place[order], kind[order])


_Entries = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Parallel: row, place of a slice or -1, kind or -1 for that of the row."""


def _unknown(rows: KeyedRows, stored: StoredRows) -> _Entries:
    return _new(np.flatnonzero(~_rows_with(rows, stored) & (rows.kinds == RecordKind.DATA)))


def _new(rows: np.ndarray) -> _Entries:
    none = np.full(len(rows), -1, np.int64)
    return rows, none, none


def _entries(stored: StoredRows, kind: int = -1) -> _Entries:
    return stored.rows, stored.slices, np.full(len(stored.rows), kind, np.int64)


def _rows_with(rows: KeyedRows, stored: StoredRows) -> np.ndarray:
    """bool for each row: whether it has one of the stored rows."""
    has = np.zeros(len(rows), bool)
    has[stored.rows] = True
    return has


def _placed(
    rows: KeyedRows, slices: Sequence[LatestSlice], row: np.ndarray, place: np.ndarray, kind: np.ndarray
) -> PlacedRows:
    paths = sorted({*rows.partitions.paths, *(slices[at].partition for at in np.unique(place[place >= 0]))})
    number = {path: at for at, path in enumerate(paths)}
    partitions = np.array([number[path] for path in rows.partitions.paths], np.int64)[rows.partitions.numbers[row]]
    stored = place >= 0
    of_slice = np.array([number.get(item.partition, -1) for item in slices], np.int64)
    partitions[stored] = of_slice[place[stored]]
    taken = rows.take(row)
    kinds = np.where(kind >= 0, kind, taken.kinds).astype(np.uint8)
    return PlacedRows(taken.written_as(RowPartitions(tuple(paths), partitions), kinds), place)
