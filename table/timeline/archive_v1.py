"""Decodes archive files of timeline layout 1: log files of `HoodieArchivedMetaEntry` records, one for each state file.

Pure. Source: Hudi `ArchivedTimelineV1`. `archive` lists the files and combines the entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final

from fastavro.types import Schema

from penstock.proto.errors import CorruptFile
from penstock.proto.value_classes import dataclass
from penstock.table.log.blocks import Damage, SchemaBlock, read_schema_blocks
from penstock.table.timeline.avro_container import checked_schema, single_datum
from penstock.table.timeline.fields import Fields

_CONTENT_VERSIONS: Final = (1, 2, 3)
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """A state file of an instant."""

    requested_time: str
    """Requested time of the instant."""
    action: str
    """Action of the state file."""
    state: str
    """COMPLETED, INFLIGHT or REQUESTED; '' (writers before 0.6) means completed."""
    transition: str
    """Time at which the state was reached; '' where the writer did not record it (before 0.14)."""
    fields: Fields
    """All fields of the record."""

    @property
    def is_completed(self) -> bool:
        """Whether the entry is a completed file."""
        return self.state in ("COMPLETED", "")


def archive_entries(data: bytes, where: str) -> Iterator[ArchiveEntry]:
    """The entries of an archive file, in file order. `where` names file and table in errors.

    CorruptFile for an incomplete block or record: no writer appends to an archive file.
    """
    view = memoryview(data)
    schemas: dict[str, Schema] = {}
    for block in read_schema_blocks(view, where):
        if isinstance(block, Damage):
            raise CorruptFile(f"{where} is damaged or truncated at byte {block.start}: {block.reason}")
        if block.schema_json not in schemas:
            schemas[block.schema_json] = checked_schema(block.schema_json, f"{where}, block at byte {block.offset}")
        yield from _entries(view, block, schemas[block.schema_json], where)


def _entries(view: memoryview, block: SchemaBlock, schema: Schema, where: str) -> Iterator[ArchiveEntry]:
    source = f"{where}, block at byte {block.offset}"
    offset, end = block.content_start, block.content_end
    version, offset = _number(view, offset, end, source)
    count, offset = _number(view, offset, end, source)
    if version not in _CONTENT_VERSIONS or not 0 <= count <= (end - offset) // 4:
        raise CorruptFile(f"{source}: got {count} records of version {version} in {end - offset} bytes")
    for number in range(count):
        length, offset = _number(view, offset, end, source)
        if not 0 <= length <= end - offset:
            raise CorruptFile(f"{source}: record {number} of {length} bytes where {end - offset} are left")
        data = bytes(view[offset : offset + length])
        yield _entry(single_datum(data, schema, f"{source}, record {number}"), source)
        offset += length
    if offset != end:
        raise CorruptFile(f"{source}: {end - offset} bytes are left after its {count} records")


def _number(view: memoryview, offset: int, end: int, source: str) -> tuple[int, int]:
    if end - offset < 4:
        raise CorruptFile(f"{source} ends inside a number")
    return int(_LENGTH.unpack_from(view, offset)[0]), offset + 4


def _entry(record: Mapping[str, object], source: str) -> ArchiveEntry:
    fields = Fields(record, source)
    return ArchiveEntry(
        requested_time=fields.required_text("commitTime"),
        action=fields.text("actionType"),
        state=fields.text("actionState").upper(),
        transition=fields.text("stateTransitionTime"),
        fields=fields,
    )
