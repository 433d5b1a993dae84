"""What the footer of a base file says about the keys in it: their range and their bloom filter."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.proto.errors import CorruptFile
from penstock.table.parquet.bloom_filter import FILTER_KEY, SIMPLE, TYPE_KEY, BloomFilter, parse_bloom_filter
from penstock.table.parquet.key_range import MAX_KEY, MIN_KEY, text_by_utf_16

Footer = Mapping[bytes, bytes]
"""The key-value metadata of a Parquet file."""


def footer_key_range(footer: Footer) -> tuple[bytes, bytes] | None:
    """(lowest, highest) record key of the file, in the form of `key_range.by_utf_16`; None if the footer has no range
    that can be read. Hudi writes none into a file without rows, and then excludes no key."""
    low, high = footer.get(MIN_KEY.encode()), footer.get(MAX_KEY.encode())
    if low is None or high is None:
        return None
    try:
        return text_by_utf_16(low.decode()), text_by_utf_16(high.decode())
    except UnicodeDecodeError:
        return None


def footer_bloom_filter(footer: Footer) -> BloomFilter | None:
    """The bloom filter of the file's record keys; None if the footer has none that can be read."""
    text, kind = footer.get(FILTER_KEY.encode()), footer.get(TYPE_KEY.encode(), SIMPLE.encode())
    if text is None:
        return None
    try:
        return parse_bloom_filter(text.decode("ascii"), kind.decode("ascii"), "footer")
    except (UnicodeDecodeError, CorruptFile):
        return None
