"""Reads the rows of some keys in one or two states of a group over one base file.

The base file is read once for both states, or not at all if an earlier step of the split selected these rows
(`base_rows`). `differing_rows` leaves out base rows that are in both states, and never copies them. `compared` decides
which of the remaining rows are equal, and pairs old with new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa

from penstock.proto.errors import InvariantViolation
from penstock.proto.model.files import SliceFiles
from penstock.proto.model.splits import CustomMerge, Origin, Scan, WholeRecords
from penstock.reader.cdc.base_rows import BaseRows, Selection
from penstock.reader.cdc.states import States, rows_of_keys
from penstock.reader.log.scanner import read_log
from penstock.reader.merge.keys import Matches, PositionTable, RecordTable, check_positions
from penstock.reader.merge.stream import Merge, MergeSpec
from penstock.reader.split.context import SplitContext
from penstock.reader.split.emit import BatchFinisher
from penstock.reader.split.partition_columns import PartitionConstants
from penstock.reader.values.record_keys import RECORD_KEY

_LOOKED_UP: Final = 1 << 16
"""How many keys are looked up in a log at once."""


@dataclass(frozen=True, slots=True)
class StateRows:
    """Rows of one state, in its order."""

    rows: pa.Table | None
    """The rows; None if there are none."""
    numbers: np.ndarray
    """The number of each row's key among the chosen keys."""


def differing_rows(
    states: States, before: SliceFiles, after: SliceFiles, keys: RecordTable, columns: Sequence[str]
) -> tuple[StateRows, StateRows] | None:
    """(rows of the state before, rows of the state after) whose key is in `keys`, without base rows that are in both.

    None if records fill each other's gaps, a function merges them, or rows do not store their keys: then rows of one
    version may differ. Memory grows with these rows and the logs, not with the base file. Errors as for reading a
    slice.
    """
    by_function = isinstance(states.scan.merge, CustomMerge)
    if states.scan.key_fields or by_function or not isinstance(states.scan.fill, WholeRecords):
        return None
    old = _Side(states.slice_context(before, states.before_scan(columns)), keys)
    new = _Side(states.slice_context(after, states.after_scan(columns)), keys)
    if old.fills_gaps or new.fills_gaps:
        return None
    _read_base(states, (old, new), keys, only_differing=True)
    return old.result(), new.result()


def state_rows(
    states: States, reads: Sequence[tuple[SliceFiles, Scan]], keys: RecordTable, *, again: bool = False
) -> list[StateRows]:
    """For each of these states, which have one base file, all its rows whose key is in `keys`.

    `again`: the step will look up other rows of this base file. Memory and errors as for `differing_rows`.
    """
    if states.scan.key_fields:
        return [StateRows(*rows_of_keys(states.rows(files, scan), keys)[:2]) for files, scan in reads]
    sides = [_Side(states.slice_context(files, scan), keys) for files, scan in reads]
    _read_base(states, sides, keys, only_differing=False, again=again)
    return [side.result() for side in sides]


class _Side:
    """One state while the base file is read."""

    def __init__(self, context: SplitContext, keys: RecordTable) -> None:
        self.context = context
        self.schema, size = context.schema, context.batch_size
        constants = PartitionConstants(context.scan, context.split, self.schema.table, self.schema.carried)
        self._finisher = BatchFinisher(context.scan, context.split, self.schema, constants, _no_origin)
        self._keys = keys
        self._number_of: np.ndarray | None = None  # before `read_log`, which calls `_touched_in`
        winners = read_log(context, needed=self._touched_in) if context.split.logs else None
        self.fills_gaps = winners is not None and winners.filler is not None
        self.table = None if winners is None else winners.table
        spec = MergeSpec(
            columns=self.schema.stored,
            key=RECORD_KEY,
            ordering=self.schema.ordering,
            batch_rows=size.rows,
            batch_bytes=size.size_bytes,
        )
        self._merge = None if winners is None else Merge(winners, spec)
        self._rows: list[pa.RecordBatch] = []
        self._numbers: list[np.ndarray] = []

    def _touched_in(self, table: RecordTable) -> np.ndarray | None:
        """Which numbers of the log have one of the keys; None for all. Keeps the log's number of each key, unless keys
        do not decide which rows a record matches."""
        if table is self._keys:
            return None
        touched = np.zeros(table.count, bool)
        if isinstance(table, PositionTable):
            touched[_looked_up(table.keys, self._keys).rows] = True
            return touched
        found = _looked_up(self._keys.keys, table)
        self._number_of = np.full(self._keys.count, -1, np.int64)
        self._number_of[found.rows] = found.numbers
        touched[found.numbers] = True
        return touched

    def staying(self, base: BaseRows, touched: Matches) -> np.ndarray:
        """Which of the touched rows of a base batch stay after the log is merged."""
        if self._merge is None:
            return np.ones(len(touched.rows), bool)
        staying = np.ones(base.batch.num_rows, bool)
        staying[self._merge.meet(self._matches(base, touched), base.batch)] = False
        return np.asarray(staying[touched.rows])

    def _matches(self, base: BaseRows, touched: Matches) -> Matches:
        """The log's records that touched rows match."""
        if isinstance(self.table, PositionTable):
            return self.table.match_among(touched.rows, base.batch.column(RECORD_KEY), base.numbers)
        if self._number_of is None:
            return touched
        numbers = self._number_of[touched.numbers]
        known = numbers >= 0
        return Matches(touched.rows[known], numbers[known])

    def add_base_rows(self, batch: pa.RecordBatch, touched: Matches, chosen: np.ndarray) -> None:
        """Adds the chosen rows of a base batch's touched rows."""
        if chosen.any():
            self._add(batch.select(self.schema.stored).take(pa.array(touched.rows[chosen])), touched.numbers[chosen])

    def end_row_group(self) -> None:
        """Adds the log rows that replace rows of this row group."""
        if self._merge is not None:
            for batch in self._merge.arrivals():
                self._add_log_rows(batch)

    def result(self) -> StateRows:
        """All rows added, and the log rows that matched no base row."""
        if self._merge is not None:
            for batch in self._merge.inserts():
                self._add_log_rows(batch)
        if not self._rows:
            return StateRows(None, np.empty(0, np.int64))
        return StateRows(pa.Table.from_batches(self._rows), np.concatenate(self._numbers))

    def _add_log_rows(self, batch: pa.RecordBatch) -> None:
        touched = self._keys.match(batch.column(RECORD_KEY), 0)
        if len(touched.rows):
            touched_rows = batch if len(touched.rows) == batch.num_rows else batch.take(pa.array(touched.rows))
            self._add(touched_rows, touched.numbers)

    def _add(self, rows: pa.RecordBatch, numbers: np.ndarray) -> None:
        emitted = self._finisher.emit(rows, 0, 0)
        if emitted is None or emitted[0].batch.num_rows != len(numbers):
            raise InvariantViolation(f"a state of all rows returned other than the {len(numbers)} rows selected")
        self._rows.append(emitted[0].batch)
        self._numbers.append(numbers)


def _looked_up(keys: pa.LargeStringArray, table: RecordTable) -> Matches:
    """Which of the keys have a number in `table`, a table of keys."""
    parts = [np.arange(first, min(first + _LOOKED_UP, len(keys))) for first in range(0, len(keys), _LOOKED_UP)]
    found = [table.match(keys.take(pa.array(part)), 0) for part in parts]  # a slice may lie beyond 2 GiB
    rows = [matches.rows + place * _LOOKED_UP for place, matches in enumerate(found)]
    none = np.empty(0, np.int64)
    return Matches(np.concatenate([none, *rows]), np.concatenate([none, *(matches.numbers for matches in found)]))


@dataclass(frozen=True, slots=True)
class _Sides:
    """Passes the rows of a base file to states (`base_rows.BaseVisitor`)."""

    sides: Sequence[_Side]
    keys: RecordTable
    only_differing: bool
    where: str

    def begin(self, num_rows: int) -> None:
        for side in self.sides:
            if side.table is not None:
                check_positions(side.table, num_rows, self.where)

    def meet(self, rows: BaseRows) -> None:
        touched = self.keys.match(rows.batch.column(RECORD_KEY), 0)
        staying = [side.staying(rows, touched) for side in self.sides]
        in_all = np.logical_and.reduce(staying) if self.only_differing else np.zeros(len(touched.rows), bool)
        for side, stay in zip(self.sides, staying, strict=True):
            side.add_base_rows(rows.batch, touched, stay & ~in_all)

    def end_row_group(self) -> None:
        for side in self.sides:
            side.end_row_group()

    def end(self, selection: Selection | None) -> None:
        if selection is None:
            return
        for side in self.sides:
            if isinstance(side.table, PositionTable):
                side.table.check_selection(selection.keys, selection.numbers)


def _read_base(
    states: States, sides: Sequence[_Side], keys: RecordTable, *, only_differing: bool, again: bool = False
) -> None:
    context = sides[-1].context
    may_be_encoded = () if any(side.fills_gaps for side in sides) else context.schema.pass_through
    visitor = _Sides(sides, keys, only_differing, states.where)

    def keys_of(number: int) -> Sequence[pa.Array]:
        ahead = states.ahead(number)
        return () if ahead is None else states.keys_of(ahead)

    states.bases.read(context, states.number, keys_of, visitor, may_be_encoded=may_be_encoded, again=again)


def _no_origin(origin: Origin) -> NoReturn:
    raise InvariantViolation(f"a state of all rows requested the origin of {origin.service}")
