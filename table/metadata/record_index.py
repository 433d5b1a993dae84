"""The record index of the metadata table: the file group of each record key. Pure, but for `locate`.

Source: Hudi `HoodieMetadataPayload.getRecordGlobalLocation`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.table.files.slices import GroupId
from penstock.table.metadata.key_groups import keys_by_group
from penstock.table.metadata.metadata_table import MetadataTable
from penstock.table.timeline.fields import Fields

RECORD_INDEX: Final = "record_index"

_UUID_BITS: Final = 0
_TEXT: Final = 1
_MASK: Final = 2**64 - 1


def locate(metadata: MetadataTable, keys: Collection[str]) -> dict[str, frozenset[GroupId]]:
    """Key -> the file groups that hold it by the index; a key that the index lacks is left out.

    Reads the file group of each key, or all if the index is divided by partitions, and then a key may have several.
    CorruptFile for records that are not of the index; errors as `MetadataTable.records`.
    """
    located: dict[str, frozenset[GroupId]] = {}
    for records in metadata.records_by_group(RECORD_INDEX, lambda groups: keys_by_group(groups, keys)):
        for key, versions in records.items():
            location = location_of(versions)
            if location is not None:
                located[key] = located.get(key, frozenset()) | {location}
    return located


def location_of(versions: Sequence[Fields | None]) -> GroupId | None:
    """(partition, file id) by the newest record of a key; None if the key was deleted. CorruptFile for any other
    record."""
    record = versions[-1] if versions else None
    if record is None:
        return None
    if record.values.get("recordIndexMetadata") is None:
        raise CorruptFile(f"{record.where}: a record of {RECORD_INDEX} has no location")
    fields = record.nested("recordIndexMetadata", record.values["recordIndexMetadata"])
    encoding = fields.number("fileIdEncoding")
    if encoding == _TEXT:
        return fields.text("partitionName"), fields.text("fileId")
    if encoding != _UUID_BITS:
        raise CorruptFile(f"{record.where}: encoding {encoding} of a file id, expected {_UUID_BITS} or {_TEXT}")
    bits = (fields.number("fileIdHighBits") & _MASK) << 64 | fields.number("fileIdLowBits") & _MASK
    index = fields.number("fileIndex")
    digits = f"{bits:032x}"
    file_id = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return fields.text("partitionName"), f"{file_id}-{index}" if index >= 0 else file_id
