"""Where keys are: in the file groups whose base files hold them. For the simple and the bloom index.

Source: Hudi `HoodieSimpleIndex`, `HoodieBloomIndex`. As there, only base files are searched: inserts of these indexes
are never in logs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.proto.errors import TableError
from penstock.reader.merge.keys import number_keys
from penstock.table.files.slices import GroupId
from penstock.table.parquet.key_filter import Footer
from penstock.writer.index.bloom import SearchedKeys
from penstock.writer.index.slices import LatestSlice, TableSlices
from penstock.writer.rows.keyed_rows import KeyedRows

FooterTest = Callable[[Footer], bool]
"""Whether a file with this footer may have one of the searched keys."""

KeysOf = Callable[[LatestSlice, FooterTest | None], Iterable[pa.Array]]
"""The record keys of a base file, in batches in file order; none if the test says that it has none of the keys."""


@dataclass(frozen=True, slots=True, eq=False)
class Location:
    """Where keys of one partition are."""

    partition: str
    """Partition path."""
    rows: np.ndarray
    """The rows of the partition, ascending. A row stands here once for each slice that has its key: an insert may have
    repeated a key, and then all its copies are updated."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySearch:
    """How stored keys are searched."""

    keys_of: KeysOf
    """Reads base files."""
    by_footers: bool
    """Whether footers exclude files (bloom index)."""
    where: str
    """The beginning of error texts."""

    def pairs(
        self, keys: Sequence[pa.Array], slices: Sequence[LatestSlice]
    ) -> tuple[np.ndarray, np.ndarray, frozenset[int]]:
        """(rows, places, repeated): each searched key with each slice that has it, int64; a key that none has, once
        with place -1. `rows` are the places of the keys, ascending. `repeated` are the places of the slices whose base
        files have one of the keys in several rows.

        Reads the footer of each base file once, and its key column unless the footer excludes the keys. TableError for
        a file group without a base file: its keys cannot be searched, as in Hudi, whose indexes repeat them.
        """
        table, numbers = number_keys(keys)
        test = SearchedKeys(keys).may_be_in if self.by_footers else None
        known: list[np.ndarray] = []
        repeated: list[int] = []
        for place, item in enumerate(slices):
            if item.base is None:
                raise TableError(
                    f"{self.where}, partition {item.partition!r}: file group {item.file_id} has only logs, which this "
                    "index does not search, so that an upsert could repeat rows: give the index that the table's other "
                    "writers use, or compact the table"
                )
            row, hits = 0, [np.zeros(0, np.int64)]
            for stored in self.keys_of(item, test):
                hits.append(table.match(stored, row).numbers)
                row += len(stored)
            stored_keys, copies = np.unique(np.concatenate(hits), return_counts=True)
            known.append(stored_keys)
            if (copies > (2 if item.logs_may_add_keys else 1)).any():  # then each live key is there once more
                repeated.append(place)
        return *_joined(numbers, table.count, known), frozenset(repeated)


def locate(rows: KeyedRows, slices: TableSlices, search: KeySearch) -> Iterator[Location]:
    """The locations of the rows within their partitions, by partition in the order of paths. Errors of
    `KeySearch.pairs`."""
    for one in unlocated(rows, slices):
        found, places, repeated = search.pairs(rows.keys_at(one.rows).chunks, one.slices)
        yield replace(one, rows=one.rows[found], places=places, repeated=repeated)


def unlocated(rows: KeyedRows, slices: TableSlices) -> Iterator[Location]:
    """The rows by partition, in the order of paths, as if all their keys were new."""
    yield from located_at(rows, slices, np.full(len(rows), -1, np.int64))


def located_at(
    rows: KeyedRows, slices: TableSlices, places: np.ndarray, repeated: Collection[GroupId] = ()
) -> Iterator[Location]:
    """The rows by partition, in the order of paths, at known places in the slices of their partitions; `repeated` are
    the groups whose base files have one of the keys in several rows."""
    order = np.argsort(rows.partitions.numbers, kind="stable")
    bounds = np.searchsorted(rows.partitions.numbers[order], np.arange(len(rows.partitions.paths) + 1))
    for number, partition in enumerate(rows.partitions.paths):
        mine = order[bounds[number] : bounds[number + 1]]
        if len(mine):
            of_partition = slices.of(partition)
            copies = frozenset(place for place, item in enumerate(of_partition) if item.group in repeated)
            yield Location(partition, mine, of_partition, places[mine], copies)


def _joined(numbers: np.ndarray, count: int, known: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """`KeySearch.pairs`. numbers: the key of each row. known: the keys of each slice."""
    keys = np.concatenate([np.zeros(0, np.int64), *known])
    order = np.argsort(keys, kind="stable")
    places = np.repeat(np.arange(len(known)), [len(some) for some in known])[order]
    counts = np.bincount(keys, minlength=count)
    starts = np.cumsum(counts) - counts
    copies = np.maximum(counts[numbers], 1)
    rows = np.repeat(np.arange(len(numbers)), copies)
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
    found = np.full(len(rows), -1, np.int64)
    has = counts[numbers[rows]] > 0
    found[has] = places[(starts[numbers[rows]] + nth)[has]]
    return rows, found
