"""The numbers of buckets that fit the keys of file groups: exactly those by which each key is in its group's bucket."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from penstock.writer.index.bucket_counts import BucketCounts, bucket_counts
from penstock.writer.kernels.bucket import bucket_numbers, key_hashes

NAMES = ("id",)


def groups(keys: list[str], buckets: int) -> list[tuple[str, np.ndarray]]:
    """The file groups that have these keys, by so many buckets."""
    texts = pa.array(keys, pa.string())
    numbers, hashes = bucket_numbers(texts, buckets, NAMES), key_hashes(texts, NAMES)
    return [(f"{bucket:08d}-x-0", hashes[numbers == bucket]) for bucket in np.unique(numbers).tolist()]


@pytest.mark.parametrize("seed", range(60))
def test_fitting_numbers_are_those_that_put_each_key_where_it_is(seed: int) -> None:
    draw = random.Random(seed)
    buckets = draw.choice([1, 2, 3, 4, 8, 12, 256])
    keys = [f"k{draw.randrange(10**6)}" for _ in range(draw.choice([1, 2, 3, 10, 200]))]
    some = groups(keys, buckets)
    counts = bucket_counts(some)
    assert counts is not None and counts.some()
    slow = [
        number
        for number in range(1, 600)
        if all((hashes % number == int(file_id[:8])).all() for file_id, hashes in some)
    ]
    assert [number for number in range(1, 600) if counts.fits(number)] == slow
    assert buckets in slow
    assert counts.only() in (None, buckets)
    if len(keys) == 200:
        assert counts.only() == buckets


def test_without_keys_any_number_of_enough_buckets_fits() -> None:
    counts = bucket_counts([("00000003-x", np.zeros(0, np.int64))])
    assert counts == BucketCounts(4, 0)
    assert (counts.fits(3), counts.fits(4), counts.fits(99), counts.only(), counts.some()) == (
        False,
        True,
        True,
        None,
        True,
    )


def test_groups_of_other_indexes_have_no_number() -> None:
    hashes = key_hashes(pa.array([f"k{n}" for n in range(9)]), NAMES)
    assert bucket_counts([("00000000-x", hashes), ("8d2f6c37-7c7d-47a0-b032-54bc196b1bed-0", hashes)]) is None
    counts = bucket_counts([("12345678-7c7d-47a0-b032-54bc196b1bed-0", hashes[:1])])
    assert counts is not None and not counts.some(), "a random id may begin with digits"
    counts = bucket_counts([("00000001-x", hashes)])
    assert counts is not None and not counts.some() and counts.only() is None
