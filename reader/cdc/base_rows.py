"""The base rows that the steps of a split need, read once for all steps on one base file.

A step looks up the rows of a few keys: those that its commit wrote. Before the first step reads a base file, the keys
of the next steps on this file are collected from the logs. The read of the first step selects the base rows of all
these keys, and the next steps use the selection. Memory is bounded: a selection of more than `SELECTION_BYTES` is
dropped, and a selection of half as many steps is tried at the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from penstock.proto.errors import PenstockError
from penstock.proto.model.changes import ChangeStep, ComparedStates, LoggedImages
from penstock.proto.model.splits import WholeFile
from penstock.reader.base.split_file import open_base
from penstock.reader.merge.keys import RecordTable, number_keys
from penstock.reader.split.context import SplitContext
from penstock.reader.values.dictionary_text import PlainText
from penstock.reader.values.record_keys import RECORD_KEY

SELECTION_BYTES: Final = 64 << 20
"""The most bytes of selected rows, and of the keys that select them."""
_DECODED_BYTES: Final = 4 << 20
"""About how many bytes of a base file are decoded at once. Few of their rows are held, so that larger batches take
little more memory. Each batch takes a fixed time, about that of a few thousand rows."""
_SELECTIONS: Final = 2
"""How many selections are kept. A step may look up rows in the base files before and after it."""


@dataclass(frozen=True, slots=True)
class BaseRows:
    """Rows of one row group of a base file."""

    batch: pa.RecordBatch
    """The rows, in file order."""
    numbers: int | np.ndarray
    """Their numbers in the file: the first of consecutive rows, or the number of each row."""


class BaseVisitor(Protocol):
    """Gets the rows of a base file, or a selection that has all rows of the visitor's keys."""

    def begin(self, num_rows: int) -> None:
        """Before the first row. `num_rows` are the rows of the whole file."""
        ...

    def meet(self, rows: BaseRows) -> None:
        """The next rows."""
        ...

    def end_row_group(self) -> None:
        """After the last row of a row group."""
        ...

    def end(self, selection: Selection | None) -> None:
        """After the last row. `selection` is what was passed; None for the whole file."""
        ...


@dataclass(slots=True, eq=False)
class Selection:
    """The rows of a base file that have chosen keys."""

    keys: RecordTable
    """The keys."""
    steps: range
    """The numbers of the steps that look up no other keys in this file."""
    num_rows: int = 0
    """The rows of the whole file."""
    row_groups: list[BaseRows] = field(default_factory=list)
    """The rows, without row groups that have none of them."""
    size_bytes: int = 0
    """The bytes of the rows."""

    @property
    def numbers(self) -> np.ndarray:
        """The number of each selected row in the file."""
        return np.concatenate([np.empty(0, np.int64), *(np.asarray(group.numbers) for group in self.row_groups)])

    def visit(self, visitor: BaseVisitor) -> None:
        """Passes the selected rows."""
        visitor.begin(self.num_rows)
        for group in self.row_groups:
            visitor.meet(group)
            visitor.end_row_group()
        visitor.end(self)


class _Selecting:
    """Selects rows while the file is read."""

    def __init__(self, selection: Selection) -> None:
        self.selection: Selection | None = selection
        self._rows: list[BaseRows] = []
        self._plain = PlainText()

    def meet(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Selects from the next rows."""
        if self.selection is None:
            return
        rows = self.selection.keys.match(batch.column(RECORD_KEY), 0).rows
        if not len(rows):
            return
        chosen = self._plain.batch(batch.take(pa.array(rows)))
        self._rows.append(BaseRows(chosen, rows + first_row))
        self.selection.size_bytes += chosen.nbytes
        if self.selection.size_bytes > SELECTION_BYTES:
            self.selection, self._rows = None, []

    def end_row_group(self) -> None:
        """Ends a row group."""
        if self.selection is not None and self._rows:
            batch = pa.concat_batches([rows.batch for rows in self._rows])
            numbers = np.concatenate([np.asarray(rows.numbers) for rows in self._rows])
            self.selection.row_groups.append(BaseRows(batch, numbers))
        self._rows = []


class SharedBases:
    """The base files of one split, for the steps in their order."""

    def __init__(self, steps: Sequence[ChangeStep]) -> None:
        self._steps = steps
        self._selections: dict[tuple[str, tuple[str, ...]], Selection] = {}
        self._most_steps = len(steps)

    def read(
        self,
        context: SplitContext,
        step: int,
        keys_of_step: Callable[[int], Sequence[pa.Array]],
        visitor: BaseVisitor,
        *,
        may_be_encoded: Collection[str],
        again: bool,
    ) -> None:
        """Passes the base file of `context.split`, or all rows of it that step number `step` looks up.

        `keys_of_step` reads the record keys that a step looks up in base files. `again`: the step itself will read the
        file again. Errors as for reading a base file.
        """
        if context.split.base is None:
            return
        base, columns = context.split.base.path, context.schema.base_columns
        known = self._selections.get((base, columns))
        if known is not None and step in known.steps:
            known.visit(visitor)
            return
        self._selections.pop((base, columns), None)
        keys = self._keys(base, step, keys_of_step, again=again)
        selecting = None
        if keys is not None:
            table, _ = number_keys(keys[0], compiled=context.options.matching)
            selecting = _Selecting(Selection(table, keys[1]))
            while len(self._selections) >= _SELECTIONS:
                del self._selections[next(iter(self._selections))]
        _read_whole(context, columns, may_be_encoded, visitor, selecting)
        if selecting is None:
            return
        if selecting.selection is None:
            self._most_steps = max(1, self._most_steps // 2)
            return
        self._selections[base, columns] = selecting.selection

    def _keys(
        self, base: str, step: int, keys_of_step: Callable[[int], Sequence[pa.Array]], *, again: bool
    ) -> tuple[list[pa.Array], range] | None:
        """The keys that this step and the next ones look up in the file, and the numbers of these steps; None if no
        step reads it again."""
        keys: list[pa.Array] = []
        end, uses, free_bytes = step, 2 if again else 1, SELECTION_BYTES
        for number in range(step, min(len(self._steps), step + self._most_steps)):
            if base not in looked_up_bases(self._steps[number]):
                continue
            try:
                own_keys = keys_of_step(number)
            except PenstockError:  # the step itself raises it
                break
            free_bytes -= sum(part.nbytes for part in own_keys)
            if free_bytes < 0:
                break
            keys += own_keys
            uses += number > step
            end = number + 1
        return (keys, range(step, end)) if uses > 1 and end > step else None


def looked_up_bases(step: ChangeStep) -> tuple[str, ...]:
    """The paths of the base files in which a step looks up rows by key."""
    match step.source:
        case ComparedStates(before, after) if before and after and before.base and after.base:
            return (after.base.path,) if before.base.path == after.base.path else ()
        case LoggedImages(before=before, after=after):
            return tuple(files.base.path for files in (before, after) if files and files.base)
    return ()


def _read_whole(
    context: SplitContext,
    columns: tuple[str, ...],
    may_be_encoded: Collection[str],
    visitor: BaseVisitor,
    selecting: _Selecting | None,
) -> None:
    base = open_base(context, columns, key=RECORD_KEY, may_be_encoded=may_be_encoded)
    if base is None:
        return
    with base:
        visitor.begin(base.num_rows)
        if selecting is not None and selecting.selection is not None:
            selecting.selection.num_rows = base.num_rows
        row = 0
        for group in base.row_groups(WholeFile(), replace(context.batch_size, target_bytes=_DECODED_BYTES)):
            for batch in group.batches():
                visitor.meet(BaseRows(batch, row))
                if selecting is not None:
                    selecting.meet(batch, row)
                row += batch.num_rows
            visitor.end_row_group()
            if selecting is not None:
                selecting.end_row_group()
        visitor.end(None)
