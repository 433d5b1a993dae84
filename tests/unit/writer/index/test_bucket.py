"""The bucket index: one file group for each bucket, and refusals of groups that are none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.proto.errors import TableError
from penstock.reader.merge.fold import RecordKind
from penstock.table.files.buckets import bucket_of_file_id
from penstock.writer.index.bucket import assign_buckets, bucket_file_id, slices_of_buckets
from penstock.writer.index.slices import LatestSlice, TableSlices
from penstock.writer.rows.keyed_rows import KeyedRows
from penstock.writer.rows.partition_paths import RowPartitions

UUID = "12345678-0000-4000-8000-0123456789ab"


def slice_of(file_id: str, partition: str = "a") -> LatestSlice:
    return LatestSlice(partition=partition, file_id=file_id, base=None, base_instant="", logs=(), key="1")


@pytest.mark.parametrize(
    ("file_id", "bucket"),
    [
        ("00000003-0000-4000-8000-0123456789ab-0", 3),
        ("00000012-0000-4000-8000-0123456789ab", 12),
        (UUID, 12345678),
        ("8d2f6c37-7c7d-47a0-b032-54bc196b1bed-0", None),
        ("٣0000003-x", None),
        ("0000", None),
    ],
)
def test_bucket_of_a_file_id(file_id: str, bucket: int | None) -> None:
    assert bucket_of_file_id(file_id) == bucket


def test_new_file_id_is_that_of_hudi() -> None:
    assert bucket_file_id(7, lambda: UUID) == "00000007-0000-4000-8000-0123456789ab-0"
    assert bucket_of_file_id(bucket_file_id(7, lambda: UUID)) == 7


@pytest.mark.parametrize(
    ("file_ids", "words"),
    [
        (["00000004-x"], "is none of 4 buckets"),
        (["8d2f6c37-x"], "is none of 4 buckets"),
        (["00000001-x", "00000001-y"], "bucket 1 has two file groups, 00000001-x and 00000001-y"),
    ],
)
def test_groups_of_another_index_are_refused(file_ids: list[str], words: str) -> None:
    with pytest.raises(TableError, match=words):
        slices_of_buckets([slice_of(one) for one in file_ids], 4, "table t")


def test_rows_are_assigned_by_partition_and_bucket() -> None:
    rows = KeyedRows(
        rows=pa.table({"id": list("uvwxyz")}),
        keys=pa.chunked_array([list("uvwxyz")]),
        partitions=RowPartitions(("a", "b"), np.array([1, 0, 0, 1, 0, 1])),
        kinds=np.full(6, RecordKind.DATA, np.uint8),
        ordering=(),
    )
    known = slice_of("00000001-old-0")
    other = slice_of("00000001-old-0", "b")
    slices = TableSlices({"a": [known], "b": [other]}, frozenset())
    writes = assign_buckets(rows, np.array([1, 0, 1, 1, 1, 0]), slices, 2, lambda: UUID, "table t")
    assert [(one.partition, one.file_id, one.rows.tolist()) for one in writes] == [
        ("a", f"00000000{UUID[8:]}-0", [1]),
        ("a", "00000001-old-0", [2, 4]),
        ("b", f"00000000{UUID[8:]}-0", [5]),
        ("b", "00000001-old-0", [0, 3]),
    ]
    assert [one.latest for one in writes] == [None, known, None, other]
    replaced = assign_buckets(rows, np.full(6, 1), slices.without([known.group]), 2, lambda: UUID, "table t")
    assert [one.latest for one in replaced] == [None, other]
