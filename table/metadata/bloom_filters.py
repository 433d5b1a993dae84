"""The bloom filters of record keys in the metadata table, one for each base file. Pure.

Source: Hudi `HoodieMetadataBloomFilter`, `HoodieMetadataPayload.createBloomFilterMetadataRecord`.

Special case: the type of a filter is that of the writer's options. A file of a writer with other options, whose filter
was recorded later, has a filter of another type, which does not decode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.proto.errors import CorruptFile
from penstock.table.timeline.fields import Fields

if TYPE_CHECKING:
    from penstock.table.parquet.encoded_bloom_filter import EncodedBloomFilter

BLOOM_FILTERS: Final = "bloom_filters"


def bloom_filter_of(record: Fields) -> EncodedBloomFilter | None:
    """The filter of a record; None for a deletion, and for a filter that cannot be read."""
    if record.values.get("BloomFilterMetadata") is None:
        return None
    from penstock.table.parquet.encoded_bloom_filter import EncodedBloomFilter  # late: most reads use no filter

    try:
        fields = record.nested("BloomFilterMetadata", record.values["BloomFilterMetadata"])
        content = fields.values.get("bloomFilter")
        if fields.flag("isDeleted") or not isinstance(content, bytes):
            return None
        return EncodedBloomFilter(content, fields.text("type"), record.where)
    except CorruptFile:
        return None
