"""Finds changes by comparing a group's state before a commit with its state after it.

* A row that is in the state after, and was not before in that version, is new: an update if its key was there before,
  else an insert.
* A row that was there before and is not there after was deleted.

A write that lost its merge, and a late delete, leave no trace in the state, so they are not changes. `states` reads the
states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.model.changes import ComparedStates
from penstock.proto.model.files import SliceFiles
from penstock.reader.cdc.images import ChangeBatch, ChangeKind, Images, ImageStyle
from penstock.reader.cdc.rewrites import Rewrites
from penstock.reader.cdc.state_rows import StateRows, differing_rows, state_rows
from penstock.reader.cdc.states import IDENTITY, SEQUENCE, States, flat, one_batch, states_style
from penstock.reader.merge.keys import RecordTable, number_keys
from penstock.reader.split.read_schema import COMMIT_TIME
from penstock.reader.values.record_keys import RECORD_KEY
from penstock.table.schema.avro import META_COLUMNS, RecordSchema

KEYS_AT_ONCE: Final = 1 << 20
"""How many keys of a base file are looked up in another at once. This bounds the memory of a comparison."""


def compared_changes(
    states: States, source: ComparedStates, columns: tuple[str, ...], rewrites: Rewrites
) -> Iterator[ChangeBatch]:
    """The step's changes: deletes in the order of the state before, then the others in the order of the state after.

    `columns` are the table's columns that images need, `rewrites` those of the split. Memory grows with the number of
    changes; for a group that is completely new or completely gone it is constant.
    """
    comparison = _Comparison(states, tuple(dict.fromkeys((*columns, *IDENTITY))), rewrites)
    before, after = source.before, source.after
    if before is None and after is not None:
        for batch in states.after(after, comparison.columns):
            yield comparison.inserted(batch)
    elif after is None and before is not None:
        for batch in states.before(before, comparison.columns):
            yield comparison.deleted(batch)
    elif before is not None and after is not None:
        if (before.base and before.base.path) == (after.base and after.base.path):
            yield from comparison.appended(before, after)
        else:
            yield from comparison.rewritten(before, after)


@dataclass(frozen=True, slots=True)
class _Comparison:
    states: States
    columns: tuple[str, ...]
    rewrites: Rewrites

    @property
    def record(self) -> RecordSchema:
        return self.states.context.schema.record

    @property
    def batch_rows(self) -> int:
        return self.states.context.options.batch_rows

    def inserted(self, batch: pa.RecordBatch) -> ChangeBatch:
        return ChangeBatch(_all(ChangeKind.INSERT, batch), None, Images(batch, self.record))

    def deleted(self, batch: pa.RecordBatch) -> ChangeBatch:
        return ChangeBatch(_all(ChangeKind.DELETE, batch), Images(batch, self.record), None)

    def appended(self, before: SliceFiles, after: SliceFiles) -> Iterator[ChangeBatch]:
        """The commit wrote logs: only keys in them can have changed."""
        keys = self.states.touched(after)
        if keys is None:
            return
        difference = differing_rows(self.states, before, after, keys, self.columns)
        sides = self._both(before, after, keys) if difference is None else difference
        (old, old_numbers), (new, new_numbers) = ((side.rows, side.numbers) for side in sides)
        if old is not None and new is not None and self._may_be_unchanged(old, new):
            names = _contents if difference is None else _versions
            old_names, new_names = names(old, old_numbers), names(new, new_numbers)
            old_stays, new_stays = _is_among(old_names, new_names), _is_among(new_names, old_names)
            old, old_numbers = old.filter(pa.array(~old_stays)), old_numbers[~old_stays]
            new, new_numbers = new.filter(pa.array(~new_stays)), new_numbers[~new_stays]
        style = states_style(self.states)
        for batch in self._paired(old, old_numbers, new, new_numbers):
            yield ChangeBatch(batch.kinds, _styled(batch.before, style), _styled(batch.after, style))

    def _both(self, before: SliceFiles, after: SliceFiles, keys: RecordTable) -> list[StateRows]:
        """All touched rows of both states, with all columns: a late record may fill gaps of the row that stays with its
        instant."""
        columns = tuple(dict.fromkeys((*self.columns, *(item.name for item in self.record.fields))))
        states = self.states
        reads = ((before, states.before_scan(columns)), (after, states.after_scan(columns)))
        return state_rows(states, reads, keys)

    def rewritten(self, before: SliceFiles, after: SliceFiles) -> Iterator[ChangeBatch]:
        """The commit wrote a new base file: its own rows are new, and row counts show whether others are gone."""
        rewrites, states = self.rewrites, self.states
        state_after = rewrites.after(states, after, self.columns)
        written, keys, numbers = state_after.written, state_after.own.table, state_after.own.numbers
        old, old_numbers, rows_before = rewrites.replaced(states, before, self.columns, keys)
        same_keys, same_numbers, rows_after = state_after.same_keys
        if old is not None and same_keys is not None:  # some rows of a key that the base holds twice may stay
            others = pc.not_equal(same_keys[COMMIT_TIME], states.step.instant).combine_chunks()
            staying = _versions(same_keys, same_numbers).filter(others)
            unchanged = _is_among(_versions(old, old_numbers), staying)
            old, old_numbers = old.filter(pa.array(~unchanged)), old_numbers[~unchanged]
        written_rows = written.num_rows if written is not None else 0
        replaced_rows = old.num_rows if old is not None else 0
        gone = rows_before + written_rows - rows_after - replaced_rows
        if gone > 0:
            for batch in self._deleted_keys(before, after):
                gone -= len(batch.kinds)
                yield batch
        if gone > 0:
            yield from self._deleted_copies(before, after, keys)
        yield from self._paired(old, old_numbers, written, numbers)

    def _deleted_keys(self, before: SliceFiles, after: SliceFiles) -> Iterator[ChangeBatch]:
        """Deletes of the rows whose keys the state after does not have."""
        absent: list[pa.Array] = []
        pending: list[pa.Array] = []
        for batch in self.states.before(before, (RECORD_KEY,)):
            pending.append(batch.column(RECORD_KEY))
            if sum(map(len, pending)) >= KEYS_AT_ONCE:
                absent.append(self._absent(pending, after))
                pending = []
        if pending:
            absent.append(self._absent(pending, after))
        keys, _ = number_keys(absent, compiled=self.states.context.options.matching)
        for batch in self.states.before(before, self.columns):
            rows = keys.match(batch.column(RECORD_KEY), 0).rows
            if len(rows):
                yield self.deleted(batch.take(pa.array(rows)))

    def _deleted_copies(self, before: SliceFiles, after: SliceFiles, written: RecordTable) -> Iterator[ChangeBatch]:
        """Deletes of rows while another row with the same key stays: the base had the key twice, and the delete lost
        against one of them. This is rare, so it holds the names of all rows."""
        state_after = pa.Table.from_batches(list(self.states.after(after, IDENTITY)))
        names = _names(state_after)
        for batch in self.states.before(before, self.columns):
            unpaired = _is_among(batch.column(RECORD_KEY), flat(state_after[RECORD_KEY])) & ~_is_among(
                _names(batch), names
            )
            unpaired[written.match(batch.column(RECORD_KEY), 0).rows] = False
            if unpaired.any():
                yield self.deleted(batch.filter(pa.array(unpaired)))

    def _absent(self, keys: list[pa.Array], after: SliceFiles) -> pa.Array:
        """The keys that the state after does not have."""
        table, numbers = number_keys(keys, compiled=self.states.context.options.matching)
        seen = np.zeros(table.count, bool)
        for batch in self.states.after(after, (RECORD_KEY,)):
            seen[table.match(batch.column(RECORD_KEY), 0).numbers] = True
        return pa.chunked_array(keys).combine_chunks().filter(pa.array(~seen[numbers]))

    def _may_be_unchanged(self, old: pa.Table, new: pa.Table) -> bool:
        """Whether a row of one side may also be on the other: two versions have the same instant.

        By version and not by the step's instant, because a write may bring an older row back (it wins over a delete,
        and then loses against the base).
        """
        instants = pc.unique(old[COMMIT_TIME])
        return bool(pc.is_in(pc.unique(new[COMMIT_TIME]), value_set=instants).true_count)

    def _paired(
        self, old: pa.Table | None, old_numbers: np.ndarray, new: pa.Table | None, new_numbers: np.ndarray
    ) -> Iterator[ChangeBatch]:
        """Deletes of old rows without a new one, then new rows, each with the old row of its key if there is one."""
        partner = _partners(old_numbers, new_numbers)
        whole = None if old is None else one_batch(old)
        if whole is not None:
            unpaired = np.ones(whole.num_rows, bool)
            unpaired[partner[partner >= 0]] = False
            if unpaired.any():
                for batch in _batches(whole.filter(pa.array(unpaired)), self.batch_rows):
                    yield self.deleted(batch)
        if new is None:
            return
        rows = one_batch(new)
        for first in range(0, rows.num_rows, self.batch_rows):
            places = partner[first : first + self.batch_rows]
            paired = places >= 0
            kinds = np.where(paired, ChangeKind.UPDATE, ChangeKind.INSERT).astype(np.uint8)
            images = None
            if whole is not None and paired.any():
                images = Images(_rows_at(whole, places, paired), self.record)
            yield ChangeBatch(kinds, images, Images(rows.slice(first, self.batch_rows), self.record))


def _rows_at(rows: pa.RecordBatch, places: np.ndarray, present: np.ndarray) -> pa.RecordBatch:
    """The rows at these places, nulls where there is none; a slice if they are adjacent."""
    if present.all() and (np.diff(places) == 1).all():
        return rows.slice(int(places[0]), len(places))
    return rows.take(pa.array(places, mask=~present))


def _all(kind: ChangeKind, batch: pa.RecordBatch) -> np.ndarray:
    return np.full(batch.num_rows, kind, np.uint8)


def _styled(images: Images | None, style: ImageStyle) -> Images | None:
    return None if images is None else replace(images, style=style)


def _versions(rows: pa.Table, numbers: np.ndarray) -> pa.Array:
    """A text per row that identifies its version, by key number."""
    parts = (pa.array(numbers).cast(pa.string()), rows[COMMIT_TIME], rows[SEQUENCE])
    return pc.binary_join_element_wise(
        *(flat(part) for part in parts), "\n", null_handling="replace", null_replacement="\t"
    )


def _names(rows: pa.Table | pa.RecordBatch) -> pa.Array:
    """A text per row that identifies its version, by key."""
    parts = (flat(rows.column(name)) for name in IDENTITY)
    return pc.binary_join_element_wise(*parts, "\n", null_handling="replace", null_replacement="\t")


def _contents(rows: pa.Table, numbers: np.ndarray) -> pa.Array:
    """A text per row of its values, without meta columns."""
    own = [name for name in rows.column_names if name not in META_COLUMNS or name == COMMIT_TIME]
    texts = [str(row) for row in rows.select(own).to_pylist()]
    return pc.binary_join_element_wise(pa.array(numbers).cast(pa.string()), pa.array(texts, pa.string()), "\n")


def _is_among(values: pa.Array, known: pa.Array) -> np.ndarray:
    return np.array(pc.is_in(values, value_set=known).to_numpy(zero_copy_only=False))


def _partners(old_numbers: np.ndarray, new_numbers: np.ndarray) -> np.ndarray:
    """For each new row the old row of its key: the first with the first, the second with the second; -1 if there is
    none."""
    if not len(old_numbers) or not len(new_numbers):
        return np.full(len(new_numbers), -1, np.int64)
    highest = int(max(old_numbers.max(), new_numbers.max()))
    if all(int(np.bincount(numbers).max()) == 1 for numbers in (old_numbers, new_numbers)):
        place_of = np.full(highest + 1, -1, np.int64)
        place_of[old_numbers] = np.arange(len(old_numbers))
        return np.asarray(place_of[new_numbers])
    old_codes, new_codes = _places(old_numbers), _places(new_numbers)
    order = np.argsort(old_codes, kind="stable")
    at = np.minimum(np.searchsorted(old_codes[order], new_codes), len(order) - 1)
    return np.where(old_codes[order][at] == new_codes, order[at], -1)


def _places(numbers: np.ndarray) -> np.ndarray:
    """For each row its key's number and its index among the key's rows, as one number."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, np.int64)
    lengths = np.diff(np.r_[starts, len(ordered)])
    ranks = np.empty(len(numbers), np.int64)
    ranks[order] = np.arange(len(numbers)) - np.repeat(starts, lengths)
    return numbers.astype(np.int64) * (1 << 31) + ranks


def _batches(rows: pa.RecordBatch, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, rows.num_rows, batch_rows):
        yield rows.slice(first, batch_rows)
