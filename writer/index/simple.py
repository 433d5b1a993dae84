"""The simple index: the file groups of a key are those whose base files hold it.

Source: Hudi `HoodieSimpleIndex`. As there, only base files are searched: inserts of this index are never in logs. An
insert may have repeated a key; then all its copies are updated and deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.proto.errors import TableError
from penstock.reader.merge.keys import number_keys
from penstock.writer.index.slices import LatestSlice, TableSlices
from penstock.writer.rows.keyed_rows import KeyedRows

KeysOf = Callable[[LatestSlice], Iterable[pa.Array]]
"""The record keys of a base file, in batches in file order."""


@dataclass(frozen=True, slots=True, eq=False)
class Location:
    """Where keys of one partition are."""

    partition: str
    """Partition path."""
    rows: np.ndarray
    """The rows of the partition, ascending. A row stands here once for each slice that has its key."""
    slices: Sequence[LatestSlice]
    """The slices of the partition."""
    places: np.ndarray
    """int64 parallel to `rows`: the place of a slice that has the key in `slices`; -1 for a new key."""
    repeated: frozenset[int] = frozenset()
    """The places of the slices whose base files have one of the keys in several rows."""

    def of_slice(self, place: int) -> np.ndarray:
        """The rows of one slice."""
        return np.asarray(self.rows[self.places == place])

    @property
    def new(self) -> np.ndarray:
        """The rows of new keys."""
        return np.asarray(self.rows[self.places < 0])


def locate(rows: KeyedRows, slices: TableSlices, keys_of: KeysOf, where: str) -> Iterator[Location]:
    """The location of each row, by partition in the order of paths.

    Reads the key column of each base file of the partitions of the rows. TableError, beginning with `where`, for a file
    group without a base file: its keys cannot be searched, as in Hudi's simple index, which would repeat them.
    """
    for one in unlocated(rows, slices):
        found, places, repeated = _pairs(rows.keys_at(one.rows).chunks, one.slices, keys_of, where)
        yield replace(one, rows=one.rows[found], places=places, repeated=repeated)


def unlocated(rows: KeyedRows, slices: TableSlices) -> Iterator[Location]:
    """The rows by partition, in the order of paths, as if all their keys were new."""
    order = np.argsort(rows.partitions.numbers, kind="stable")
    bounds = np.searchsorted(rows.partitions.numbers[order], np.arange(len(rows.partitions.paths) + 1))
    for number, partition in enumerate(rows.partitions.paths):
        mine = order[bounds[number] : bounds[number + 1]]
        if len(mine):
            yield Location(partition, mine, slices.of(partition), np.full(len(mine), -1, np.int64))


def _pairs(
    keys: Sequence[pa.Array], slices: Sequence[LatestSlice], keys_of: KeysOf, where: str
) -> tuple[np.ndarray, np.ndarray, frozenset[int]]:
    """(number of a key, place of a slice that has it): each pair, by number; of a new key -1. And the slices that have
    one of the keys in several rows."""
    table, numbers = number_keys(keys)
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    is_new = np.ones(len(numbers), bool)
    repeated: list[int] = []
    for place, item in enumerate(slices):
        if item.base is None:
            raise TableError(
                f"{where}, partition {item.partition!r}: file group {item.file_id} has only logs, which the simple "
                "index does not search, so that an upsert could repeat rows: give the index that the table's other "
                "writers use, or compact the table"
            )
        row, copies = 0, np.zeros(table.count, np.int64)
        for stored in keys_of(item):
            np.add.at(copies, table.match(stored, row).numbers, 1)
            row += len(stored)
        mine = np.flatnonzero(copies[numbers])
        is_new[mine] = False
        pairs.append((mine, np.full(len(mine), place, np.int64)))
        if (copies > 1).any():
            repeated.append(place)
    new = np.flatnonzero(is_new)
    found, places = (np.concatenate(parts) for parts in zip(*pairs, (new, np.full(len(new), -1)), strict=True))
    order = np.argsort(found, kind="stable")
    return found[order], places[order], frozenset(repeated)
