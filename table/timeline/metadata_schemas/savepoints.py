"""The Avro schema of savepoints. Pure."""

from __future__ import annotations

from typing import Final

from penstock.table.timeline.metadata_schemas.parts import TEXT, VERSION, array, field, record, text_map, top_level

_PARTITION: Final = record(
    "HoodieSavepointPartitionMetadata", [field("partitionPath", TEXT), field("savepointDataFile", array(TEXT))]
)

SAVEPOINT: Final = top_level(
    "HoodieSavepointMetadata",
    [
        field("savepointedBy", TEXT),
        field("savepointedAt", "long"),
        field("comments", TEXT),
        field("partitionMetadata", text_map(_PARTITION)),
        VERSION,
    ],
)
"""A completed savepoint."""
