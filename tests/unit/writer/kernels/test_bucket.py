"""Buckets of record keys: the numbers of Hudi 1.2.0 and 0.15.0, a plain reference, and the files of a golden table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.writer.kernels.bucket import bucket_numbers

BUCKETS = 1_000_003
BY_HUDI: list[tuple[tuple[str, ...], str, int, int]] = [
    (("id",), "", 31, 31),
    (("id",), "k1", 3397, 3397),
    (("id",), "é", 264, 264),
    (("id",), "Ω7", 29133, 29133),
    (("id",), "😀", 772927, 772927),
    (("id",), "\ue000x", 777812, 777812),
    (("id",), "a,b", 94710, 94710),
    (("id",), "__null__", 821906, 821906),
    (("id",), "a:b", 95144, 1),
    (("id",), "urn:x:1", 381591, 1),
    (("id",), "id:v", 226093, 149),
    (("id",), "a,b:c", 988177, 128),
    (("k1", "k2"), "k1:a,k2:b", 4066, 4066),
    (("k1", "k2"), "k1:a,b,k2:d", 936104, 126146),
    (("k1", "k2"), "k1:a:b,k2:c", 949557, 949557),
    (("k1", "k2"), "k1:__null__,k2:__empty__", 961, 961),
    (("k1", "k2"), "k1:😀,k2:é", 960901, 960901),
    (("k2",), "k1:a,k2:b", 129, 129),
    (("k1",), "k1:a,k2:b", 128, 128),
    (("id", "k2"), "id:x:3,y,k2:21", 142597, 634214),
]
"""(hash fields, key, bucket by `BucketIdentifier.getBucketId` of Hudi 1.2.0, of 0.15.0), among BUCKETS buckets."""


@pytest.mark.parametrize(("fields", "key", "bucket", "_"), BY_HUDI)
def test_bucket_is_that_of_hudi(fields: tuple[str, ...], key: str, bucket: int, _: int) -> None:
    assert bucket_numbers(pa.array([key]), BUCKETS, fields).tolist() == [bucket]


@pytest.mark.parametrize(("fields", "key", "bucket", "of_0_15"), BY_HUDI)
def test_key_that_hudi_0_15_hashes_otherwise_is_refused(
    fields: tuple[str, ...], key: str, bucket: int, of_0_15: int
) -> None:
    if bucket == of_0_15:
        assert bucket_numbers(pa.array([key]), BUCKETS, fields, as_hudi_0_15=True).tolist() == [bucket]
    else:
        with pytest.raises(ConfigurationError, match=r"Hudi 0\.15 and 1\.x"):
            bucket_numbers(pa.array(["fine", key]), BUCKETS, fields, as_hudi_0_15=True)


def java_hash(text: str) -> int:
    units = text.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value


def values_of(key: str, fields: tuple[str, ...]) -> list[str]:
    """`KeyGenUtils.extractRecordKeysByFields` of Hudi 1.2.0, line by line; OverflowError where it does not end."""
    if "," not in key or ":" not in key:
        return [key]
    values: list[str] = []
    at = 0
    while at < len(key):
        colon = key.index(":", at)
        following = key.find(":", colon + 1)
        named = key[at:colon] in fields
        if following < 0:
            comma = -1
        else:
            comma = key.rfind(",", 0, following + 1)
            while comma < colon and following > 0:
                following = key.find(":", following + 1)
                comma = key.rfind(",", 0, following + 1) if following >= 0 else -1
            if comma < colon and not named:
                raise OverflowError
        end = comma if comma >= 0 else len(key)
        if named:
            values.append(key[colon + 1 : end])
        at = comma + 1 if comma >= 0 else len(key)
    return values or [key]


PIECES = ["a", "b", ":", ",", "k1", "k2", "k1:", ",k2:", "__null__", "__empty__", "é", "Ω", "\ue000", "😀", " "]


@given(
    st.lists(st.lists(st.sampled_from(PIECES), max_size=9).map("".join), max_size=5),
    st.sampled_from([("id",), ("k1", "k2"), ("k2",), ("a", "b")]),
    st.sampled_from([1, 3, 256, BUCKETS]),
    st.integers(0, 2),
)
def test_buckets_are_those_of_the_reference(keys: list[str], fields: tuple[str, ...], buckets: int, first: int) -> None:
    expected = []
    for key in keys:
        value = 1
        try:
            texts = values_of(key, fields)
        except OverflowError:
            with pytest.raises(ConfigurationError, match="no release of Hudi"):
                bucket_numbers(pa.array([key]), buckets, fields)
            return
        for text in texts:
            special = text in ("__null__", "__empty__") and len(key) > len(text)
            value = (31 * value + (0 if special else java_hash(text))) & 0xFFFFFFFF
        expected.append((value & 0x7FFFFFFF) % buckets)
    array = pa.array([*["x"] * first, *keys], pa.string()).slice(first)
    numbers = bucket_numbers(array, buckets, fields)
    assert numbers.dtype == np.int32
    assert numbers.tolist() == expected


def test_key_for_which_hudi_loops_for_ever_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no release of Hudi"):
        bucket_numbers(pa.array(["a,b:c:d"]), 4, ("id",))


@pytest.mark.parametrize(("keys", "buckets", "fields"), [([None], 4, ("id",)), (["a"], 0, ("id",)), (["a"], 4, ())])
def test_impossible_arguments_are_refused(keys: list[str | None], buckets: int, fields: tuple[str, ...]) -> None:
    with pytest.raises(InvariantViolation):
        bucket_numbers(pa.array(keys, pa.string()), buckets, fields)


@pytest.mark.golden
def test_files_of_golden_table_hold_the_keys_of_their_buckets(golden: Any) -> None:
    table = golden.table("B_v9_cdc_mor_bucket")
    seen = set()
    for file in table.glob("p=*/*.parquet"):
        keys = pq.read_table(file, columns=["_hoodie_record_key"])[0].combine_chunks()
        bucket = int(file.name[:8])
        assert set(bucket_numbers(keys, 2, ("id",)).tolist()) <= {bucket}
        seen.add(bucket)
    assert seen == {0, 1}
