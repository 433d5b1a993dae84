"""Matches log records with each other and with base rows, by record key or by position in the base file.

Keys or positions become numbers 0, 1, …; a number stands for all records that are versions of one row. Keys are matched
by the compiled kernel or by Arrow functions, with equal results. `fold` decides which record of a number wins.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptBlock, FormatError
from penstock.proto.value_classes import dataclass
from penstock.reader.kernels.choice import KernelChoice
from penstock.table.arrow_arrays import arrow_array, numpy_array
from penstock.table.arrow_compute import pc

MAX_RECORDS: Final = 2**31 - 1
_ALL_BITS: Final = 64
_SEEDS: Final = np.frombuffer(os.urandom(24), np.uint64) | np.array([0, 1, 1], np.uint64)
"""Drawn once per process, so that nobody can craft keys with equal hashes. The last two are multipliers and must be
odd."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Base rows that log records match. All arrays are int64."""

    rows: np.ndarray
    """The base rows, ascending."""
    numbers: np.ndarray
    """The number of each row's records."""

    def between(self, begin: int, end: int) -> Matches:
        """The matches of rows begin..end-1, counted from `begin`."""
        first, last = np.searchsorted(self.rows, (begin, end))
        return Matches(self.rows[first:last] - begin, self.numbers[first:last])


class RecordTable(Protocol):
    """The numbers 0..count-1 of a log's records, matched with base rows. For one pass over one base file."""

    @property
    def count(self) -> int:
        """How many numbers there are."""
        ...

    @property
    def keys(self) -> pa.LargeStringArray:
        """The record key of each number."""
        ...

    @property
    def prefers_row_groups(self) -> bool:
        """Whether each call of `match` is expensive, so that it should get the keys of a whole row group."""
        ...

    def may_meet(self, first_row: int, rows: int) -> bool:
        """Whether any of these consecutive rows of the base file may have records."""
        ...

    def match(self, keys: pa.Array, first_row: int) -> Matches:
        """Which base rows have records. `keys` (text, none null) are those of consecutive rows of the base file,
        beginning with row `first_row`."""
        ...


def number_positions(
    positions: Sequence[np.ndarray], keys: Sequence[pa.Array], where: str
) -> tuple[PositionTable, np.ndarray]:
    """The table of records by the base row they belong to, and the int64 number of each record. The arguments are
    parallel, in arrival order."""
    joined = np.concatenate(list(positions))
    known, first, numbers = np.unique(joined, return_index=True, return_inverse=True)
    texts = pa.chunked_array(list(keys), pa.string()).cast(pa.large_string()).combine_chunks()
    return PositionTable(known, texts.take(arrow_array(first)), where), numbers.astype(np.int64)


def number_keys(
    keys: Sequence[pa.Array], *, compiled: bool | KernelChoice = True, hash_bits: int = _ALL_BITS
) -> tuple[RecordTable, np.ndarray]:
    """The table of records by these keys (text, none null, in arrival order), and the int64 number of each record.

    Two keys are equal if their bytes are equal. `compiled` selects the kernel, or decides when the kernel is worth its
    loading; Arrow functions are slower and return the same numbers. `hash_bits` is for tests: fewer bits force
    collisions. FormatError for more than 2^31-1 records.
    """
    parts = [pc.cast(part, pa.large_string()) for part in keys]
    joined = pa.chunked_array(parts, pa.large_string()).combine_chunks()
    if len(joined) > MAX_RECORDS:
        raise FormatError(
            f"log of {len(joined)} records in one file slice: records are numbered in 32 bits, so that at most "
            f"{MAX_RECORDS} are merged; compact the table"
        )
    choice = None if isinstance(compiled, bool) else compiled
    if compiled if choice is None else choice.for_keys(len(joined), 0):
        return _number_compiled(joined, np.uint64(2**hash_bits - 1))
    encoded = pc.dictionary_encode(joined)
    table = ArrowKeys(encoded.dictionary) if choice is None else ChosenKeys(encoded.dictionary, choice)
    return table, numpy_array(encoded.indices).astype(np.int64)


def _number_compiled(keys: pa.LargeStringArray, keep: np.uint64) -> tuple[RecordTable, np.ndarray]:
    from penstock.reader.kernels import winners

    total = len(keys)
    offsets, data = _layout(keys, np.int64)
    slots = np.full(max(16, 1 << (2 * total - 1).bit_length() if total else 0), winners.EMPTY, np.int64)
    bloom = np.zeros(max(2, 1 << (16 * total).bit_length() >> 6), np.uint64)
    first = np.empty(total, np.int64)
    numbers = np.empty(total, np.int64)
    count = winners.number_keys(offsets, data, _SEEDS, keep, slots, bloom, first, numbers)
    distinct = keys if count == total else keys.take(arrow_array(first[:count]))
    return CompiledKeys(distinct, keep, slots, bloom), numbers


class CompiledKeys:
    """`RecordTable` by the compiled kernel. It takes 8 to 16 bytes and 16 to 32 bits per key beside the key itself."""

    prefers_row_groups = False

    def __init__(self, distinct: pa.LargeStringArray, keep: np.uint64, slots: np.ndarray, bloom: np.ndarray) -> None:
        from penstock.reader.kernels import winners

        self.count, self.keys = len(distinct), distinct
        self._find = winners.find_keys
        self._offsets, self._data = _layout(distinct, np.int64)
        self._keep, self._slots, self._bloom = keep, slots, bloom
        self._scratch = (np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))

    def may_meet(self, first_row: int, rows: int) -> bool:
        return self.count > 0

    def match(self, keys: pa.Array, first_row: int) -> Matches:
        if len(self._scratch[0]) <= len(keys):
            places = len(keys) + 1
            self._scratch = (np.empty(places, np.uint64), np.empty(places, np.int64), np.empty(places, np.int64))
        codes, rows, numbers = self._scratch
        offsets, data = _layout(keys, np.int32)
        known = self._offsets, self._data
        count = self._find(offsets, data, _SEEDS, self._keep, self._slots, self._bloom, *known, codes, rows, numbers)
        return Matches(rows[:count].copy(), numbers[:count].copy())


class ArrowKeys:
    """`RecordTable` by Arrow's `index_in`, which builds its table again for every call."""

    prefers_row_groups = True

    def __init__(self, distinct: pa.LargeStringArray) -> None:
        self.count, self.keys = len(distinct), distinct

    def may_meet(self, first_row: int, rows: int) -> bool:
        return self.count > 0

    def match(self, keys: pa.Array, first_row: int) -> Matches:
        places = pc.index_in(pc.cast(keys, pa.large_string()), value_set=self.keys)
        rows = np.flatnonzero(numpy_array(pc.is_valid(places)))
        return Matches(rows, numpy_array(pc.take(places, arrow_array(rows))).astype(np.int64))


class ChosenKeys:
    """`RecordTable` by Arrow functions, until the process has looked up so many keys that the kernel is worth its
    loading."""

    def __init__(self, distinct: pa.LargeStringArray, choice: KernelChoice) -> None:
        self.count, self.keys = len(distinct), distinct
        self._choice: KernelChoice | None = choice
        self._table: RecordTable = ArrowKeys(distinct)

    @property
    def prefers_row_groups(self) -> bool:
        return self._table.prefers_row_groups

    def may_meet(self, first_row: int, rows: int) -> bool:
        return self.count > 0

    def match(self, keys: pa.Array, first_row: int) -> Matches:
        return self._chosen(len(keys)).match(keys, first_row)

    def _chosen(self, looked_up: int) -> RecordTable:
        if self._choice is not None and self._choice.for_keys(self.count, looked_up):
            # The keys are distinct, so that they keep their numbers.
            self._table, _ = _number_compiled(self.keys, np.uint64(2**_ALL_BITS - 1))
            self._choice = None
        return self._table


class PositionTable:
    """`RecordTable` by record positions. If the base has a key twice, each of its rows has its own records."""

    prefers_row_groups = False

    def __init__(self, positions: np.ndarray, keys: pa.LargeStringArray, where: str) -> None:
        """positions: ascending. keys: those of the records at these positions. where: the beginning of error texts."""
        self.count, self.keys = len(positions), keys
        self._positions, self._where = positions, where

    @property
    def last_position(self) -> int:
        """The highest base row that has records; -1 if there is none."""
        return int(self._positions[-1]) if self.count else -1

    def may_meet(self, first_row: int, rows: int) -> bool:
        first, last = np.searchsorted(self._positions, (first_row, first_row + rows))
        return bool(first < last)

    def match(self, keys: pa.Array, first_row: int) -> Matches:
        """As `RecordTable`. CorruptBlock if a record's key is not that of the base row at its position."""
        first, last = np.searchsorted(self._positions, (first_row, first_row + len(keys)))
        matches = Matches(self._positions[first:last] - first_row, np.arange(first, last))
        return self._checked(matches, keys, first_row, first_row + len(keys) - 1)

    def match_among(self, rows: np.ndarray, keys: pa.Array, base_rows: int | np.ndarray) -> Matches:
        """The matches of `rows` alone, ascending places in `keys`: these are all base rows with some chosen keys.

        `base_rows` are the rows of the base file that `keys` are those of: the first of consecutive rows, or the number
        of each row, ascending."""
        if isinstance(base_rows, np.ndarray):
            numbers = np.flatnonzero(np.isin(self._positions, base_rows, assume_unique=True))
            places = np.searchsorted(base_rows, self._positions[numbers])
            matches = self._checked(Matches(places, numbers), keys, int(base_rows[0]), int(base_rows[-1]))
        else:
            matches = self.match(keys, base_rows)  # of all rows, so that a record at a wrong position is detected
        among = np.isin(matches.rows, rows, assume_unique=True)
        return Matches(matches.rows[among], matches.numbers[among])

    def check_selection(self, chosen: RecordTable, base_rows: np.ndarray) -> None:
        """CorruptBlock if a record of a chosen key belongs to none of these base rows, which are all that have a chosen
        key."""
        numbers = chosen.match(self.keys, 0).rows
        elsewhere = self._positions[numbers[~np.isin(self._positions[numbers], base_rows)]]
        if len(elsewhere):
            raise self._mismatch(int(elsewhere[0]), int(elsewhere[-1]))

    def _checked(self, matches: Matches, keys: pa.Array, first_row: int, last_row: int) -> Matches:
        met = keys.take(arrow_array(matches.rows)).cast(pa.large_string())
        if not met.equals(self.keys.take(arrow_array(matches.numbers))):
            raise self._mismatch(first_row, last_row)
        return matches

    def _mismatch(self, first_row: int, last_row: int) -> CorruptBlock:
        return CorruptBlock(
            f"{self._where}: the log's record positions do not fit the base file: between its rows {first_row} and "
            f"{last_row} a record's key is not the row's; the log or the base file was replaced"
        )


def check_positions(table: RecordTable, base_rows: int, where: str) -> None:
    """CorruptBlock, beginning with `where`, for a record whose position is after the base's last row: it would be
    treated as an insert."""
    if isinstance(table, PositionTable) and table.last_position >= base_rows:
        raise CorruptBlock(
            f"{where}: the log has a record for row {table.last_position} of a base file with {base_rows} rows; one of "
            "them was replaced"
        )


def _layout(texts: pa.Array, offset_type: type[np.int32] | type[np.int64]) -> tuple[np.ndarray, np.ndarray]:
    """(offsets, bytes) of a text array without nulls, read-only. A slice keeps its position in the shared bytes."""
    target = pa.string() if offset_type is np.int32 else pa.large_string()
    texts = texts if texts.type == target else texts.cast(target)
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, offset_type)[texts.offset : texts.offset + len(texts) + 1]
    return _frozen(places), _frozen(np.frombuffer(data if data is not None and data.size else b"\0", np.uint8))


def _frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view: numba compiles again for writable arrays."""
    view = array[:]
    view.flags.writeable = False
    return view
