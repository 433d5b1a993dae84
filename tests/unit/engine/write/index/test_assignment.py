"""Rows by file group: by bucket, by the simple index, and not into groups that a pending service rewrites."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.write.current_table import CurrentTable, current_table
from penstock.engine.write.index.assignment import Assigner
from penstock.engine.write.index.index_choice import BucketIndex, Index, KeyIndex
from penstock.engine.write.operations import Operation
from penstock.proto.errors import ConfigurationError, WriteConflict
from penstock.reader.merge.fold import RecordKind
from penstock.table.files.slices import GroupId
from penstock.writer.index.new_groups import FileSizes
from penstock.writer.index.slices import GroupWrite, TableSlices
from penstock.writer.kernels.bucket import bucket_numbers
from penstock.writer.rows.keyed_rows import KeyedRows
from penstock.writer.rows.partition_paths import RowPartitions
from tests.unit.engine.write.recorded_storage import FIRST, Lake

DATA, DELETE = RecordKind.DATA, RecordKind.DELETE
SIZES = FileSizes(max_file_bytes=1 << 20, small_file_bytes=1 << 19, row_bytes=100)
STORED = sorted(key for key, _, city in FIRST if city == "oslo")


@pytest.fixture
def bucket(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """An empty table of the bucket index."""
    return Lake(tmp_path / "b", (9, "copy_on_write", "bucket"), monkeypatch)


@pytest.fixture
def simple(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> CurrentTable:
    """A table of the simple index with one file group in each of two partitions."""
    lake = Lake(tmp_path / "t", (9, "copy_on_write", "simple"), monkeypatch)
    lake.write(FIRST, "insert")
    return current_table(lake.table())


def assigner(index: Index, operation: Operation = Operation.UPSERT) -> Assigner:
    numbers = itertools.count(1)
    return Assigner(
        index=index,
        operation=operation,
        sizes=SIZES,
        new_uuid=lambda: f"{next(numbers):08d}-0000-4000-8000-000000000000",
        key_fields=("id",),
        ordering_fields=(),
        where="table t",
    )


def rows(keys: Sequence[str], kinds: Sequence[RecordKind] = (), partition: str = "oslo") -> KeyedRows:
    column = pa.chunked_array([list(keys)], pa.string())
    return KeyedRows(
        rows=pa.table({"id": column}),
        keys=column,
        partitions=RowPartitions((partition,), np.zeros(len(keys), np.int64)),
        kinds=np.array(kinds or [DATA] * len(keys), np.uint8),
        ordering=(),
    )


def group_of(current: CurrentTable, partition: str = "oslo") -> GroupId:
    (item,) = current.slices.of(partition)
    return item.group


def locked(current: CurrentTable, *groups: GroupId) -> CurrentTable:
    return replace(current, slices=TableSlices(current.slices.by_partition, frozenset(groups)))


def groups(one: Assigner, current: CurrentTable, data: KeyedRows, sizes: FileSizes) -> list[GroupWrite]:
    return [write for write, _ in one.group_writes(current, data, sizes)]


def places(current: CurrentTable, one: Assigner, data: KeyedRows) -> list[tuple[str, list[int], bool]]:
    """File id, rows, and whether a base file is rewritten to hold new keys."""
    return [(item.file_id, item.rows.tolist(), item.rewrites) for item in groups(one, current, data, SIZES)]


def test_bucket_of_row_is_hash_of_key(bucket: Lake) -> None:
    current = current_table(bucket.table())
    data, index = rows([f"k{n}" for n in range(20)]), BucketIndex(4)
    expected = bucket_numbers(data.keys.chunk(0), 4, ("id",), as_hudi_0_15=False)
    numbers = assigner(index).buckets(data, 9)
    assert numbers.tolist() == expected.tolist() and numbers.dtype == np.int64 and len(set(expected)) == 4
    for item in groups(assigner(index), current, data, SIZES):
        assert {int(item.file_id[:8])} == set(expected[item.rows]) and item.latest is None
    assert assigner(index).buckets(rows([]), 9).tolist() == []
    assert assigner(KeyIndex()).buckets(data, 9).tolist() == [0] * 20


def test_bulk_insert_into_bucket_with_group_is_refused(bucket: Lake) -> None:
    bucket.write([("k1", 1, "oslo")])
    current = current_table(bucket.table())
    one = assigner(BucketIndex(2), Operation.BULK_INSERT)
    with pytest.raises(ConfigurationError, match=r"table t: bulk_insert into buckets .* second file group: use insert"):
        groups(one, current, rows(["k1"]), SIZES)
    assert len(groups(one, current, rows(["k1"], partition="riga"), SIZES)) == 1
    assert len(groups(assigner(BucketIndex(2)), current, rows(["k1"]), SIZES)) == 1


def test_upsert_joins_new_keys_with_updates_of_small_group(simple: CurrentTable) -> None:
    group = group_of(simple)[1]
    one = assigner(KeyIndex())
    assert places(simple, one, rows([STORED[0], STORED[1]])) == [(group, [0, 1], False)]
    assert places(simple, one, rows(["new", STORED[0], "other"])) == [(group, [1, 0, 2], True)]
    assert places(simple, one, rows(["new"])) == [(group, [0], True)]


def test_delete_of_unknown_key_belongs_to_no_group(simple: CurrentTable) -> None:
    data = rows(["unknown", STORED[0]], [DELETE, DELETE])
    assert places(simple, assigner(KeyIndex()), data) == [(group_of(simple)[1], [1], False)]


def test_insert_searches_no_keys_and_bulk_insert_fills_no_files(simple: CurrentTable) -> None:
    data, group = rows([STORED[0], "new"]), group_of(simple)[1]
    assert places(simple, assigner(KeyIndex(), Operation.INSERT), data) == [(group, [0, 1], True)]
    ((file_id, places_of_rows, rewrites),) = places(simple, assigner(KeyIndex(), Operation.BULK_INSERT), data)
    assert file_id == "00000001-0000-4000-8000-000000000000-0" != group
    assert (places_of_rows, rewrites) == ([0, 1], False)


def test_rows_of_locked_group_are_conflict(simple: CurrentTable) -> None:
    group = group_of(simple)
    current = locked(simple, group)
    one = assigner(KeyIndex())
    words = f"table t: file group {group[1]} of partition 'oslo' is being rewritten .*write again when it has completed"
    with pytest.raises(WriteConflict, match=words):
        groups(one, current, rows([STORED[0]]), SIZES)
    ((file_id, _, _),) = places(current, one, rows(["new"]))
    assert file_id != group[1], "new keys go to another group"
    assert len(groups(one, current, rows(["new"], partition="riga"), SIZES)) == 1


def test_locked_bucket_is_conflict(bucket: Lake) -> None:
    bucket.write([("k1", 1, "oslo")])
    current = current_table(bucket.table())
    with pytest.raises(WriteConflict, match="being rewritten"):
        groups(assigner(BucketIndex(2)), locked(current, group_of(current)), rows(["k1"]), SIZES)


def test_deletes_have_groups_by_bucket_or_search() -> None:
    cases = [(BucketIndex(2), Operation.INSERT), (KeyIndex(), Operation.UPSERT), (KeyIndex(), Operation.INSERT)]
    assert [assigner(index, operation).finds_groups_of_deletes for index, operation in cases] == [True, True, False]


def test_sizes_of_simple_index_have_average_row_of_table(simple: CurrentTable) -> None:
    one = replace(assigner(KeyIndex()), sizes=replace(SIZES, small_file_bytes=0))
    stats = [stat for item in simple.table.timeline().completed_writes for stat in simple.table.commit(item).stats]
    average = -(-sum(stat.file_size_bytes for stat in stats) // 8)
    assert one.sizes_of(simple) == replace(one.sizes, row_bytes=average, small_files=None)
    assert average != SIZES.row_bytes
    assert assigner(BucketIndex(2)).sizes_of(simple) == SIZES, "it fills no files"
