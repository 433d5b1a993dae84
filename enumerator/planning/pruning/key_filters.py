"""File groups that the bloom filters of the metadata table exclude: their one base file has none of the keys.

A base file never changes, and its filter has each key that was written into it. A file without a filter that can be
read may have any key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.proto.model.splits import Split
from penstock.table.files.slices import GroupId
from penstock.table.metadata.bloom_filters import BLOOM_FILTERS, bloom_filter_of
from penstock.table.metadata.key_groups import keys_by_group
from penstock.table.metadata.keys import bloom_filter_key
from penstock.table.metadata.metadata_table import MetadataTable
from penstock.table.parquet.key_bits import key_bits
from penstock.table.timeline.fields import Fields

if TYPE_CHECKING:
    from penstock.table.parquet.encoded_bloom_filter import EncodedBloomFilter

MOST_KEYS: Final = 1_000
"""Filters are read for up to so many keys. Of more, nearly each file has one."""

_REPLACEMENT: Final = "\ufffd"
"""Readers return it for bytes that are not UTF-8. A filter has the bytes."""


def may_be_filtered(keys: Collection[str]) -> bool:
    """Whether filters are read for these keys."""
    return len(keys) <= MOST_KEYS and not any(_REPLACEMENT in key for key in keys)


def without_possible_keys(
    candidates: Sequence[Split], keys: Collection[str], metadata: MetadataTable
) -> frozenset[GroupId]:
    """The groups of these splits, which have a base file and no logs, whose filter lacks each key. Holds one filter at
    a time. Errors as `MetadataTable.records`."""
    groups = {
        bloom_filter_key(split.partition, split.base.path.rpartition("/")[2]): (split.partition, split.file_group)
        for split in candidates
        if split.base is not None and split.base.path.endswith(".parquet")
    }
    lacking = FilesWithoutKeys(keys)
    metadata.read_into(lacking, BLOOM_FILTERS, lambda all_groups: keys_by_group(all_groups, groups))
    return frozenset(groups[name] for name in lacking.names)


class FilesWithoutKeys:
    """The files whose newest filter lacks each of the keys. Takes the records of the partition (`Records`)."""

    def __init__(self, keys: Collection[str]) -> None:
        self._keys = keys
        self._bits: dict[tuple[int, int], np.ndarray] = {}
        self.names: set[str] = set()
        """The keys of their records."""

    def add(self, key: str, value: bytes, read: Callable[[bytes], Fields]) -> None:
        """Takes a record that is newer than the others of its key."""
        self.names.discard(key)
        of_file = bloom_filter_of(read(value)) if value else None
        if of_file is not None and not of_file.may_contain_any(self._bits_in(of_file)):
            self.names.add(key)

    def delete(self, key: str) -> None:
        """Takes a deletion of the key's records."""
        self.names.discard(key)

    def _bits_in(self, of_file: EncodedBloomFilter) -> np.ndarray:
        """The bits of the keys in a filter of this size; most files have the same."""
        size = of_file.hashes, of_file.bits
        if size not in self._bits:
            self._bits = {size: key_bits(self._keys, *size)}
        return self._bits[size]
