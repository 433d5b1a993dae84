"""File groups that a simple bucket index excludes: the hash of a key is the number of its file group. Pure."""

from __future__ import annotations

from collections.abc import Collection

from penstock.table.files.buckets import bucket_of_file_id, bucket_of_key
from penstock.table.files.slices import GroupId


def outside_buckets(groups: Collection[GroupId], keys: Collection[str], buckets: int) -> frozenset[GroupId]:
    """The groups of the table that cannot hold one of the keys.

    None if a key has `,` or `:`, and none unless each group has a number below `buckets` that no other group of its
    partition has: then other writers use another index, or another number of buckets. None of a partition without the
    group of the highest number: its writers may use a smaller number.
    """
    wanted = {bucket_of_key(key, buckets) for key in keys}
    numbers = {group: bucket_of_file_id(group[1]) for group in groups}
    if None in wanted or any(number is None or number >= buckets for number in numbers.values()):
        return frozenset()
    if len({(partition, numbers[partition, file_id]) for partition, file_id in groups}) < len(numbers):
        return frozenset()
    full = {partition for (partition, _), number in numbers.items() if number == buckets - 1}
    return frozenset(group for group, number in numbers.items() if group[0] in full and number not in wanted)
