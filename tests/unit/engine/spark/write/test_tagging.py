"""Rows get their partition, and their bucket or key, in the order of the data frame."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.engine.spark.write.columns import DATA, KEY, PARTITION, ROW, SLOT, SPREAD_OF_KEY, TAGS
from penstock.engine.spark.write.tagging import Tagging, tag_rows
from penstock.engine.write.index.group_plan import NEW, SPREAD
from penstock.engine.write.index.index_choice import BucketIndex, KeyIndex
from penstock.proto.errors import SchemaMismatch
from penstock.writer.kernels.bucket import bucket_numbers
from tests.unit.engine.spark.write.opened_table import opened
from tests.unit.engine.write.recorded_storage import Kind, Lake, arrow

ROWS = [("a", 1, "oslo"), ("b", 2, "bern"), ("c", 3, "oslo"), ("a", 4, "oslo")]


def batches(deleted: tuple[str, ...] = ()) -> list[pa.RecordBatch]:
    """The rows in batches of two, with an empty one between."""
    rows = arrow(ROWS, deleted)
    return [rows.slice(begin, count).combine_chunks().to_batches()[0] for begin, count in ((0, 2), (2, 2))]


def tagged(tagging: Tagging, deleted: tuple[str, ...] = ()) -> pa.Table:
    """The rows by the function that Spark pickles."""
    copied: Tagging = pickle.loads(pickle.dumps(tagging))
    first, second = batches(deleted)
    return pa.Table.from_batches(tag_rows(copied)(iter([first, first.slice(0, 0), second])))


def test_rows_of_a_bucket_index_have_their_bucket(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake((9, "merge_on_read", "bucket"))
    rows = tagged(Tagging(opened(lake), BucketIndex(2), False), deleted=("b",))
    assert rows.schema.names[: len(TAGS)] == TAGS.names and rows.schema.field(0) == TAGS.field(0)
    assert rows[PARTITION].to_pylist() == ["oslo", "bern", "oslo", "oslo"]
    keys = pa.array([key for key, _, _ in ROWS])
    assert rows[SLOT].to_pylist() == bucket_numbers(keys, 2, ("id",)).tolist()
    assert rows[ROW].to_pylist() == [0, 1, 2, 3]
    assert rows[DATA].to_pylist() == [True, False, True, True]
    assert rows.select(arrow(ROWS).schema.names).equals(arrow(ROWS, ("b",))), "the data is as it came"


def test_rows_of_a_key_index_have_their_key_and_its_hash(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake((9, "copy_on_write", "simple"))
    rows = tagged(Tagging(opened(lake), KeyIndex(), True))
    assert rows[KEY].to_pylist() == [key for key, _, _ in ROWS]
    assert rows[SLOT].to_pylist() == [NEW] * 4
    spread = rows[SPREAD_OF_KEY].to_pylist()
    assert spread[0] == spread[3] != spread[1] and all(0 <= one < SPREAD for one in spread)
    assert KEY not in tagged(Tagging(opened(lake, "insert"), KeyIndex(), False)).schema.names


def test_deletes_need_keys_and_partitions_only(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake((9, "copy_on_write", "simple"))
    tagging = Tagging(opened(lake, "delete"), KeyIndex(), True)
    rows = pa.Table.from_batches(tag_rows(tagging)(iter(batches()[0].select(["id", "city"]) for _ in range(1))))
    assert rows[DATA].to_pylist() == [False, False]


def test_bad_row_is_an_error_with_its_number(make_lake: Callable[[Kind], Lake]) -> None:
    tagging = Tagging(opened(make_lake((9, "merge_on_read", "bucket"))), BucketIndex(2), False)
    bad = pa.RecordBatch.from_pylist([{"id": "x", "seq": 1, "city": "oslo"}, {"id": None, "seq": 1, "city": "oslo"}])
    with pytest.raises(SchemaMismatch, match="key column 'id' is null in 1 rows, the first is row 3"):
        list(tag_rows(tagging)(iter([batches()[0].select(bad.schema.names), bad])))
