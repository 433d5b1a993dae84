"""Merges the versions of each key in a log by a function, from the oldest to the newest, vectorised over keys.

Round k merges the k-th version of each key that has one with the result of the rounds before, as Hudi does record by
record (`BufferedRecordMergerFactory`, `CustomRecordMerger` and `CustomPayloadRecordMerger`):

* a delete without an ordering value wins, and a record that follows it stands alone (`isCommitTimeOrderingDelete`);
* for a payload class a record that follows any delete stands alone, because no payload merges with a missing record;
* every other pair is merged by the function, which decides whether its result is a delete;
* of two deletes the older one stays, with its ordering value or without one. `deltaMergeRecords` compares the records
  of the result and of the older one, which are null for a delete, and drops the result if they are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.reader.merge.fold import LogFold, RecordKind
from penstock.reader.merge.keys import RecordTable
from penstock.reader.merge.log_rows import LogRows
from penstock.reader.merge.mergers import DELETED, Merger
from penstock.reader.merge.stream import LogWinners
from penstock.reader.values.field_paths import column_of_fields, field_values, names_in
from penstock.reader.values.record_keys import RECORD_KEY
from penstock.table.arrow_arrays import arrow_array, numpy_array

_ROWS: Final = 1 << 16
_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class FunctionPairs:
    """Merges base rows with log rows by a function (`stream.PairMerge`)."""

    merger: Merger
    """The function."""
    columns: tuple[str, ...]
    """The columns of a row."""
    from_newer: bool = True
    """The log row of each pair is needed."""

    def pairs(self, base: pa.RecordBatch, log: pa.RecordBatch, base_wins: np.ndarray) -> pa.RecordBatch:
        """The rows that are left: row i of base and log as one row, without those that the function deletes."""
        merged = self.merger.merged(_with_flags(base.select(self.columns), False, self.merger), log, with_base=True)
        left = merged.filter(pc.invert(merged.column(DELETED))) if _deletes(merged) else merged
        return left.select(self.columns)


@dataclass(frozen=True, slots=True)
class Versions:
    """All records of a log, in arrival order."""

    numbers: np.ndarray
    """The number of each record's key (int64)."""
    kinds: np.ndarray
    """The kind of each record (uint8 of `RecordKind`)."""
    decoded: np.ndarray
    """The records that have a row, ascending (int64)."""
    rows: LogRows
    """Their rows, with the table's columns."""
    keys: Sequence[pa.Array]
    """The record keys of all records."""
    ordering: Mapping[str, pa.ChunkedArray]
    """The values of the ordering fields of all records, by their names: a column, or a field of a struct."""


def merged_versions(versions: Versions, table: RecordTable, merger: Merger) -> LogWinners:
    """The row or delete of each key, after all its versions are merged. Errors of the function (`Merger.merged`)."""
    records = _Records(versions, merger)
    last = np.zeros(table.count, np.int64)
    np.maximum.at(last, versions.numbers, np.arange(len(versions.numbers)))
    by_arrival = np.argsort(last, kind="stable")
    order = np.argsort(versions.numbers, kind="stable")
    starts = np.searchsorted(versions.numbers[order], np.arange(table.count + 1))
    batches, kinds = [], np.empty(table.count, np.uint8)
    for first in range(0, table.count, records.at_once):
        keys = by_arrival[first : first + records.at_once]
        batch, kinds[keys] = _folded(records, order, starts, keys)
        batches.append(batch)
    row_of = np.empty(table.count, np.int64)
    row_of[by_arrival] = np.arange(table.count)
    row_of[kinds == RecordKind.DEFAULT_DELETE] = -1
    return LogWinners(
        table=table,
        kinds=kinds,
        ordering=None,
        row_of=row_of,
        rows=LogRows(batches),
        folded=LogFold(winning=last, duplicates=len(versions.numbers) - table.count, lost=0),
        filler=FunctionPairs(merger, tuple(merger.schema.names[:-1])),
    )


class _Records:
    """Rows of all records, deletes included: a delete has only its key and its ordering values."""

    def __init__(self, versions: Versions, merger: Merger) -> None:
        self.kinds, self.merger = versions.kinds, merger
        total = len(versions.kinds)
        bare = np.setdiff1d(np.arange(total), versions.decoded, assume_unique=True)
        self._place = np.empty(total, np.int64)
        self._place[versions.decoded] = np.arange(len(versions.decoded))
        self._place[bare] = len(versions.decoded) + np.arange(len(bare))
        batches = [_with_flags(batch, False, merger) for batch in versions.rows.batches()]
        if len(bare):
            given = {RECORD_KEY: pa.chunked_array(list(versions.keys), pa.string()), **versions.ordering}
            batches += _bare_rows(given, bare, merger)
        self._columns = [
            pa.chunked_array([_wide(batch.column(place)) for batch in batches]).combine_chunks()
            for place in range(len(merger.schema))
        ]
        size = sum(batch.nbytes for batch in batches)
        self.at_once = max(1, min(_ROWS, _BYTES * total // max(1, size)))

    def take(self, records: np.ndarray) -> pa.RecordBatch:
        """The rows of these records; those of deletes have only their key and ordering values, and their mark."""
        places = arrow_array(self._place[records])
        schema = self.merger.schema
        columns = [column.take(places).cast(field.type) for column, field in zip(self._columns, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        return _bared(batch, self.kinds[records] != RecordKind.DATA, self.merger)


def _folded(
    records: _Records, order: np.ndarray, starts: np.ndarray, keys: np.ndarray
) -> tuple[pa.RecordBatch, np.ndarray]:
    """(the row of each of these keys, its kind). Keys with many versions are first, so that a round merges a prefix."""
    counts = starts[keys + 1] - starts[keys]
    most_first = np.argsort(-counts, kind="stable")
    begin, counts = starts[keys][most_first], counts[most_first]
    first = order[begin]
    rows, kinds = records.take(first), records.kinds[first].copy()
    done: list[tuple[pa.RecordBatch, np.ndarray]] = []
    for version in range(1, int(counts.max(initial=1))):
        active = int(np.searchsorted(-counts, -version, side="left"))
        done.append((rows.slice(active), kinds[active:]))
        newer = order[begin[:active] + version]
        rows, kinds = _merged(records, rows.slice(0, active), kinds[:active], newer)
    done.append((rows, kinds))
    places = np.empty(len(keys), np.int64)
    places[most_first] = np.arange(len(keys))
    joined = pa.concat_batches([part for part, _ in reversed(done)])
    return joined.take(arrow_array(places)), np.concatenate([part for _, part in reversed(done)])[places]


def _merged(
    records: _Records, older: pa.RecordBatch, older_kinds: np.ndarray, newer_records: np.ndarray
) -> tuple[pa.RecordBatch, np.ndarray]:
    """One round: the older rows with the newer records of the same keys."""
    newer, newer_kinds = records.take(newer_records), records.kinds[newer_records]
    alone = (newer_kinds == RecordKind.DEFAULT_DELETE) | (older_kinds == RecordKind.DEFAULT_DELETE)
    if records.merger.custom.of_payload:
        alone |= older_kinds != RecordKind.DATA
    if alone.all():
        return _with_older_deletes(older, older_kinds, newer, newer_kinds)
    pairs = np.flatnonzero(~alone)
    chosen = arrow_array(pairs)
    merged = older, newer
    if len(pairs) < len(alone):
        merged = older.take(chosen), newer.take(chosen)
    result = records.merger.merged(*merged)
    deleted = numpy_array(result.column(DELETED))
    result = _bared(result, deleted, records.merger)
    kinds = newer_kinds.copy()
    kinds[pairs] = np.where(deleted, np.uint8(RecordKind.DELETE), np.uint8(RecordKind.DATA))
    if len(pairs) < len(alone):
        places = np.arange(len(alone))
        places[pairs] = len(alone) + np.arange(len(pairs))
        result = pa.concat_batches([newer, result]).take(arrow_array(places))
    return _with_older_deletes(older, older_kinds, result, kinds)


def _with_older_deletes(
    older: pa.RecordBatch, older_kinds: np.ndarray, merged: pa.RecordBatch, kinds: np.ndarray
) -> tuple[pa.RecordBatch, np.ndarray]:
    """The merged rows, but the older one where both are deletes."""
    stays = (older_kinds != RecordKind.DATA) & (kinds != RecordKind.DATA)
    if not stays.any():
        return merged, kinds
    places = np.arange(len(stays)) + np.where(stays, len(stays), 0)
    return pa.concat_batches([merged, older]).take(arrow_array(places)), np.where(stays, older_kinds, kinds)


def _with_flags(batch: pa.RecordBatch, deleted: bool, merger: Merger) -> pa.RecordBatch:
    """The columns of the merger's batches, of rows that are all deletes or all not."""
    columns = [batch.column(name) for name in merger.schema.names[:-1]]
    flags = arrow_array(np.full(batch.num_rows, deleted))
    return pa.RecordBatch.from_arrays([*columns, flags], schema=merger.schema)


def _bare_rows(given: dict[str, pa.Array], bare: np.ndarray, merger: Merger) -> Iterator[pa.RecordBatch]:
    for begin in range(0, len(bare), _ROWS):
        places = arrow_array(bare[begin : begin + _ROWS])
        values = {name: _flat(column.take(places)) for name, column in given.items()}
        columns = [column_of_fields(field.name, field.type, values, len(places)) for field in list(merger.schema)[:-1]]
        flags = arrow_array(np.ones(len(places), bool))
        yield pa.RecordBatch.from_arrays([*columns, flags], schema=merger.schema)


def _bared(batch: pa.RecordBatch, deleted: np.ndarray, merger: Merger) -> pa.RecordBatch:
    """The batch, with deletes that have a mark, and null in all columns but the key and the ordering fields."""
    if not deleted.any():
        return batch
    gone, names = arrow_array(deleted), (RECORD_KEY, *merger.custom.ordering_fields)
    kept = {name: field_values(batch, name) for name in names_in(batch.schema, names)}
    columns = [
        batch.column(field.name)
        if field.name in kept
        else pc.if_else(gone, column_of_fields(field.name, field.type, kept, batch.num_rows), batch.column(field.name))
        for field in list(merger.schema)[:-1]
    ]
    return pa.RecordBatch.from_arrays([*columns, gone], schema=merger.schema)


def _deletes(batch: pa.RecordBatch) -> bool:
    return bool(batch.column(DELETED).true_count)


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _wide(column: pa.Array) -> pa.Array:
    """Text and bytes with 64-bit offsets, because all records together may be larger than 2 GiB."""
    if pa.types.is_string(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary(column.type) else column
