"""Archive files of timeline layout 1: log-format files of `HoodieArchivedMetaEntry` records, one for each state file.

Pure: bytes in, entries out (Hudi `ArchivedTimelineV1`). Not here: which files there are, what entries add up to
(`archive`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fastavro.types import Schema

from penstock.proto.errors import CorruptFile
from penstock.table.log.blocks import Damage, SchemaBlock, read_schema_blocks
from penstock.table.timeline.avro_container import checked_schema, single_datum
from penstock.table.timeline.fields import Fields

_CONTENT_VERSIONS: Final = (1, 2, 3)
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """A state of an instant. `state` is COMPLETED, INFLIGHT or REQUESTED; '' (writers before 0.6) means completed.

    `transition` is when the state was reached, '' where the writer did not record it (before 0.14).
    """

    requested_time: str
    action: str
    state: str
    transition: str
    fields: Fields

    @property
    def is_completed(self) -> bool:
        """Whether the entry is of the completed file."""
        return self.state in ("COMPLETED", "")


def archive_entries(data: bytes, where: str) -> Iterator[ArchiveEntry]:
    """The entries of an archive file, in file order. `where` names file and table for the errors.

    CorruptFile for a block or record that is not whole: an archive has no writer that is still at it.
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
    at = f"{where}, block at byte {block.offset}"
    place, end = block.content_start, block.content_end
    version, place = _number(view, place, end, at)
    count, place = _number(view, place, end, at)
    if version not in _CONTENT_VERSIONS or not 0 <= count <= (end - place) // 4:
        raise CorruptFile(f"{at}: got {count} records of version {version} in {end - place} bytes")
    for number in range(count):
        length, place = _number(view, place, end, at)
        if not 0 <= length <= end - place:
            raise CorruptFile(f"{at}: record {number} of {length} bytes where {end - place} are left")
        yield _entry(single_datum(bytes(view[place : place + length]), schema, f"{at}, record {number}"), at)
        place += length
    if place != end:
        raise CorruptFile(f"{at}: {end - place} bytes are left behind its {count} records")


def _number(view: memoryview, place: int, end: int, at: str) -> tuple[int, int]:
    if end - place < 4:
        raise CorruptFile(f"{at} ends inside a number")
    return int(_LENGTH.unpack_from(view, place)[0]), place + 4


def _entry(record: Mapping[str, object], at: str) -> ArchiveEntry:
    fields = Fields(record, at)
    return ArchiveEntry(
        requested_time=fields.required_text("commitTime"),
        action=fields.text("actionType"),
        state=fields.text("actionState").upper(),
        transition=fields.text("stateTransitionTime"),
        fields=fields,
    )
