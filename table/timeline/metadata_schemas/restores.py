"""The Avro schemas of restores. Pure."""

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
from penstock.table.timeline.metadata_schemas.rollbacks import INSTANT, ROLLBACK_FIELDS

RESTORE_PLAN: Final = top_level(
    "HoodieRestorePlan",
    [
        {**field("instantsToRollback", array(INSTANT, default=None)), "default": []},
        {**VERSION, "default": 2},
        optional("savepointToRestoreTimestamp", TEXT),
    ],
)
"""A requested restore."""

RESTORE: Final = top_level(
    "HoodieRestoreMetadata",
    [
        field("startRestoreTime", TEXT),
        field("timeTakenInMillis", "long"),
        field("instantsToRollback", array(TEXT)),
        field(
            "hoodieRestoreMetadata",
            text_map(array(["null", record("HoodieRollbackMetadata", ROLLBACK_FIELDS)], default=None)),
        ),
        VERSION,
        {**field("restoreInstantInfo", array("HoodieInstantInfo", default=None)), "default": []},
    ],
)
"""A completed restore."""
