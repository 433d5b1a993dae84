"""Two states of a group over one base file, right before and right after a commit that wrote logs: where they differ.

The base is decoded once, for both; only rows of keys that the commit touched are looked at, and base rows that are in
both states are never taken. Not here: which versions of what is left are the same, pairs of old and new (`compared`).
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
    """Rows of one state, in its order, and which of the touched keys each has. `rows` is None without any."""

    rows: pa.Table | None
    numbers: np.ndarray


def differing_rows(
    states: States, before: SliceFiles, after: SliceFiles, keys: RecordTable, columns: Sequence[str]
) -> tuple[StateRows, StateRows] | None:
    """(rows of the state before, of the state after) whose key is among `keys`, without base rows that are in both.

    None where the states must be read one by one: records that fill each other's gaps, keys that rows do not store.
    Memory grows with these rows and the logs, not with the base. Errors as for reading a slice.
    """
    if states.scan.key_fields or not isinstance(states.scan.fill, WholeRecords):
        return None
    old = _Side(states.slice_context(before, states.before_scan(columns)), keys)
    new = _Side(states.slice_context(after, states.after_scan(columns)), keys)
    if old.fills_gaps or new.fills_gaps:
        return None
    if after.base is not None:
        _stream_base(states, after, (old, new), keys)
    return old.finished(), new.finished()


class _Side:
    """One state while the base goes by."""

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

    def check(self, base: BaseFile, where: str) -> None:
        """CorruptBlock for a record beyond the base."""
        if self._table is not None:
            check_positions(self._table, base.num_rows, where)

    def stays(self, batch: pa.RecordBatch, rows: np.ndarray, first_row: int) -> np.ndarray:
        """Which of these rows of a base batch stay, where the log meets them."""
        if self._table is None or self._merge is None:
            return np.ones(len(rows), bool)
        matches = self._table.match_among(rows, batch.column(RECORD_KEY), first_row)
        stays = np.ones(batch.num_rows, bool)
        stays[self._merge.meet(matches, batch)] = False
        return np.asarray(stays[rows])

    def take(self, batch: pa.RecordBatch, touched: Matches, chosen: np.ndarray) -> None:
        """Chosen ones of a base batch's touched rows, which stay on this side alone."""
        if chosen.any():
            self._add(batch.select(self.schema.stored).take(pa.array(touched.rows[chosen])), touched.numbers[chosen])

    def row_group_ends(self) -> None:
        """Log rows come for those that went."""
        if self._merge is not None:
            for batch in self._merge.arrivals():
                self._add_log_rows(batch)

    def finished(self) -> StateRows:
        """What was taken, and the log rows that met nothing."""
        if self._merge is not None:
            for batch in self._merge.inserts():
                self._add_log_rows(batch)
        if not self._rows:
            return StateRows(None, np.empty(0, np.int64))
        return StateRows(pa.Table.from_batches(self._rows), np.concatenate(self._numbers))

    def _add_log_rows(self, batch: pa.RecordBatch) -> None:
        touched = self._keys.match(batch.column(RECORD_KEY), 0)
        if len(touched.rows):
            mine = batch if len(touched.rows) == batch.num_rows else batch.take(pa.array(touched.rows))
            self._add(mine, touched.numbers)

    def _add(self, rows: pa.RecordBatch, numbers: np.ndarray) -> None:
        emitted = self._finisher.emit(rows, 0, 0)
        if emitted is None or emitted[0].batch.num_rows != len(numbers):
            raise InvariantViolation(f"a state of all rows gave other than the {len(numbers)} rows that were taken")
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
            side.check(base, states.where)
        row = 0
        for group in base.row_groups(WholeFile(), context.batch_size):
            for batch in group.batches():
                _meet(sides, batch, keys, row)
                row += batch.num_rows
            for side in sides:
                side.row_group_ends()


def _meet(sides: tuple[_Side, _Side], batch: pa.RecordBatch, keys: RecordTable, row: int) -> None:
    touched = keys.match(batch.column(RECORD_KEY), 0)
    old, new = (side.stays(batch, touched.rows, row) for side in sides)
    sides[0].take(batch, touched, old & ~new)
    sides[1].take(batch, touched, new & ~old)


def _no_origin(origin: Origin) -> NoReturn:
    raise InvariantViolation(f"a state of all rows asked for the origin of {origin.service}")
