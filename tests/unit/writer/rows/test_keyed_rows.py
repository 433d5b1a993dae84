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
    kinds_of,
    marked_deletes,
    one_batch,
)
from penstock.writer.rows.partition_paths import RowPartitions

PATHS = ("p", "q")
RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 1), st.integers(0, 3), st.booleans()), min_size=1, max_size=30
)


def keyed(records: list[tuple[str, int, int, bool]], *, by_event_time: bool) -> KeyedRows:
    """Rows of (key, partition, ordering value, whether it deletes)."""
    keys, places, order, deletes = (list(column) for column in zip(*records, strict=True))
    return KeyedRows(
        rows=pa.table({"n": range(len(records))}),
        keys=pa.array(keys),
        partitions=RowPartitions(PATHS, np.array(places, np.int64)),
        kinds=np.where(deletes, RecordKind.DELETE, RecordKind.DATA).astype(np.uint8),
        ordering=(pa.array(order, pa.int64()),) if by_event_time else (),
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
    check_keys(pa.array(["a:__null__,b:1", "a:x,b:__empty__"]), ["a", "b"], "table t")
    check_keys(pa.array(["a:__null__,b.c:__null__x"]), ["a", "b.c"], "table t")
    with pytest.raises(SchemaMismatch, match="all key columns a, b are null or empty in row 1"):
        check_keys(pa.array(["a:1,b:1", "a:__null__,b:__empty__"]), ["a", "b"], "table t")


def test_one_batch_has_all_chunks() -> None:
    rows = pa.table({"a": pa.chunked_array([["x"], [], ["y", None]]), "b": pa.chunked_array([[1, 2, 3]])})
    assert one_batch(rows, "table t").to_pydict() == rows.to_pydict()
    assert one_batch(rows.slice(0, 0), "table t").num_rows == 0


@pytest.mark.exhaustive
def test_text_beyond_two_gib_is_refused() -> None:
    part = pa.array(["x" * (1 << 20)] * 1100)
    rows = pa.table({"a": pa.chunked_array([part, part])})
    with pytest.raises(SchemaMismatch, match=r"more than 2 GiB of text .* in 2200 rows"):
        one_batch(rows, "table t")
