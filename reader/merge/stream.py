"""Streams the base file past the log's winners: base rows that stay, and winners in the place of those that do not.

The order is determined by the split alone, whatever the batch size: for each row group the base rows that stay, in file
order, then the winners that matched a key in that row group, in the log's arrival order; after the last row group the
inserts, in arrival order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from penstock.proto.model.reports import MergeOutcomes
from penstock.proto.value_classes import dataclass
from penstock.reader.merge.fold import LogFold, RecordKind
from penstock.reader.merge.keys import Matches, RecordTable
from penstock.reader.merge.log_rows import LogRows
from penstock.reader.merge.ordering import OrderingTuples
from penstock.reader.merge.ordering_columns import OrderingColumns
from penstock.reader.values.dictionary_text import is_one_value
from penstock.table.arrow_arrays import arrow_array
from penstock.table.arrow_compute import pc

_NONE: Final = np.empty(0, np.int64)


class RowGroup(Protocol):
    """One row group of a base file.

    If its rows are not returned, its batches have only the key and ordering columns: its rows still win over log rows,
    and count in ordinals.
    """

    @property
    def num_rows(self) -> int: ...

    @property
    def emits_rows(self) -> bool: ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows in file order, with key, ordering and output columns."""
        ...

    def keys(self) -> pa.Array | None:
        """The record keys of all its rows, in file order; None if they take too much memory to hold at once."""
        ...


class PairMerge(Protocol):
    """Makes one row of a base row and the log row that it matches."""

    @property
    def from_newer(self) -> bool:
        """Whether a log row changes a base row that stays."""
        ...

    def pairs(self, base: pa.RecordBatch, log: pa.RecordBatch, base_wins: np.ndarray) -> pa.RecordBatch:
        """The rows of pairs i of base and log, in order; pairs that are deleted have none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWinners:
    """The winning record of each number of a log's records. All arrays are indexed by number."""

    table: RecordTable
    """Matches base rows with numbers."""
    kinds: np.ndarray
    """uint8 of `RecordKind`."""
    ordering: OrderingTuples | None
    """The ordering values; None if the newer record always wins."""
    row_of: np.ndarray
    """int64 row in `rows`, ascending with arrival; -1 for deletes that no base row is merged with."""
    rows: LogRows
    """The rows of the others."""
    folded: LogFold
    """The fold's counts."""
    filler: PairMerge | None = None
    """How a row and the base row that it matches become one; None if a row replaces the other whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """The roles of columns in a base batch, and the size of batches to produce."""

    columns: tuple[str, ...]
    """The columns of a merged row."""
    key: str
    """The record key."""
    ordering: OrderingColumns
    """The ordering columns."""
    batch_rows: int
    """The most rows of a batch."""
    batch_bytes: int
    """About the most bytes of a batch."""
    each_copy: bool = False
    """Whether a log record meets each base row of its key. Readers of Hudi let it meet the first one only."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Base rows that stay but are not returned."""

    num_rows: int
    """How many."""


@dataclass(frozen=True, slots=True)
class _Met:
    """Log rows that replace base rows; with a filler also those base rows, and which of them win."""

    log_rows: np.ndarray
    base: pa.RecordBatch | None = None
    base_wins: np.ndarray | None = None


class Merge:
    """The final merge of one slice.

    Either `run` it, or, if the caller streams the base itself, call `meet`, `arrivals` and `inserts`. `outcomes` is for
    the end.
    """

    def __init__(self, winners: LogWinners, spec: MergeSpec) -> None:
        self._winners = winners
        self._spec = spec
        self._met = np.zeros(winners.table.count, bool)
        self._won = np.zeros(winners.table.count, bool)
        self._place = np.zeros(winners.table.count, np.int64)
        self._placed: list[_Met] = []
        self.inserted = 0
        """Rows that `inserts` returned."""

    def run(self, row_groups: Iterable[RowGroup]) -> Iterator[pa.RecordBatch | Passed]:
        """Merged rows with the columns `spec.columns`, in the order that the module states. A batch without a match is
        passed through unchanged."""
        row = 0
        for group in row_groups:
            yield from self._row_group(group, row)
            row += group.num_rows
        yield from self.inserts()

    def outcomes(self) -> MergeOutcomes:
        """The outcome of each log record, after `run` has ended: the four counts add up to the number of records."""
        deletes = self._winners.kinds != RecordKind.DATA
        return MergeOutcomes(
            won=int(np.count_nonzero(self._won & ~deletes)),
            lost_event_time=self._winners.folded.lost + int(np.count_nonzero(~self._won)),
            duplicate=self._winners.folded.duplicates,
            deleted=int(np.count_nonzero(self._won & deletes)),
        )

    def meet(self, matches: Matches, batch: pa.RecordBatch) -> np.ndarray:
        """The rows of a base batch that are replaced or deleted (offsets, ascending), where log records match it at
        `matches`.

        Their replacements are returned by the next `arrivals`. Each base row is passed once, in file order.
        """
        if not len(matches.rows):
            return _NONE
        gone, met = self._meet(matches, batch)
        self._placed.append(met)
        return gone

    def arrivals(self) -> Iterator[pa.RecordBatch]:
        """The replacements of rows matched since the last call; to be called after each row group."""
        placed, self._placed = self._placed, []
        if placed and self._winners.filler is None:
            yield from self._put(np.concatenate([met.log_rows for met in placed]))
        elif placed and self._winners.filler is not None:
            yield from self._put_filled(placed, self._winners.filler)

    def inserts(self) -> Iterator[pa.RecordBatch]:
        """The rows of numbers that no base row matched, after the whole base has been passed."""
        rows = self._winners.row_of[~self._met & (self._winners.kinds == RecordKind.DATA)]
        self._won |= ~self._met
        self.inserted = len(rows)
        yield from self._put(rows)

    def _row_group(self, group: RowGroup, first_row: int) -> Iterator[pa.RecordBatch | Passed]:
        table, spec = self._winners.table, self._spec
        if not group.emits_rows and not table.may_meet(first_row, group.num_rows):
            yield Passed(group.num_rows)
            return
        keys = group.keys() if table.prefers_row_groups else None
        known = table.match(keys, first_row) if keys is not None else None
        row = first_row
        for batch in group.batches():
            if known is None:
                matches = table.match(batch.column(spec.key), row)
            else:
                matches = known.between(row - first_row, row - first_row + batch.num_rows)
            row += batch.num_rows
            gone = self.meet(matches, batch)
            if len(gone) == batch.num_rows:
                continue
            yield _without(batch.select(spec.columns), gone) if group.emits_rows else Passed(batch.num_rows - len(gone))
        yield from self.arrivals()

    def _meet(self, matches: Matches, batch: pa.RecordBatch) -> tuple[np.ndarray, _Met]:
        """(base rows that go, log rows that replace them) where keys of the log match rows of a base batch."""
        winners = self._winners
        rows, numbers = (matches.rows, matches.numbers) if self._spec.each_copy else self._first_copies(matches)
        self._met[numbers] = True
        stays = np.zeros(len(rows), bool)
        if winners.ordering is not None and self._spec.ordering:
            base = self._spec.ordering.parts(pc.take(batch.select(self._spec.ordering.columns), arrow_array(rows)))
            stays = winners.ordering.exceeded_by(base, numbers) & (winners.kinds[numbers] != RecordKind.DEFAULT_DELETE)
        self._won[numbers[~stays]] = True
        put = winners.row_of[numbers]
        if winners.filler is None:
            return rows[~stays], _Met(put[~stays & (put >= 0)])
        comes = put >= 0
        if not winners.filler.from_newer:
            comes &= ~stays
        base = batch.select(self._spec.columns).take(arrow_array(rows[comes]))
        return rows[comes | ~stays], _Met(put[comes], base, stays[comes])

    def _first_copies(self, matches: Matches) -> tuple[np.ndarray, np.ndarray]:
        """Only numbers that no base row matched before, each once: Hudi removes a key from its map at the first match,
        and further copies of it in the base are returned as they are."""
        new = ~self._met[matches.numbers]
        rows, numbers = matches.rows[new], matches.numbers[new]
        places = np.arange(len(numbers))
        self._place[numbers[::-1]] = places[::-1]  # if several values are assigned to one place, the last one stays
        first = self._place[numbers] == places
        return rows[first], numbers[first]

    def _put(self, rows: np.ndarray) -> Iterator[pa.RecordBatch]:
        spec = self._spec
        for batch in self._winners.rows.take(np.sort(rows), spec.batch_rows, spec.batch_bytes):
            yield batch if self._winners.filler is None else batch.select(spec.columns)

    def _put_filled(self, placed: Sequence[_Met], filler: PairMerge) -> Iterator[pa.RecordBatch]:
        """The log rows of a row group, each with the base row it matched."""
        spec = self._spec
        log_rows = np.concatenate([met.log_rows for met in placed])
        order = np.argsort(log_rows, kind="stable")
        base = pa.concat_batches([met.base for met in placed if met.base is not None])
        base_wins = np.concatenate([met.base_wins for met in placed if met.base_wins is not None])[order]
        emitted = 0
        for batch in self._winners.rows.take(log_rows[order], spec.batch_rows, spec.batch_bytes):
            mine = slice(emitted, emitted + batch.num_rows)
            rows = filler.pairs(base.take(arrow_array(order[mine])), batch, base_wins[mine])
            if rows.num_rows:
                yield rows
            emitted += batch.num_rows


def _without(batch: pa.RecordBatch, gone: np.ndarray) -> pa.RecordBatch:
    if not len(gone):
        return batch
    stays = np.ones(batch.num_rows, bool)
    stays[gone] = False
    mask, left = arrow_array(stays), batch.num_rows - len(gone)
    columns = [column.slice(0, left) if is_one_value(column) else pc.filter(column, mask) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
