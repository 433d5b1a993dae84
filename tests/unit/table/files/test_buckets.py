"""Buckets of keys and file ids, against the writer's kernel and Hudi's own tables."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.config.properties import TableProperties, parse_table_properties
from penstock.table.files.buckets import bucket_of_file_id, bucket_of_key, recorded_buckets
from penstock.writer.kernels.bucket import bucket_numbers

KEYS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@given(keys=st.lists(KEYS, min_size=1, max_size=30), buckets=st.integers(1, 1 << 20))
def test_the_bucket_of_a_key_is_that_of_the_writers_kernel(keys: list[str], buckets: int) -> None:
    plain = [key.replace(",", "").replace(":", "") for key in keys]
    assert [bucket_of_key(key, buckets) for key in plain] == bucket_numbers(pa.array(plain), buckets, ("id",)).tolist()


@pytest.mark.parametrize("key", ["a,b", "a:b", "id:1,k:2", ",", ":"])
def test_a_key_of_which_hudi_may_hash_parts_has_no_known_bucket(key: str) -> None:
    assert bucket_of_key(key, 4) is None


def test_supplementary_characters_count_as_two_units() -> None:
    assert bucket_of_key("\U0001f600", 1 << 20) == ((31 + 0xD83D * 31 + 0xDE00) & 0x7FFFFFFF) % (1 << 20)


@pytest.mark.parametrize(
    ("file_id", "bucket"),
    [
        ("00000012-052e-4a9c-b004-bea8a573603d-0", 12),
        ("00000012", 12),
        ("0000001a-052e-4a9c-b004-bea8a573603d-0", None),
        ("1234567", None),
        ("٠٠٠٠٠٠٠١-x", None),
    ],
)
def test_the_bucket_of_a_file_id(file_id: str, bucket: int | None) -> None:
    assert bucket_of_file_id(file_id) == bucket


def properties(**changed: str) -> TableProperties:
    text = "hoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=6\n"
    parsed = parse_table_properties((text + "hoodie.timeline.layout.version=1\n").encode(), "/t")
    return replace(parsed, raw={name.replace("__", "."): value for name, value in changed.items()})


@pytest.mark.parametrize(
    ("changed", "number"),
    [
        ({}, 4),
        ({"hoodie__index__type": "bucket"}, 4),
        ({"hoodie__index__bucket__engine": "SIMPLE"}, 4),
        ({"hoodie__index__bucket__engine": "CONSISTENT_HASHING"}, None),
        ({"hoodie__index__type": "SIMPLE"}, None),
        ({"hoodie__index__type": ""}, None),
        ({"hoodie__bucket__index__num__buckets": ""}, None),
        ({"hoodie__bucket__index__num__buckets": "0"}, None),
        ({"hoodie__bucket__index__num__buckets": "-4"}, None),
        ({"hoodie__bucket__index__num__buckets": "100000000"}, None),
    ],
)
def test_the_number_of_buckets_is_known_only_of_a_simple_bucket_index(
    changed: dict[str, str], number: int | None
) -> None:
    recorded = {"hoodie__index__type": "BUCKET", "hoodie__bucket__index__num__buckets": "4"} | changed
    assert recorded_buckets(properties(**recorded)) == number
