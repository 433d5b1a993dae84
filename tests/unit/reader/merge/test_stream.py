"""The final merge over decoded row groups against the oracle's loop: rows, their order, their outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering
from penstock.reader.merge.fold import RecordKind, fold
from penstock.reader.merge.keys import number_keys
from penstock.reader.merge.log_rows import LogRows
from penstock.reader.merge.ordering import OrderingTuples
from penstock.reader.merge.ordering_columns import OrderingColumns
from penstock.reader.merge.stream import LogWinners, Merge, MergeSpec
from tests.oracle.merge import DATA, DELETE, Record
from tests.oracle.merge import merge as slow_merge

KEYS = st.sampled_from(["", "a", "b", "é", "a key of more than sixteen bytes", "c", "d", "e"])
ORDERINGS = st.one_of(st.none(), st.integers(0, 4))
ROWS = st.tuples(KEYS, ORDERINGS)
RECORDS = st.lists(
    st.builds(
        lambda key, what, ordering, default: (key, what, None if default and what == DELETE else ordering),
        KEYS,
        st.sampled_from([DATA, DATA, DELETE]),
        ORDERINGS,
        st.booleans(),
    ),
    min_size=1,
    max_size=25,
)
COLUMNS = ("v", "key", "ts")
SCHEMA = pa.schema([("key", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])


@dataclass
class Group:
    rows: list[tuple[str, int | None, int]]
    batch_rows: int
    emits_rows: bool = True

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        for first in range(0, len(self.rows), self.batch_rows):
            batch = batch_of(self.rows[first : first + self.batch_rows])
            yield batch if self.emits_rows else batch.select(["key", "ts"])

    def keys(self) -> pa.Array:
        return pa.array([row[0] for row in self.rows], pa.string())


def batch_of(rows: list[tuple[str, int | None, int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def by(*names: str) -> OrderingColumns:
    return OrderingColumns(
        names=names, types=(pa.int64(),) * len(names), dotted=False, deletes_win=False, place="table t"
    )


def winners(records: list[Record], event_time: bool, compiled: bool, hash_bits: int) -> LogWinners:
    kinds = np.array(
        [
            RecordKind.DATA if r.what == DATA else RecordKind.DEFAULT_DELETE if r.default else RecordKind.DELETE
            for r in records
        ],
        np.uint8,
    )
    table, numbers = number_keys([pa.array([r.key for r in records])], compiled=compiled, hash_bits=hash_bits)
    ordering = OrderingTuples([pa.array([r.ordering for r in records], pa.int64())])
    mode = EventTimeOrdering(("ts",)) if event_time else CommitTimeOrdering()
    folded = fold(mode, numbers, table.count, kinds, ordering.ranks())
    data = kinds[folded.winning] == RecordKind.DATA
    arrivals = np.sort(folded.winning[data])
    return LogWinners(
        table=table,
        kinds=kinds[folded.winning],
        ordering=ordering.take(folded.winning) if event_time else None,
        row_of=np.where(data, np.searchsorted(arrivals, folded.winning), -1),
        rows=LogRows([batch_of([records[place].row for place in arrivals.tolist()]).select(list(COLUMNS))]),
        folded=folded,
    )


@settings(max_examples=300, deadline=None)
@given(
    groups=st.lists(st.tuples(st.booleans(), st.lists(ROWS, max_size=12)), max_size=3),
    history=RECORDS,
    event_time=st.booleans(),
    compiled=st.booleans(),
    batch_rows=st.sampled_from([1, 3, 100]),
    hash_bits=st.sampled_from([1, 3, 64]),
)
def test_rows_order_and_outcomes_are_the_oracles(
    groups: list[tuple[bool, list[tuple[str, int | None]]]],
    history: list[tuple[str, str, int | None]],
    event_time: bool,
    compiled: bool,
    batch_rows: int,
    hash_bits: int,
) -> None:
    """Ties, nulls, deletes and new rows after them, keys the base holds twice, forced collisions; rows of a row group
    that hands nothing on are counted where they would be."""
    count = iter(range(10_000))
    base = [[(key, ordering, next(count)) for key, ordering in group] for _, group in groups]
    silent = {row[2] for rows, (emits_rows, _) in zip(base, groups, strict=True) if not emits_rows for row in rows}
    records = [
        Record(key, what, ordering, what == DELETE and ordering is None, (key, ordering, 100_000 + place))
        for place, (key, what, ordering) in enumerate(history)
    ]
    expected = slow_merge(
        base, records, event_time=event_time, key_of=lambda row, place: row[0], ordering_of=lambda row: row[1]
    )
    merge = Merge(
        winners(records, event_time, compiled, hash_bits),
        MergeSpec(
            columns=COLUMNS,
            key="key",
            ordering=by("ts") if event_time else by(),
            batch_rows=batch_rows,
            batch_bytes=1 << 20,
        ),
    )
    run = [Group(rows, batch_rows, emits_rows) for rows, (emits_rows, _) in zip(base, groups, strict=True)]
    numbered: list[tuple[int, tuple[str, int | None, int]]] = []
    ordinal = 0
    for result in merge.run(run):
        assert result.num_rows > 0
        if isinstance(result, pa.RecordBatch):
            assert result.schema.names == list(COLUMNS) and result.num_rows <= batch_rows
            rows = [(row["key"], row["ts"], row["v"]) for row in result.to_pylist()]
            numbered += enumerate(rows, ordinal)
        ordinal += result.num_rows
    assert numbered == [(place, row) for place, row in enumerate(expected) if row[2] not in silent]
    assert ordinal == len(expected)
    outcomes = merge.outcomes()
    assert outcomes.won == sum(row[2] >= 100_000 for row in expected)
    assert outcomes.won + outcomes.lost_event_time + outcomes.duplicate + outcomes.deleted == len(records)


def test_batch_without_a_match_is_returned_unchanged() -> None:
    rows = [(f"base {number}", number, number) for number in range(10)]
    held = batch_of(rows)

    class Held(Group):
        def batches(self) -> Iterator[pa.RecordBatch]:
            yield held

    records = [Record("log", DATA, 5, row=("log", 5, 99))]
    spec = MergeSpec(columns=COLUMNS, key="key", ordering=by("ts"), batch_rows=100, batch_bytes=1 << 20)
    first, *rest = Merge(winners(records, True, True, 64), spec).run([Held(rows, 100)])
    assert [column.buffers()[-1].address for column in first.columns] == [
        column.buffers()[-1].address for column in held.select(list(COLUMNS)).columns
    ]
    assert [batch.to_pylist() for batch in rest] == [[{"key": "log", "ts": 5, "v": 99}]]
