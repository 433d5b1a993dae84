"""Encodes archive files of timeline layout 1: `HoodieArchivedMetaEntry` records, one for each state file. Pure.

Source: Hudi `TimelineArchiverV1`, `MetadataConversionUtils`, `HoodieAvroDataBlock`. `archive_v1` decodes them.
"""

from __future__ import annotations

import copy
import io
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import fastavro
from fastavro.types import Schema

from penstock.table.log.block_encoder import SCHEMA, encode_block
from penstock.table.log.blocks import BlockKind
from penstock.table.timeline.commits import decode_metadata
from penstock.table.timeline.container_encoder import fitted
from penstock.table.timeline.instants import Action, Instant, State
from penstock.table.timeline.metadata_schemas.archives import ARCHIVED_ENTRY

ENTRIES_OF_BLOCK: Final = 10
"""Hudi's `hoodie.commits.archival.batch`."""
_CONTENT_VERSION: Final = 3
_FIELDS: Final = {
    (Action.COMMIT, State.INFLIGHT): "hoodieCommitMetadata",
    (Action.COMMIT, State.COMPLETED): "hoodieCommitMetadata",
    (Action.DELTA_COMMIT, State.INFLIGHT): "hoodieCommitMetadata",
    (Action.DELTA_COMMIT, State.COMPLETED): "hoodieCommitMetadata",
    (Action.REPLACE_COMMIT, State.REQUESTED): "hoodieRequestedReplaceMetadata",
    (Action.REPLACE_COMMIT, State.INFLIGHT): "HoodieInflightReplaceMetadata",
    (Action.REPLACE_COMMIT, State.COMPLETED): "hoodieReplaceCommitMetadata",
    (Action.COMPACTION, State.REQUESTED): "hoodieCompactionPlan",
    (Action.LOG_COMPACTION, State.REQUESTED): "hoodieCompactionPlan",
    (Action.CLEAN, State.REQUESTED): "hoodieCleanerPlan",
    (Action.CLEAN, State.INFLIGHT): "hoodieCleanerPlan",
    (Action.CLEAN, State.COMPLETED): "hoodieCleanMetadata",
    (Action.ROLLBACK, State.COMPLETED): "hoodieRollbackMetadata",
}
"""The field of an entry that has the content of a state file."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file of an instant."""

    instant: Instant
    """The instant, in the state of this file."""
    data: bytes
    """Its content; b'' for an empty file."""
    changed: str
    """Time of its last change, in the zone of the timeline: `yyyyMMddHHmmssSSS`."""


def encode_archive(files: Sequence[StateFile], table: str = "") -> bytes:
    """The bytes of an archive file with an entry for each state file, in their order; `archive_entries` decodes them.

    CorruptFile for a file that is no metadata of its instant: nothing may replace it then.
    """
    return b"".join(_blocks(files, table))


def _blocks(files: Sequence[StateFile], table: str) -> Iterator[bytes]:
    text = json.dumps(ARCHIVED_ENTRY, separators=(",", ":"))
    for start in range(0, len(files), ENTRIES_OF_BLOCK):
        part = files[start : start + ENTRIES_OF_BLOCK]
        content = io.BytesIO()
        content.write(struct.pack(">ii", _CONTENT_VERSION, len(part)))
        for file in part:
            datum = io.BytesIO()
            fastavro.schemaless_writer(datum, _parsed_schema(), _entry(file, table))
            content.write(struct.pack(">i", datum.tell()))
            content.write(datum.getbuffer())
        yield encode_block(BlockKind.AVRO_DATA, {SCHEMA: text}, content.getvalue())


def _entry(file: StateFile, table: str) -> dict[str, Any]:
    entry: dict[str, object] = {
        "commitTime": str(file.instant.requested_time),
        "actionType": str(file.instant.action),
        "actionState": file.instant.state.upper(),
        "stateTransitionTime": file.changed,
    }
    name = _FIELDS.get((file.instant.action, file.instant.state))
    if name is not None and file.data:
        entry[name] = decode_metadata(file.data, file.instant, table).values
    where = f"{file.instant.file_name} of table {table}"
    return {**fitted(entry, ARCHIVED_ENTRY, where), "version": None}  # as Hudi


@cache
def _parsed_schema() -> Schema:
    return fastavro.parse_schema(copy.deepcopy(ARCHIVED_ENTRY))  # parsing changes its argument
