"""Scans JSON objects in bulk for the values of named members, by a compiled kernel."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.reader.avro.compiled import frozen
from penstock.reader.kernels import json_scan as scan

_REMEMBERED: Final = 1024

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Texts in one buffer."""

    data: npt.NDArray[np.uint8]
    """The bytes."""
    begin: Places
    """Where each text begins."""
    end: Places
    """Where each text ends."""


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The values of one name. A decoder that cannot decode a value marks its row in `slow`."""

    data: npt.NDArray[np.uint8]
    """The bytes."""
    at: Places
    """[kind of `json_scan` / first byte / byte after the last, row]; first is -1 if the object has no such name."""
    slow: npt.NDArray[np.uint8]
    """The rows to decode one by one (not 0)."""

    @property
    def rows(self) -> int:
        """The number of objects."""
        return len(self.slow)

    def cut(self, row: int) -> bytes:
        """The bytes of a value."""
        return bytes(self.data[self.at[1, row] : self.at[2, row]])


@dataclass(frozen=True, slots=True, eq=False)
class Scanned:
    """Scanned objects."""

    members: Sequence[Tokens]
    """The tokens by name, in the order of the names."""
    slow: npt.NDArray[np.uint8]
    """The objects to decode one by one (not 0)."""
    unknown_members: Places
    """The number of members of each object with an unknown name."""


def spans_of(texts: Sequence[bytes | None]) -> Spans:
    """The texts one after the other; None is an empty text. They have fewer than 2 GiB together."""
    joined = pa.array(texts, pa.binary())
    _, offsets, content = joined.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(texts) + 1).astype(np.int64)
    return Spans(np.frombuffer(content or b"\0", np.uint8), bounds[:-1], bounds[1:])


class JsonObjects:
    """Finds members with these names. For one thread at a time."""

    def __init__(self, names: Sequence[str], known: Collection[str] = ()) -> None:
        """known: further names that are not counted as unknown."""
        self._count = len(names)
        encoded = [name.encode() for name in (*names, *sorted(set(known) - set(names)))]
        self._names = frozen(np.frombuffer(b"".join(encoded) + b"\0", np.uint8))
        self._bounds = frozen(np.concatenate([[0], np.cumsum([len(name) for name in encoded])]).astype(np.int64))
        self._table = frozen(_table(encoded))
        self._order = np.full(_REMEMBERED, -1, np.int64)

    def scanned(self, spans: Spans) -> Scanned:
        """The objects in these spans."""
        count = len(spans.begin)
        data = frozen(spans.data)
        tokens = np.full((self._count, 3, count), -1, np.int64)
        unknown_members = np.zeros(count, np.int64)
        begin, end = frozen(spans.begin), frozen(spans.end)
        scan.scan_records(
            data, begin, end, self._names, self._bounds, self._table, self._order, tokens, unknown_members
        )
        slow = (unknown_members < 0).astype(np.uint8)
        return Scanned([Tokens(data, at, slow) for at in tokens], slow, unknown_members)


def _table(names: Sequence[bytes]) -> Places:
    """The numbers of the names by `json_scan._find`'s hash, with half of the table free."""
    size = 8
    while size < 2 * len(names) + 1:
        size *= 2
    table = np.full(size, -1, np.int64)
    for number, name in enumerate(names):
        key = scan.HASH_SEED
        for byte in name:
            key = ((key ^ byte) * scan.HASH_FACTOR) & scan.HASH_MASK
        at = key & (size - 1)
        while table[at] >= 0:
            at = (at + 1) & (size - 1)
        table[at] = number
    return table
