"""The groups that a bucket index excludes, and the tables of which it excludes none."""

from __future__ import annotations

import pytest

from penstock.enumerator.planning.pruning.bucket_hash import outside_buckets
from penstock.table.files.buckets import bucket_of_key

REST = "-052e-4a9c-b004-bea8a573603d-0"
GROUPS = frozenset((partition, f"0000000{bucket}{REST}") for partition in ("a", "b") for bucket in range(4))


def test_the_group_of_a_key_remains_in_each_partition() -> None:
    kept = GROUPS - outside_buckets(GROUPS, {"key"}, 4)
    bucket = bucket_of_key("key", 4)
    assert kept == {("a", f"0000000{bucket}{REST}"), ("b", f"0000000{bucket}{REST}")}


def test_a_partition_without_the_highest_bucket_is_read() -> None:
    """Its writers may use three buckets."""
    fewer = GROUPS - {("b", f"00000003{REST}")}
    assert {partition for partition, _ in outside_buckets(fewer, {"key"}, 4)} == {"a"}


def test_no_key_excludes_all_groups() -> None:
    assert outside_buckets(GROUPS, (), 4) == GROUPS


@pytest.mark.parametrize("key", ["a:b", "a,b"])
def test_a_key_without_a_known_bucket_excludes_nothing(key: str) -> None:
    assert not outside_buckets(GROUPS, {"key", key}, 4)


@pytest.mark.parametrize(
    "other",
    [
        ("a", f"00000004{REST}"),
        ("c", f"0000abcd{REST}"),
        ("a", "00000001-1111-4a9c-b004-bea8a573603d-0"),
    ],
    ids=["a bucket beyond the number", "no bucket", "two groups of a bucket"],
)
def test_groups_of_another_index_or_number_exclude_nothing(other: tuple[str, str]) -> None:
    assert outside_buckets(GROUPS, {"key"}, 4) and not outside_buckets(GROUPS | {other}, {"key"}, 4)
