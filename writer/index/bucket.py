"""The simple bucket index: the hash of a key determines the bucket, and each bucket of a partition has one file group.

Source: Hudi `HoodieSimpleBucketIndex`, `BucketIdentifier`: the first 8 characters of a file id are the bucket's number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from penstock.proto.errors import TableError
from penstock.table.files.buckets import DIGITS, bucket_of_file_id
from penstock.writer.index.slices import NO_ROWS, GroupWrite, LatestSlice, TableSlices
from penstock.writer.rows.keyed_rows import KeyedRows


def bucket_file_id(bucket: int, new_uuid: Callable[[], str]) -> str:
    """The id of a new file group of a bucket, as Hudi's Spark writers name it."""
    return f"{bucket:0{DIGITS}d}{new_uuid()[DIGITS:]}-0"


def slices_of_buckets(slices: Sequence[LatestSlice], buckets: int, where: str) -> dict[int, LatestSlice]:
    """Bucket -> slice of a partition. TableError, beginning with `where`, if the file groups are no buckets, or not
    those of so many buckets: a write would put keys into other groups than before, and so repeat rows."""
    found: dict[int, LatestSlice] = {}
    for item in slices:
        bucket = bucket_of_file_id(item.file_id)
        if bucket is None or bucket >= buckets:
            raise TableError(
                f"{where}, partition {item.partition!r}: file group {item.file_id} is none of {buckets} buckets: the "
                "table has another index or another number of buckets; writing would repeat rows, so nothing was "
                "written; give the index and the number of buckets that the table's other writers use"
            )
        if bucket in found:
            raise TableError(
                f"{where}, partition {item.partition!r}: bucket {bucket} has two file groups, {found[bucket].file_id} "
                f"and {item.file_id}; Hudi refuses to write such a table too"
            )
        found[bucket] = item
    return found


def assign_buckets(
    rows: KeyedRows,
    numbers: np.ndarray,
    slices: TableSlices,
    buckets: int,
    new_uuid: Callable[[], str],
    where: str,
) -> list[GroupWrite]:
    """The rows by file group, in the order of partition and bucket. `numbers` is the bucket of each row."""
    codes = rows.partitions.numbers * buckets + numbers
    order = np.argsort(codes, kind="stable")
    distinct, starts = np.unique(codes[order], return_index=True)
    parts = np.split(order, starts[1:]) if len(order) else []
    groups = [(rows.partitions.paths[code // buckets], code % buckets) for code in distinct.tolist()]
    writes = writes_of_buckets(groups, slices, buckets, new_uuid, where)
    return [replace(write, rows=places) for write, places in zip(writes, parts, strict=True)]


def writes_of_buckets(
    groups: Iterable[tuple[str, int]],
    slices: TableSlices,
    buckets: int,
    new_uuid: Callable[[], str],
    where: str,
) -> list[GroupWrite]:
    """The file group of each (partition, bucket), without row numbers. Errors of `slices_of_buckets`."""
    writes: list[GroupWrite] = []
    known: dict[str, dict[int, LatestSlice]] = {}
    for partition, bucket in groups:
        if partition not in known:
            known[partition] = slices_of_buckets(slices.of(partition), buckets, where)
        latest = known[partition].get(bucket)
        file_id = latest.file_id if latest else bucket_file_id(bucket, new_uuid)
        writes.append(GroupWrite(partition, file_id, latest, NO_ROWS))
    return writes
