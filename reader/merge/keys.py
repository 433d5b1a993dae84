"""Record keys of a log, numbered; and which keys of a base file are among them. Two roads with equal answers.

Belongs here: key bytes to key numbers. Not here: what the records of a key say, or which of them wins.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from penstock.proto.errors import UnsupportedFeature

MAX_RECORDS: Final = 2**31 - 1
_ALL_BITS: Final = 64
_SEEDS: Final = np.frombuffer(os.urandom(24), np.uint64) | np.array([0, 1, 1], np.uint64)
"""Drawn once a process, so that nobody can craft keys that all hash alike. The last two multiply and must be odd."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Base rows whose key the log knows, ascending, and the number of each one's key. int64 both."""

    rows: np.ndarray
    numbers: np.ndarray

    def between(self, begin: int, end: int) -> Matches:
        """The matches of rows begin..end-1, counted from `begin`."""
        first, last = np.searchsorted(self.rows, (begin, end))
        return Matches(self.rows[first:last] - begin, self.numbers[first:last])


class KeyTable(Protocol):
    """The distinct keys of some records, numbered 0..count-1 by first arrival."""

    @property
    def count(self) -> int:
        """How many distinct keys there are."""
        ...

    @property
    def wants_row_groups(self) -> bool:
        """Whether `match` costs much for each call, so that it should be given a row group's keys at once."""
        ...

    def match(self, keys: pa.Array) -> Matches:
        """Which of these keys (text, none null) are known. Equal means equal bytes."""
        ...


def number_keys(
    keys: Sequence[pa.Array], *, compiled: bool = True, hash_bits: int = _ALL_BITS
) -> tuple[KeyTable, np.ndarray]:
    """The table of these keys (text, none null, in arrival order), and the int64 number of each.

    `compiled` takes the kernel, else Arrow's own functions: slower, the same numbers. `hash_bits` is for tests:
    fewer bits force collisions. UnsupportedFeature beyond 2^31-1 records.
    """
    together = pa.chunked_array(list(keys), pa.string()).cast(pa.large_string()).combine_chunks()
    if len(together) > MAX_RECORDS:
        raise UnsupportedFeature(
            f"log of {len(together)} records in one file slice: at most {MAX_RECORDS} are merged; compact the table"
        )
    if compiled:
        return _number_compiled(together, np.uint64(2**hash_bits - 1))
    encoded = together.dictionary_encode()
    return ArrowKeys(encoded.dictionary), encoded.indices.to_numpy().astype(np.int64)


def _number_compiled(keys: pa.LargeStringArray, keep: np.uint64) -> tuple[KeyTable, np.ndarray]:
    from penstock.reader.kernels import winners

    total = len(keys)
    offsets, data = _layout(keys, np.int64)
    slots = np.full(max(16, 1 << (2 * total - 1).bit_length() if total else 0), winners.EMPTY, np.int64)
    bloom = np.zeros(max(2, 1 << (16 * total).bit_length() >> 6), np.uint64)
    first = np.empty(total, np.int64)
    numbers = np.empty(total, np.int64)
    count = winners.number_keys(offsets, data, _SEEDS, keep, slots, bloom, first, numbers)
    distinct = keys if count == total else keys.take(pa.array(first[:count]))
    return CompiledKeys(distinct, keep, slots, bloom), numbers


class CompiledKeys:
    """`KeyTable` by the compiled kernel: 8 to 16 bytes and 16 to 32 bits a key beside the key itself."""

    wants_row_groups = False

    def __init__(self, distinct: pa.LargeStringArray, keep: np.uint64, slots: np.ndarray, bloom: np.ndarray) -> None:
        from penstock.reader.kernels import winners

        self.count = len(distinct)
        self._find = winners.find_keys
        self._offsets, self._data = _layout(distinct, np.int64)
        self._keep, self._slots, self._bloom = keep, slots, bloom
        self._scratch = (np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))

    def match(self, keys: pa.Array) -> Matches:
        if len(self._scratch[0]) <= len(keys):
            places = len(keys) + 1
            self._scratch = (np.empty(places, np.uint64), np.empty(places, np.int64), np.empty(places, np.int64))
        codes, rows, numbers = self._scratch
        offsets, data = _layout(keys, np.int32)
        known = self._offsets, self._data
        found = self._find(offsets, data, _SEEDS, self._keep, self._slots, self._bloom, *known, codes, rows, numbers)
        return Matches(rows[:found].copy(), numbers[:found].copy())


class ArrowKeys:
    """`KeyTable` by Arrow's `index_in`, which builds its table anew at every call."""

    wants_row_groups = True

    def __init__(self, distinct: pa.LargeStringArray) -> None:
        self.count = len(distinct)
        self._distinct = distinct

    def match(self, keys: pa.Array) -> Matches:
        places = pc.index_in(keys.cast(pa.large_string()), value_set=self._distinct)
        rows = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
        return Matches(rows, places.take(pa.array(rows)).to_numpy().astype(np.int64))


def _layout(texts: pa.Array, offset_type: type[np.int32] | type[np.int64]) -> tuple[np.ndarray, np.ndarray]:
    """(offsets, bytes) of a text array without nulls, read-only; a slice keeps its place in the shared bytes."""
    wanted = pa.string() if offset_type is np.int32 else pa.large_string()
    texts = texts if texts.type == wanted else texts.cast(wanted)
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, offset_type)[texts.offset : texts.offset + len(texts) + 1]
    return _frozen(places), _frozen(np.frombuffer(data if data is not None and data.size else b"\0", np.uint8))


def _frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view: numba compiles anew for arrays that are not."""
    view = array[:]
    view.flags.writeable = False
    return view
