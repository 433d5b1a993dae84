"""Rows of a write: kinds, the combination of repeated keys against a model, and refused keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import SchemaMismatch
from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering
from penstock.reader.merge.fold import RecordKind
from penstock.writer.rows.keyed_rows import (
    Deletes,
    KeyedRows,
    check_keys,
    combined,
    compacted,
    kinds_of,
    marked_deletes,
    one_array,
)
from penstock.writer.rows.partition_paths import RowPartitions

PATHS = ("p", "q")
RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 1), st.integers(0, 3), st.booleans()), min_size=1, max_size=30
)


CHUNK_ROWS = 4


def chunked(values: list[object], kind: pa.DataType) -> pa.ChunkedArray:
    """The values in chunks of CHUNK_ROWS."""
    chunks = [values[begin : begin + CHUNK_ROWS] for begin in range(0, len(values), CHUNK_ROWS)]
    return pa.chunked_array(chunks, kind)


def keyed(records: list[tuple[str, int, int, bool]], *, by_event_time: bool) -> KeyedRows:
    """Rows of (key, partition, ordering value, whether it deletes)."""
    keys, places, order, deletes = (list(column) for column in zip(*records, strict=True))
    return KeyedRows(
        rows=pa.Table.from_batches(pa.table({"n": range(len(records))}).to_batches(max_chunksize=CHUNK_ROWS)),
        keys=chunked(keys, pa.string()),
        partitions=RowPartitions(PATHS, np.array(places, np.int64)),
        kinds=np.where(deletes, RecordKind.DELETE, RecordKind.DATA).astype(np.uint8),
        ordering=(chunked(order, pa.int64()),) if by_event_time else (),
    )


@given(RECORDS, st.booleans(), st.booleans())
def test_combination_is_that_of_the_merge_rule(
    records: list[tuple[str, int, int, bool]], by_event_time: bool, in_table: bool
) -> None:
    mode = EventTimeOrdering(("o",)) if by_event_time else CommitTimeOrdering()
    winners: dict[object, int] = {}
    for place, (key, partition, order, _) in enumerate(records):
        name = key if in_table else (partition, key)
        if name not in winners or not by_event_time or order >= records[winners[name]][2]:
            winners[name] = place
    rows = combined(keyed(records, by_event_time=by_event_time), mode, in_table=in_table)
    assert rows.rows.column("n").to_pylist() == sorted(winners.values())
    assert rows.keys.to_pylist() == [records[place][0] for place in sorted(winners.values())]
    assert rows.kinds.tolist() == [
        RecordKind.DELETE if records[p][3] else RecordKind.DATA for p in sorted(winners.values())
    ]


def test_equal_keys_of_two_partitions_are_two_records() -> None:
    records = [("a", 0, 0, False), ("a", 1, 0, False), ("a", 0, 0, False)]
    rows = keyed(records, by_event_time=False)
    assert combined(rows, CommitTimeOrdering()).rows.column("n").to_pylist() == [1, 2]
    assert combined(rows, CommitTimeOrdering(), in_table=True).rows.column("n").to_pylist() == [2]


def test_kinds_follow_marker_and_operation() -> None:
    rows = pa.table({"_hoodie_is_deleted": pa.chunked_array([[True, None], [False, True]])})
    marked = marked_deletes(rows)
    assert marked.tolist() == [True, False, False, True]
    default = np.array([True, True, False, False])
    data, delete, always = RecordKind.DATA, RecordKind.DELETE, RecordKind.DEFAULT_DELETE
    assert kinds_of(rows, Deletes.MARKED, marked, default).tolist() == [always, data, data, delete]
    assert kinds_of(rows, Deletes.ALL, marked, default).tolist() == [always] * 4


@pytest.mark.parametrize("column", [pa.array(["true"]), pa.array([1])])
def test_only_a_boolean_column_marks_deletes(column: pa.Array) -> None:
    assert marked_deletes(pa.table({"_hoodie_is_deleted": column})).tolist() == [False]
    assert marked_deletes(pa.table({"other": column})).tolist() == [False]


def test_key_of_nulls_alone_is_refused() -> None:
    check_keys(pa.chunked_array([["a:__null__,b:1", "a:x,b:__empty__"]]), ["a", "b"], "table t")
    check_keys(pa.chunked_array([["a:__null__,b.c:__null__x"]]), ["a", "b.c"], "table t")
    with pytest.raises(SchemaMismatch, match="all key columns a, b are null or empty in row 1"):
        check_keys(pa.chunked_array([["a:1,b:1", "a:__null__,b:__empty__"]]), ["a", "b"], "table t")


@given(RECORDS, st.data())
def test_taken_rows_are_those_at_their_places(records: list[tuple[str, int, int, bool]], data: st.DataObject) -> None:
    places = sorted(data.draw(st.sets(st.integers(0, len(records) - 1))))
    rows = keyed(records, by_event_time=True)
    taken = rows.take(np.array(places, np.int64))
    assert taken.rows.column("n").to_pylist() == places
    assert taken.keys.to_pylist() == rows.keys_at(np.array(places, np.int64)).to_pylist()
    assert taken.keys.to_pylist() == [records[place][0] for place in places]
    assert taken.ordering[0].to_pylist() == [records[place][2] for place in places]
    assert [taken.partitions.paths[n] for n in taken.partitions.numbers] == [PATHS[records[p][1]] for p in places]
    batches = list(taken.batches())
    assert [n for batch, _ in batches for n in batch.column("n").to_pylist()] == places
    assert [key for _, keys in batches for key in keys.to_pylist()] == taken.keys.to_pylist()
    assert rows.data().rows.column("n").to_pylist() == [n for n, record in enumerate(records) if not record[3]]


def test_batches_are_joined_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = pa.table({"n": pa.array(range(10), pa.int64())}).to_batches(max_chunksize=2)
    empty = batches[0].slice(0, 0)
    joined = compacted([batches[0], empty, *batches[1:]], batches[0].schema)
    assert joined.column(0).num_chunks == 1 and joined.column(0).to_pylist() == list(range(10))
    monkeypatch.setattr("penstock.writer.rows.keyed_rows.CHUNK_BYTES", 40)
    joined = compacted([batches[0], empty, *batches[1:]], batches[0].schema)
    assert [len(chunk) for chunk in joined.column(0).chunks] == [4, 4, 2]
    assert joined.column(0).to_pylist() == list(range(10))
    assert compacted([empty], empty.schema).num_rows == 0


@pytest.mark.long
def test_rows_have_columns_with_more_text_than_two_gib() -> None:
    """Arrow cannot have such a column in one array, nor take from its chunks."""
    rows = 2200
    part = pa.array(["x" * (1 << 20)] * (rows // 2))
    table = pa.table({"a": pa.chunked_array([part, part])})
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        table.take(pa.array([1, 2]))
    texts = compacted(table.to_batches(), table.schema)
    keys = KeyedRows(
        rows=texts,
        keys=texts.column(0),
        partitions=RowPartitions(("",), np.zeros(rows, np.int64)),
        kinds=np.full(rows, RecordKind.DATA, np.uint8),
        ordering=(texts.column(0),),
    )
    some = keys.take(np.arange(0, rows, 2))
    assert len(some.rows.column("a")) == len(some.keys) == len(some.ordering[0]) == rows // 2
    assert one_array(keys.keys).type == pa.large_string() and one_array(some.keys).type == pa.string()
