"""Rows of a rewritten base file, against a merge of one row at a time."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.proto.model.files import FileRef
from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering, MergeMode
from penstock.reader.base.file import BaseFile
from penstock.reader.merge.fold import RecordKind
from penstock.reader.merge.ordering_columns import OrderingColumns
from penstock.table.schema.avro import META_COLUMNS, parse_record_schema
from penstock.table.schema.avro_text import avro_schema_json
from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.files.meta_columns import RowStamp
from penstock.writer.files.rewritten_base import RewriteCounts, appended_rows, merged_rows
from penstock.writer.rows.keyed_rows import KeyedRows
from penstock.writer.rows.partition_paths import RowPartitions

COLUMNS = pa.schema([("id", pa.string()), ("seq", pa.int64()), ("n", pa.int64())])
NAMES = (*META_COLUMNS, *COLUMNS.names)
SCHEMA = pa.schema([*[(name, pa.string()) for name in META_COLUMNS], *COLUMNS])
RECORD = parse_record_schema(avro_schema_json(COLUMNS, "t", meta_columns=True), "schema of t")
COMMIT_TIME, EVENT_TIME = CommitTimeOrdering(), EventTimeOrdering(("seq",), False, False)
GROUP = 3
"""Rows of a row group of base files."""

DATA, DELETE, DEFAULT_DELETE = RecordKind.DATA, RecordKind.DELETE, RecordKind.DEFAULT_DELETE
Cells = tuple[str | int, ...]


@dataclass(frozen=True)
class Row:
    """A row of a write; `n` is its place."""

    key: str
    seq: int
    kind: RecordKind
    n: int


def base_row(place: int, key: str, seq: int) -> Cells:
    return ("1", f"1_1_{place}", key, "p", "old.parquet", key, seq, -place)


def keyed(rows: Sequence[Row], cut: int, *, ordered: bool) -> KeyedRows:
    """The rows in two chunks, cut at a place; in one if a chunk has no rows."""
    edges = sorted({0, min(cut, len(rows)), len(rows)})
    parts = [rows[begin:end] for begin, end in itertools.pairwise(edges)]
    batches = [
        pa.RecordBatch.from_pydict(
            {"id": [r.key for r in part], "seq": [r.seq for r in part], "n": [r.n for r in part]}, COLUMNS
        )
        for part in parts
    ]
    return KeyedRows(
        rows=pa.Table.from_batches(batches, COLUMNS),
        keys=pa.chunked_array([batch.column("id") for batch in batches], pa.string()),
        partitions=RowPartitions(("p",), np.zeros(len(rows), np.int64)),
        kinds=np.array([row.kind for row in rows], np.uint8),
        ordering=(pa.chunked_array([batch.column("seq") for batch in batches], pa.int64()),) if ordered else (),
    )


class Expected:
    """The new file by a loop over rows."""

    def __init__(self, base: Sequence[tuple[str, int]], rows: Sequence[Row], mode: MergeMode) -> None:
        self.rows: list[Cells] = []
        self.counts = RewriteCounts()
        self._stamped = 0
        winners: dict[str, Row] = {}
        for row in rows:
            old = winners.get(row.key)
            if old is None or mode == COMMIT_TIME or self._replaces(row, old):
                winners[row.key] = row
        self._merge(base, winners, mode)

    @staticmethod
    def _replaces(row: Row, old: Row) -> bool:
        if row.kind is DEFAULT_DELETE:
            return True
        if old.kind is DEFAULT_DELETE:
            return row.kind is DATA
        return row.seq >= old.seq

    def _merge(self, base: Sequence[tuple[str, int]], winners: dict[str, Row], mode: MergeMode) -> None:
        """Each row of a key is merged, as by Hudi `HoodieWriteMergeHandle`."""
        arrived: list[Row] = []
        for place, (key, seq) in enumerate(base):
            row = winners.get(key)
            late = row is not None and mode == EVENT_TIME and row.kind is not DEFAULT_DELETE and seq > row.seq
            if row is None or late:
                self.rows.append(base_row(place, key, seq))
            elif row.kind is DATA:
                self.counts.updates += 1
                arrived.append(row)
            else:
                self.counts.deletes += 1
            if place % GROUP == GROUP - 1 or place == len(base) - 1:
                self._stamp(arrived)
                arrived = []
        stored = {key for key, _ in base}
        new = [row for row in winners.values() if row.kind is DATA and row.key not in stored]
        self.counts.inserts = len(new)
        self._stamp(new)

    def _stamp(self, rows: Sequence[Row]) -> None:
        for row in sorted(rows, key=lambda one: one.n):
            self.rows.append(("2", f"2_7_{self._stamped}", row.key, "p", "new.parquet", row.key, row.seq, row.n))
            self._stamped += 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("base")


def base_file(folder: pathlib.Path, base: Sequence[tuple[str, int]]) -> BaseFile:
    cells = [base_row(place, key, seq) for place, (key, seq) in enumerate(base)]
    table = pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in cells], SCHEMA)
    pq.write_table(table, folder / "old.parquet", row_group_size=GROUP)
    ref = FileRef("old.parquet", (folder / "old.parquet").stat().st_size)
    return BaseFile(LocalStorage(str(folder)), ref, RECORD, NAMES, table="t")


def stamp() -> RowStamp:
    return RowStamp("2", 7, "p", "new.parquet")


def cells_of(batches: Sequence[pa.RecordBatch]) -> list[Cells]:
    return [tuple(row[name] for name in NAMES) for batch in batches for row in batch.to_pylist()]


def merged(
    folder: pathlib.Path, base: Sequence[tuple[str, int]], rows: KeyedRows, mode: MergeMode
) -> tuple[list[Cells], RewriteCounts]:
    names = mode.ordering_fields if isinstance(mode, EventTimeOrdering) else ()
    types = (pa.int64(),) * len(names)
    ordering = OrderingColumns(names=names, types=types, dotted=False, deletes_win=False, place="table t")
    counts = RewriteCounts()
    with base_file(folder, base) as file:
        batches = list(merged_rows(file, rows, stamp(), mode, ordering, counts))
    assert all(batch.schema.names == list(NAMES) for batch in batches)
    return cells_of(batches), counts


keys = st.sampled_from(["a", "b", "c", "d", "\u00e9"])
seqs = st.integers(0, 3)
bases = st.lists(st.tuples(keys, seqs), max_size=10)
records = st.lists(st.tuples(keys, seqs, st.sampled_from(RecordKind)), max_size=8)


def rows_of(items: Sequence[tuple[str, int, RecordKind]]) -> list[Row]:
    return [Row(key, seq, kind, place) for place, (key, seq, kind) in enumerate(items)]


@pytest.mark.parametrize("mode", [COMMIT_TIME, EVENT_TIME], ids=["commit time", "event time"])
@given(base=bases, items=records, cut=st.integers(0, 8))
@example(base=[("a", 2)], items=[("a", 1, DATA)], cut=0)
@example(base=[("a", 2)], items=[("a", 2, DATA)], cut=0)
@example(base=[("a", 2)], items=[("a", 1, DELETE)], cut=0)
@example(base=[("a", 2)], items=[("a", 1, DEFAULT_DELETE)], cut=0)
@example(base=[("a", 0), ("a", 0), ("b", 0)], items=[("c", 1, DATA), ("b", 1, DATA), ("a", 1, DATA)], cut=1)
@example(base=[("a", 0)] * 4, items=[("a", 1, DELETE)], cut=0)
@example(base=[], items=[("a", 3, DELETE), ("a", 1, DATA), ("b", 1, DATA)], cut=2)
@settings(max_examples=25, deadline=None)
def test_merged_rows_are_those_of_a_loop(
    folder: pathlib.Path,
    mode: MergeMode,
    base: list[tuple[str, int]],
    items: list[tuple[str, int, RecordKind]],
    cut: int,
) -> None:
    rows = rows_of(items)
    expected = Expected(base, rows, mode)
    assert merged(folder, base, keyed(rows, cut, ordered=mode == EVENT_TIME), mode) == (expected.rows, expected.counts)


@pytest.mark.parametrize("mode", [COMMIT_TIME, EVENT_TIME], ids=["commit time", "event time"])
def test_deletes_without_ordering_values_win_over_all_rows(folder: pathlib.Path, mode: MergeMode) -> None:
    """The operation delete has no ordering columns."""
    rows = rows_of([("a", 0, DEFAULT_DELETE), ("new", 0, DEFAULT_DELETE)])
    result, counts = merged(folder, [("a", 9), ("b", 9)], keyed(rows, 0, ordered=False), mode)
    assert result == [base_row(1, "b", 9)]
    assert counts == RewriteCounts(deletes=1)


def test_appended_rows_follow_all_rows_of_base(folder: pathlib.Path) -> None:
    """Rows of equal keys stay, and those of the write keep their order."""
    rows = keyed(rows_of([("b", 0, DATA), ("a", 0, DATA), ("a", 1, DATA)]), 1, ordered=False)
    mark, counts = stamp(), RewriteCounts()
    stamped = (mark.stamped(batch, keys) for batch, keys in rows.batches())
    base = [("a", 5), ("b", 5), ("a", 6), ("c", 5)]
    with base_file(folder, base) as file:
        batches = list(appended_rows(file, stamped, NAMES, counts))
    assert cells_of(batches) == [
        *(base_row(place, key, seq) for place, (key, seq) in enumerate(base)),
        *(
            ("2", f"2_7_{place}", key, "p", "new.parquet", key, seq, place)
            for place, (key, seq) in enumerate([("b", 0), ("a", 0), ("a", 1)])
        ),
    ]
    assert counts == RewriteCounts(inserts=3)
