"""The Avro schemas of archived instants: entries of layout 1, and rows of the history of layout 2. Pure."""

from __future__ import annotations

from typing import Final

from penstock.table.timeline.metadata_schemas.cleans import CLEAN, CLEAN_PLAN
from penstock.table.timeline.metadata_schemas.compactions import COMPACTION_PLAN
from penstock.table.timeline.metadata_schemas.parts import (
    TEXT,
    VERSION,
    array,
    field,
    optional,
    record,
    text_map,
    top_level,
    with_references,
)
from penstock.table.timeline.metadata_schemas.rollbacks import ROLLBACK
from penstock.table.timeline.metadata_schemas.savepoints import SAVEPOINT
from penstock.table.timeline.metadata_schemas.writes import COMMIT, REPLACE_COMMIT, REQUESTED_REPLACE

_COMPACTION_STAT: Final = record(
    "HoodieCompactionWriteStat",
    [
        optional("partitionPath", TEXT),
        optional("totalLogRecords", "long"),
        optional("totalLogFiles", "long"),
        optional("totalUpdatedRecordsCompacted", "long"),
        optional("hoodieWriteStat", "HoodieWriteStat"),
    ],
)
_COMPACTION: Final = record(
    "HoodieCompactionMetadata",
    [field("partitionToCompactionWriteStats", ["null", text_map(array(_COMPACTION_STAT))])],
)

_INDEX_PARTITION: Final = record(
    "HoodieIndexPartitionInfo",
    [
        VERSION,
        optional("metadataPartitionPath", TEXT),
        optional("indexUptoInstant", TEXT),
        optional("extraMetadata", text_map(TEXT)),
    ],
)
_OTHER_FIELD: Final = "This field replaces the field filesToBeDeletedPerPartition"
_INDEX: Final = record(
    "HoodieIndexCommitMetadata",
    [
        {**VERSION, "doc": _OTHER_FIELD},
        optional("operationType", TEXT, doc=_OTHER_FIELD),
        optional(
            "indexPartitionInfos",
            array(_INDEX_PARTITION),
            doc="This field contains the info for each partition that got indexed",
        ),
    ],
)

ARCHIVED_ENTRY: Final = with_references(
    top_level(
        "HoodieArchivedMetaEntry",
        [
            optional("hoodieCommitMetadata", COMMIT),
            optional("hoodieCleanMetadata", CLEAN),
            optional("hoodieCompactionMetadata", _COMPACTION),
            optional("hoodieRollbackMetadata", ROLLBACK),
            optional("hoodieSavePointMetadata", SAVEPOINT),
            optional("commitTime", TEXT),
            optional("actionType", TEXT),
            VERSION,
            optional("hoodieCompactionPlan", COMPACTION_PLAN),
            optional("hoodieCleanerPlan", CLEAN_PLAN),
            optional("actionState", TEXT),
            optional("hoodieReplaceCommitMetadata", REPLACE_COMMIT),
            optional("hoodieRequestedReplaceMetadata", REQUESTED_REPLACE),
            optional("HoodieInflightReplaceMetadata", "HoodieCommitMetadata"),
            optional("hoodieIndexCommitMetadata", _INDEX),
            optional("stateTransitionTime", TEXT),
        ],
    )
)
"""An archived state file on layout 1."""

HISTORY_INSTANT: Final = top_level(
    "HoodieLSMTimelineInstant",
    [
        optional("instantTime", TEXT),
        optional("completionTime", TEXT),
        optional("action", TEXT),
        optional("metadata", "bytes"),
        optional("plan", "bytes"),
        {"name": "version", "type": "int", "default": 1},
    ],
)
"""An archived instant on layout 2."""
