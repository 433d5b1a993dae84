"""The Avro schemas of cleans. Pure."""

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

_ACTION_INSTANT: Final = record(
    "HoodieActionInstant", [field("timestamp", TEXT), field("action", TEXT), field("state", TEXT)]
)
_FILE: Final = record("HoodieCleanFileInfo", [optional("filePath", TEXT), optional("isBootstrapBaseFile", "boolean")])
_LAST_COMPLETED: Final[dict[str, object]] = {**field("lastCompletedCommitTimestamp", TEXT), "default": ""}

CLEAN_PLAN: Final = top_level(
    "HoodieCleanerPlan",
    [
        optional("earliestInstantToRetain", _ACTION_INSTANT),
        _LAST_COMPLETED,
        field("policy", TEXT),
        optional("filesToBeDeletedPerPartition", text_map(array(TEXT))),
        VERSION,
        optional(
            "filePathsToBeDeletedPerPartition",
            text_map(array(_FILE)),
            doc="This field replaces the field filesToBeDeletedPerPartition",
        ),
        optional("partitionsToBeDeleted", array(TEXT), doc="partitions to be deleted"),
        optional("extraMetadata", text_map(TEXT, default=None)),
    ],
)
"""A requested clean."""

_PARTITION: Final = record(
    "HoodieCleanPartitionMetadata",
    [
        field("partitionPath", TEXT),
        field("policy", TEXT),
        field("deletePathPatterns", array(TEXT)),
        field("successDeleteFiles", array(TEXT)),
        field("failedDeleteFiles", array(TEXT)),
        optional("isPartitionDeleted", "boolean"),
    ],
)

CLEAN: Final = top_level(
    "HoodieCleanMetadata",
    [
        field("startCleanTime", TEXT),
        field("timeTakenInMillis", "long"),
        field("totalFilesDeleted", "int"),
        field("earliestCommitToRetain", TEXT),
        _LAST_COMPLETED,
        field("partitionMetadata", text_map(_PARTITION)),
        VERSION,
        optional("bootstrapPartitionMetadata", text_map("HoodieCleanPartitionMetadata", default=None)),
        optional("extraMetadata", text_map(TEXT, default=None)),
    ],
)
"""A completed clean."""
