"""The Avro schemas of rollbacks. Pure."""

from __future__ import annotations

from typing import Final

from penstock.table.timeline.metadata_schemas.parts import (
    TEXT,
    VERSION,
    array,
    field,
    optional,
    record,
    text_map,
    top_level,
)

INSTANT: Final = record("HoodieInstantInfo", [field("commitTime", TEXT), field("action", TEXT)])
"""An instant that a rollback or restore removes."""

_REQUEST: Final = record(
    "HoodieRollbackRequest",
    [
        field("partitionPath", TEXT),
        optional("fileId", TEXT),
        optional("latestBaseInstant", TEXT),
        {**field("filesToBeDeleted", array(TEXT, default=[])), "default": []},
        optional("logBlocksToBeDeleted", text_map("long")),
    ],
)

_PARTITION: Final = record(
    "HoodieRollbackPartitionMetadata",
    [
        field("partitionPath", TEXT),
        field("successDeleteFiles", array(TEXT)),
        field("failedDeleteFiles", array(TEXT)),
        optional("rollbackLogFiles", text_map("long")),
        optional("logFilesFromFailedCommit", text_map("long")),
    ],
)

ROLLBACK_PLAN: Final = top_level(
    "HoodieRollbackPlan",
    [
        optional("instantToRollback", INSTANT, doc="Hoodie instant that needs to be rolled back"),
        optional("RollbackRequests", array(_REQUEST)),
        VERSION,
    ],
)
"""A requested rollback."""

ROLLBACK_FIELDS: Final[list[object]] = [
    field("startRollbackTime", TEXT),
    field("timeTakenInMillis", "long"),
    field("totalFilesDeleted", "int"),
    field("commitsRollback", array(TEXT)),
    field("partitionMetadata", text_map(_PARTITION)),
    VERSION,
    {**field("instantsRollback", array(INSTANT, default=[])), "default": []},
]
"""The fields of `ROLLBACK`, which restores have too."""

ROLLBACK: Final = top_level("HoodieRollbackMetadata", ROLLBACK_FIELDS)
"""A completed rollback."""
