"""Rows get their partition, and their bucket or key, in the order of the data frame."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from penstock.engine.spark.write.columns import DATA, KEY, PARTITION, ROW, ROWS_OF_PARTITION, SLOT, SPREAD_OF_KEY, TAGS
from penstock.engine.spark.write.tagging import Tagging, tag_rows
from penstock.engine.write.index.group_plan import NEW, SPREAD
from penstock.engine.write.index.index_choice import BucketIndex, KeyIndex
from penstock.proto.errors import SchemaMismatch
from penstock.writer.kernels.bucket import bucket_numbers
from tests.unit.engine.spark.write.opened_table import opened
from tests.unit.engine.write.recorded_storage import Kind, Lake, arrow

ROWS = [("a", 1, "oslo"), ("b", 2, "bern"), ("c", 3, "oslo"), ("a", 4, "oslo")]


def tagged(tagging: Tagging, rows: pa.Table, names: Sequence[str] = (), first: int = 0) -> pa.Table:
    """The tags of the rows in two batches, by the function that Spark pickles."""
    names = names or rows.schema.names
    function = tag_rows(pickle.loads(pickle.dumps(tagging)), names)
    numbered = rows.select(list(names)).add_column(0, ROW, pa.array(range(first, first + rows.num_rows), pa.int64()))
    parts = [numbered.slice(begin, count) for begin, count in ((0, 2), (2, 0), (2, 2))]
    batches = (tuple(column.combine_chunks() for column in part.columns) for part in parts)
    return pa.concat_tables([pa.Table.from_struct_array(tags) for tags in function(batches)])


def test_rows_of_a_bucket_index_have_their_bucket(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake((9, "merge_on_read", "bucket"))
    rows = tagged(Tagging(opened(lake), BucketIndex(2), False), arrow(ROWS, ("b",)))
    assert rows.schema == TAGS
    assert rows[PARTITION].to_pylist() == ["oslo", "bern", "oslo", "oslo"]
    keys = pa.array([key for key, _, _ in ROWS])
    assert rows[SLOT].to_pylist() == bucket_numbers(keys, 2, ("id",)).tolist()
    assert rows[DATA].to_pylist() == [True, False, True, True]


def test_rows_of_a_key_index_have_their_key_and_its_hash(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake((9, "copy_on_write", "simple"))
    rows = tagged(Tagging(opened(lake), KeyIndex(), True), arrow(ROWS))
    assert rows[KEY].to_pylist() == [key for key, _, _ in ROWS]
    assert rows[SLOT].to_pylist() == [NEW] * 4
    spread = rows[SPREAD_OF_KEY].to_pylist()
    assert spread[0] == spread[3] != spread[1] and all(0 <= one < SPREAD for one in spread)
    assert KEY not in tagged(Tagging(opened(lake, "insert"), KeyIndex(), False), arrow(ROWS)).schema.names


def test_deletes_need_keys_and_partitions_only(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake((9, "copy_on_write", "simple"))
    rows = tagged(Tagging(opened(lake, "delete"), KeyIndex(), True), arrow(ROWS), ["id", "city"])
    assert rows[DATA].to_pylist() == [False] * 4


def test_bad_row_is_an_error_with_its_number(make_lake: Callable[[Kind], Lake]) -> None:
    tagging = Tagging(opened(make_lake((9, "merge_on_read", "bucket"))), BucketIndex(2), False)
    rows = arrow([*ROWS[:3], (None, 1, "oslo")])  # type: ignore[list-item]
    with pytest.raises(SchemaMismatch, match="key column 'id' is null in 1 rows, the first is row 3"):
        tagged(tagging, rows, first=ROWS_OF_PARTITION)
