"""Compares two states of a group over one base file, right before and right after a commit that wrote logs.

The base file is decoded once for both states. Only rows of keys that the commit touched are compared, and base rows
that are in both states are never copied. `compared` decides which of the remaining rows are equal, and pairs old with
new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import pyarrow as pa

from penstock.proto.errors import InvariantViolation
from penstock.proto.model.files import SliceFiles
from penstock.proto.model.splits import Origin, WholeFile, WholeRecords
from penstock.reader.base.file import BaseFile
from penstock.reader.base.split_file import open_base
from penstock.reader.cdc.states import States
from penstock.reader.log.scanner import read_log
from penstock.reader.merge.keys import Matches, RecordTable, check_positions
from penstock.reader.merge.stream import Merge, MergeSpec
from penstock.reader.split.context import SplitContext
from penstock.reader.split.emit import BatchFinisher
from penstock.reader.split.partition_columns import PartitionConstants
from penstock.reader.values.record_keys import RECORD_KEY


@dataclass(frozen=True, slots=True)
class StateRows:
    """Rows of one state, in its order."""

    rows: pa.Table | None
    """The rows; None if there are none."""
    numbers: np.ndarray
    """The number of each row's key among the touched keys."""


def differing_rows(
    states: States, before: SliceFiles, after: SliceFiles, keys: RecordTable, columns: Sequence[str]
) -> tuple[StateRows, StateRows] | None:
    """(rows of the state before, rows of the state after) whose key is in `keys`, without base rows that are in both.

    None if the states must be read one by one: records fill each other's gaps, or rows do not store their keys. Memory
    grows with these rows and the logs, not with the base file. Errors as for reading a slice.
    """
    if states.scan.key_fields or not isinstance(states.scan.fill, WholeRecords):
        return None
    old = _Side(states.slice_context(before, states.before_scan(columns)), keys)
    new = _Side(states.slice_context(after, states.after_scan(columns)), keys)
    if old.fills_gaps or new.fills_gaps:
        return None
    if after.base is not None:
        _stream_base(states, after, (old, new), keys)
    return old.result(), new.result()


class _Side:
    """One state while the base file is streamed."""

    def __init__(self, context: SplitContext, keys: RecordTable) -> None:
        self.schema, size = context.schema, context.batch_size
        constants = PartitionConstants(context.scan, context.split, self.schema.table, self.schema.carried)
        self._finisher = BatchFinisher(context.scan, context.split, self.schema, constants, _no_origin)
        winners = read_log(context) if context.split.logs else None
        self.fills_gaps = winners is not None and winners.filler is not None
        self._table = None if winners is None else winners.table
        spec = MergeSpec(
            columns=self.schema.stored,
            key=RECORD_KEY,
            ordering=self.schema.ordering,
            batch_rows=size.rows,
            batch_bytes=size.size_bytes,
        )
        self._merge = None if winners is None else Merge(winners, spec)
        self._keys = keys
        self._rows: list[pa.RecordBatch] = []
        self._numbers: list[np.ndarray] = []

    def check_positions_of(self, base: BaseFile, where: str) -> None:
        """CorruptBlock for a record beyond the base."""
        if self._table is not None:
            check_positions(self._table, base.num_rows, where)

    def staying(self, batch: pa.RecordBatch, rows: np.ndarray, first_row: int) -> np.ndarray:
        """Which of these rows of a base batch stay after the log is merged."""
        if self._table is None or self._merge is None:
            return np.ones(len(rows), bool)
        matches = self._table.match_among(rows, batch.column(RECORD_KEY), first_row)
        staying = np.ones(batch.num_rows, bool)
        staying[self._merge.meet(matches, batch)] = False
        return np.asarray(staying[rows])

    def add_base_rows(self, batch: pa.RecordBatch, touched: Matches, chosen: np.ndarray) -> None:
        """Adds the chosen rows of a base batch's touched rows, which stay on this side alone."""
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


def _stream_base(states: States, after: SliceFiles, sides: tuple[_Side, _Side], keys: RecordTable) -> None:
    schema = sides[0].schema
    context = replace(states.context, split=states.slice_split(after), schema=schema)
    base = open_base(context, schema.base_columns, key=RECORD_KEY, may_be_encoded=schema.pass_through)
    if base is None:
        raise InvariantViolation(f"{states.where}: a state without a base file")
    with base:
        for side in sides:
            side.check_positions_of(base, states.where)
        row = 0
        for group in base.row_groups(WholeFile(), context.batch_size):
            for batch in group.batches():
                _meet(sides, batch, keys, row)
                row += batch.num_rows
            for side in sides:
                side.end_row_group()


def _meet(sides: tuple[_Side, _Side], batch: pa.RecordBatch, keys: RecordTable, row: int) -> None:
    touched = keys.match(batch.column(RECORD_KEY), 0)
    old, new = (side.staying(batch, touched.rows, row) for side in sides)
    sides[0].add_base_rows(batch, touched, old & ~new)
    sides[1].add_base_rows(batch, touched, new & ~old)


def _no_origin(origin: Origin) -> NoReturn:
    raise InvariantViolation(f"a state of all rows requested the origin of {origin.service}")
