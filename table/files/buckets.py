"""The simple bucket index: the bucket of a file group, and of a record key whose text alone determines it. Pure.

Source: Hudi `BucketIdentifier`, `HoodieSimpleBucketIndex`. `writer.kernels.bucket` hashes all keys of a write.
"""

from __future__ import annotations

from typing import Final

from penstock.table.config.properties import META_FOLDER, TableProperties

INDEX_TYPE: Final = "hoodie.index.type"
"""Property with the index. Hudi does not store it; `penstock.create_table` does."""
BUCKETS: Final = "hoodie.bucket.index.num.buckets"
"""Property with the number of buckets of a partition, stored as INDEX_TYPE."""
ENGINE: Final = "hoodie.index.bucket.engine"
"""Property with the kind of bucket index, SIMPLE by default."""
HASHING_FOLDER: Final = f"{META_FOLDER}/.bucket_index"
"""Folder of consistent hashing, and of numbers of buckets that differ between partitions."""

DIGITS: Final = 8
MAX_BUCKETS: Final = 100_000_000


def bucket_of_file_id(file_id: str) -> int | None:
    """The bucket of a file group; None if its id does not begin with the number of one."""
    prefix = file_id[:DIGITS]
    return int(prefix) if len(prefix) == DIGITS and prefix.isascii() and prefix.isdigit() else None


def bucket_of_key(key: str, buckets: int) -> int | None:
    """The bucket of a key, from 0 to `buckets` - 1. None for a key with `,` or `:`, of which Hudi may hash parts."""
    if "," in key or ":" in key:
        return None
    units = memoryview(key.encode("utf-16-le", "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    return (31 + value & 0x7FFFFFFF) % buckets


def recorded_buckets(properties: TableProperties) -> int | None:
    """The number of buckets of each partition, if the properties record a simple bucket index with it; else None."""
    raw = properties.raw
    if raw.get(INDEX_TYPE, "").strip().upper() != "BUCKET" or raw.get(ENGINE, "SIMPLE").strip().upper() != "SIMPLE":
        return None
    text = raw.get(BUCKETS, "").strip()
    known = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return known if 1 <= known < MAX_BUCKETS else None
