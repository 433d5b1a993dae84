"""Compares the index of a write with keys in the table's files: Hudi stores no index, and a wrong one repeats rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.index.index_choice import BucketIndex, Index, KeyIndex, UncountedBuckets
from penstock.engine.write.settings import WriteSettings
from penstock.proto.errors import ConfigurationError, TableError
from penstock.table.files.buckets import BUCKETS, INDEX_TYPE
from penstock.writer.index.bucket_counts import BucketCounts, bucket_counts
from penstock.writer.index.slices import LatestSlice
from penstock.writer.kernels.bucket import key_hashes

_GROUPS: Final = 16
"""File groups whose keys are read, spread over the table."""
_KEYS: Final = 1024
"""The most keys of a file group that are compared. By half as many buckets, or twice, a key has the same bucket with
a probability of 1/2."""
_REPEATS: Final = "writing would repeat rows, so nothing was written"


def index_of_files(index: Index | UncountedBuckets, current: CurrentTable, settings: WriteSettings) -> Index:
    """The index, with the number of buckets that the files have if none is given.

    If the table does not record its index, the first keys of some of its file groups are read. TableError if they are
    not in the buckets that the index gives them, or if they are in buckets and the index has none. ConfigurationError
    if no number of buckets is given, and the keys fit more than one.
    """
    raw, slices = settings.properties.raw, current.slices.all()
    is_recorded = bool(raw.get(INDEX_TYPE, "").strip())
    if is_recorded and not isinstance(index, UncountedBuckets) and (isinstance(index, KeyIndex) or raw.get(BUCKETS)):
        return index
    counts = _counts(current, settings) if slices else None
    if isinstance(index, KeyIndex):
        if counts is not None and counts.some():
            raise TableError(
                f"{settings.where}: its file groups are buckets, such as {slices[0].file_id}, and the index of this "
                f"write has none: {_REPEATS}; give index='bucket' with the number of buckets that its other writers use"
            )
        return index
    if not slices:
        return _counted(index, None, settings)
    if counts is None:
        raise TableError(
            f"{settings.where}: its file groups, such as {slices[0].file_id}, are none of a bucket index: {_REPEATS}; "
            "give the index that its other writers use"
        )
    counted = _counted(index, counts, settings)
    if not counts.fits(counted.buckets):
        only = counts.only()
        raise TableError(
            f"{settings.where}: got buckets={counted.buckets}, and keys in its files are in other buckets than by this "
            f"number{f': its files have {only} buckets' if only else ''}: {_REPEATS}; give the number of buckets that "
            "its other writers use"
        )
    return counted


def _counted(
    index: BucketIndex | UncountedBuckets, counts: BucketCounts | None, settings: WriteSettings
) -> BucketIndex:
    if isinstance(index, BucketIndex):
        return index
    number = counts.only() if counts else None
    if number is None:
        raise ConfigurationError(
            f"{settings.where}: a bucket index needs the number of buckets, which Hudi does not store"
            f"{', and which the keys in its files do not tell' if counts else ''}: give `buckets`, the same number "
            "as in all its writers"
        )
    return BucketIndex(number)


def _counts(current: CurrentTable, settings: WriteSettings) -> BucketCounts | None:
    slices = current.slices.all()
    read = {slices[place].group for place in np.linspace(0, len(slices) - 1, _GROUPS).astype(int).tolist()}
    none = np.zeros(0, np.int64)
    return bucket_counts(
        (item.file_id, _hashes(current, item, settings) if item.group in read else none) for item in slices
    )


def _hashes(current: CurrentTable, item: LatestSlice, settings: WriteSettings) -> np.ndarray:
    """The hashes of the first keys of a slice; none of keys that releases of Hudi hash differently."""
    is_old = settings.properties.version == 6
    try:
        return np.concatenate(
            [
                np.zeros(0, np.int64),
                *(key_hashes(keys, settings.key_fields, as_hudi_0_15=is_old) for keys in _first_keys(current, item)),
            ]
        )
    except ConfigurationError:
        return np.zeros(0, np.int64)


def _first_keys(current: CurrentTable, item: LatestSlice) -> Iterator[pa.Array]:
    """The first keys of the base file, or of the logs of a slice that has only logs."""
    batches = current.keys_of(item) if item.base else (rows.column(0) for rows in current.live_rows(item, ()))
    left = _KEYS
    for keys in batches:
        yield keys.slice(0, left).cast(pa.string())
        left -= len(keys)
        if left <= 0:
            return
