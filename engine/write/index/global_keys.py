"""Searches the keys of a write in all partitions, and decides where its rows are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.write.current_table import CurrentTable
from penstock.reader.merge.fold import RecordKind
from penstock.reader.merge.keys import number_keys
from penstock.reader.merge.ordering import OrderingTuples
from penstock.writer.index.global_keys import StoredRows, in_own_partition, placed_rows
from penstock.writer.index.locations import KeySearch, Location, located_at
from penstock.writer.index.slices import LatestSlice
from penstock.writer.rows.keyed_rows import KeyedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalSearch:
    """A search in all partitions."""

    current: CurrentTable
    """The table."""
    search: KeySearch
    """Finds keys in base files."""
    ordering: tuple[str, ...]
    """The columns by which rows of a key are ordered."""
    moves_keys: bool
    """Whether a row of another partition moves its key there."""

    def located(self, rows: KeyedRows) -> tuple[KeyedRows, Sequence[Location]]:
        """The rows as they are written (`placed_rows`), and where their keys are. `rows` has one row of each key.

        A base file with logs may have rows that the logs delete: the merged rows of each such slice that has one of the
        keys are read, with key and ordering columns only, and those of slices whose rows may win over a row that moves.
        """
        slices = self.current.slices.all()
        row, place, repeated = self.search.pairs(rows.keys.chunks, slices)
        row, place = row[place >= 0], place[place >= 0]
        stored = StoredRows(row, place, np.zeros(len(row), bool))
        compared = np.zeros(len(row), bool)
        if self.moves_keys and rows.ordering:
            compared = (rows.kinds[row] == RecordKind.DATA) & ~in_own_partition(rows, stored, slices)
        stored = self._live(rows, stored, slices, compared)
        placed = placed_rows(rows, stored, slices, moves_keys=self.moves_keys)
        within = np.concatenate([np.arange(len(some)) for some in self.current.slices.by_partition.values()] or [row])
        places = np.full(len(placed.rows), -1, np.int64)
        known = placed.slices >= 0
        places[known] = within[placed.slices[known]]
        copies = {slices[at].group for at in repeated}
        return placed.rows, list(located_at(placed.rows, self.current.slices, places, copies))

    def _live(
        self, rows: KeyedRows, stored: StoredRows, slices: Sequence[LatestSlice], compared: np.ndarray
    ) -> StoredRows:
        """The stored rows that a snapshot returns. `wins` of those to be `compared` says which win over the written
        row: their ordering value is higher."""
        live, wins = np.ones(len(stored.rows), bool), stored.wins.copy()
        ordering = OrderingTuples(rows.ordering_arrays()) if compared.any() else None
        for place in np.unique(stored.slices):
            mine = np.flatnonzero(stored.slices == place)
            if slices[place].logs or compared[mine].any():
                live[mine], wins[mine] = self._merged(rows, slices[place], stored.rows[mine], ordering)
        return StoredRows(stored.rows, stored.slices, wins & compared).only(live)

    def _merged(
        self, rows: KeyedRows, item: LatestSlice, mine: np.ndarray, ordering: OrderingTuples | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(which of these rows have a stored row in the slice, which of them lose against it)."""
        table, numbers = number_keys(rows.keys_at(mine).chunks)
        live, loses = np.zeros(table.count, bool), np.zeros(table.count, bool)
        mine_ordering = None if ordering is None else ordering.take(mine)
        read = 0
        for batch in self.current.live_rows(item, self.ordering if ordering is not None else ()):
            matches = table.match(batch.column(0), read)
            read += batch.num_rows
            live[matches.numbers] = True
            if mine_ordering is not None and len(matches.rows):
                values = [
                    column.take(pa.array(matches.rows)).cast(own.type)
                    for column, own in zip(batch.columns[1:], rows.ordering, strict=True)
                ]
                loses[matches.numbers] |= mine_ordering.exceeded_by(values, matches.numbers)
        return live[numbers], loses[numbers]
