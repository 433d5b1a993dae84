"""Reads the rows of a file group's states around one commit, and finds rows by key.

This module decides which instants a state contains. `compared` finds the differences, the enumerator decides the files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.proto.errors import InvariantViolation
from penstock.proto.model.changes import ChangesOf, ChangeStep, GroupChanges
from penstock.proto.model.files import SliceFiles
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import (
    AllRows,
    CommitTimeOrdering,
    CustomMerge,
    Scan,
    Split,
    VisibleInstants,
    WholeFile,
)
from penstock.reader.cdc.base_rows import SharedBases
from penstock.reader.cdc.images import ImageStyle
from penstock.reader.log.scanner import read_log_keys
from penstock.reader.merge.keys import RecordTable
from penstock.reader.split.context import SplitContext
from penstock.reader.split.emit import SplitBatch
from penstock.reader.split.read_schema import COMMIT_TIME, read_schema_of
from penstock.reader.split.report import SplitTally
from penstock.reader.values.record_keys import RECORD_KEY

SEQUENCE = "_hoodie_commit_seqno"
_ENGINE_ROWS = 8
"""From this table version on, Hudi's reader of changes holds engine rows."""

IDENTITY = (RECORD_KEY, COMMIT_TIME, SEQUENCE)
"""The meta columns that together identify one version of one row."""

ReadSlice = Callable[[Scan, Split, SplitTally], Generator[SplitBatch, None, None]]
"""Reads the merged rows of one file slice (`penstock.reader.read_split`)."""


KeysOf = Callable[["States"], Sequence[pa.Array]]
"""The record keys that the step of these states looks up in base files. Errors as for reading the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """The states of one split's file group right before and right after one step."""

    context: SplitContext
    """The read of the split of changes."""
    step: ChangeStep
    """The commit."""
    number: int
    """The commit's number among the steps of the split."""
    read_slice: ReadSlice
    """Reads one state."""
    bases: SharedBases
    """The base files of the split's steps."""
    keys_of: KeysOf
    """Reads the keys that a step looks up."""

    @property
    def scan(self) -> Scan:
        """The scan of changes."""
        return self.context.scan

    @property
    def split(self) -> Split:
        """The split of changes."""
        return self.context.split

    @property
    def where(self) -> str:
        """Table, instant and file group, the beginning of error texts."""
        return (
            f"table {self.scan.table}: changes of instant {self.step.instant} in file group {self.split.file_group} of "
            f"partition {self.split.partition!r}"
        )

    def ahead(self, number: int) -> States | None:
        """The states around another step of the split, to be read ahead: its counts are not part of the report. None if
        the split has no such step."""
        part = self.split.part
        if not isinstance(part, GroupChanges) or number >= len(part.steps):
            return None
        context = replace(self.context, tally=self.context.tally.nested())
        return replace(self, context=context, step=part.steps[number], number=number)

    def before(self, files: SliceFiles, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows right before the step, in the slice's order."""
        return self.rows(files, self.before_scan(columns))

    def after(self, files: SliceFiles, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows right after the step, in the slice's order."""
        return self.rows(files, self.after_scan(columns))

    def rows(self, files: SliceFiles, scan: Scan) -> Generator[pa.RecordBatch, None, None]:
        """The rows of a state that one of the scans has, in the slice's order."""
        tally = self.context.tally.nested()
        with closing(self.read_slice(scan, self.slice_split(files), tally)) as pieces:
            for piece in pieces:
                yield piece.batch
        self.context.tally.absorb(tally)

    def before_scan(self, columns: Sequence[str]) -> Scan:
        """A scan of all rows right before the step."""
        return self._scan(self._visible(self._rank), columns)

    def after_scan(self, columns: Sequence[str]) -> Scan:
        """A scan of all rows right after the step."""
        return self._scan(self._visible(self._rank + 1), columns)

    def own_scan(self, columns: Sequence[str]) -> Scan:
        """A scan of what the step's own instant wrote. No function merges its records: only their keys count."""
        scan = self._scan(VisibleInstants(frozenset([self.step.instant])), columns)
        return replace(scan, merge=CommitTimeOrdering()) if isinstance(scan.merge, CustomMerge) else scan

    def slice_split(self, files: SliceFiles) -> Split:
        """A split of these files in the group's place."""
        return replace(
            self.split,
            split_id=f"{self.split.split_id}/{self.step.instant}",
            base=files.base,
            base_instant=files.base_instant,
            logs=files.logs,
            part=WholeFile(),
        )

    def slice_context(self, files: SliceFiles, scan: Scan) -> SplitContext:
        """The read of these files with this scan."""
        schema = read_schema_of(scan, merged=bool(files.logs))
        return replace(self.context, scan=scan, split=self.slice_split(files), schema=schema)

    def touched(self, files: SliceFiles) -> RecordTable | None:
        """The keys of the log records that the step's instant wrote, deletes included; None if there are none."""
        log_alone = replace(files, base=None, base_instant="")
        return read_log_keys(self.slice_context(log_alone, self.own_scan([RECORD_KEY])))

    @property
    def _rank(self) -> int:
        return self._instants.index(self.step.instant)

    @property
    def _instants(self) -> Sequence[InstantTime]:
        if not isinstance(self.scan.rows, ChangesOf):
            raise InvariantViolation(f"{self.where}: the scan is not one of changes")
        return self.scan.rows.instants

    def _visible(self, count: int) -> VisibleInstants:
        return replace(
            self.scan.visible,
            members=frozenset(self._instants[:count]),
            archived_before=min(self.scan.visible.archived_before, self.step.order_key),
        )

    def _scan(self, visible: VisibleInstants, columns: Sequence[str]) -> Scan:
        return replace(self.scan, columns=tuple(columns), where="", rows=AllRows(), visible=visible)


FoundRows = tuple[pa.Table | None, np.ndarray, int]
"""(rows of some keys, the number of each row's key, how many rows there were). The table is None if no row matches."""


class RowsOfKeys:
    """Collects the rows whose record key is in `keys`."""

    def __init__(self, keys: RecordTable) -> None:
        self.size_bytes = 0
        """The bytes of the rows collected."""
        self._keys, self._rows = keys, 0
        self._matching: list[pa.RecordBatch] = []
        self._numbers: list[np.ndarray] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Collects from a batch."""
        self._rows += batch.num_rows
        matches = self._keys.match(batch.column(RECORD_KEY), 0)
        if len(matches.rows):
            self._matching.append(batch.take(pa.array(matches.rows)))
            self._numbers.append(matches.numbers)
            self.size_bytes += self._matching[-1].nbytes

    def result(self) -> FoundRows:
        """The rows of the batches so far."""
        if not self._matching:
            return None, np.empty(0, np.int64), self._rows
        return pa.Table.from_batches(self._matching), np.concatenate(self._numbers), self._rows


def rows_of_keys(batches: Iterable[pa.RecordBatch], keys: RecordTable) -> FoundRows:
    """The result of `RowsOfKeys` over these batches."""
    rows = RowsOfKeys(keys)
    for batch in batches:
        rows.add(batch)
    return rows.result()


def states_style(states: States) -> ImageStyle:
    """How Hudi writes rows that it merges from logs or looks up before a change."""
    return ImageStyle.RECORD if states.scan.table_version < _ENGINE_ROWS else ImageStyle.ENGINE


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """The rows of a table as one batch."""
    return pa.RecordBatch.from_arrays([flat(column) for column in rows.columns], schema=rows.schema)


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
