"""The Avro schemas of commits, deltacommits and replacecommits. Pure."""

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

_RUNTIME_STATS: Final = record(
    "HoodieRuntimeStats",
    [optional("totalScanTime", "long"), optional("totalCreateTime", "long"), optional("totalUpsertTime", "long")],
)

_WRITE_STAT: Final = record(
    "HoodieWriteStat",
    [
        optional("fileId", TEXT),
        optional("path", TEXT),
        optional("prevCommit", TEXT),
        optional("numWrites", "long"),
        optional("numDeletes", "long"),
        optional("numUpdateWrites", "long"),
        optional("totalWriteBytes", "long"),
        optional("totalWriteErrors", "long"),
        optional("partitionPath", TEXT),
        optional("totalLogRecords", "long"),
        optional("totalLogFiles", "long"),
        optional("totalUpdatedRecordsCompacted", "long"),
        optional("numInserts", "long"),
        optional("totalLogBlocks", "long"),
        optional("totalCorruptLogBlock", "long"),
        optional("totalRollbackBlocks", "long"),
        optional("fileSizeInBytes", "long"),
        optional("logVersion", "int"),
        optional("logOffset", "long"),
        optional("baseFile", TEXT),
        optional("logFiles", array(TEXT, default=None)),
        optional("cdcStats", text_map("long", default=None)),
        optional("prevBaseFile", TEXT),
        optional("minEventTime", "long"),
        optional("maxEventTime", "long"),
        optional("runtimeStats", _RUNTIME_STATS),
        optional("totalLogFilesCompacted", "long"),
        optional("totalLogReadTimeMs", "long"),
        optional("totalLogSizeCompacted", "long"),
        optional("tempPath", TEXT),
        optional("numUpdates", "long"),
    ],
)

_STATS: Final = optional("partitionToWriteStats", text_map(array(_WRITE_STAT)))
_COMPACTED: Final = optional("compacted", "boolean")
_OPERATION: Final = optional("operationType", TEXT)

COMMIT: Final = top_level(
    "HoodieCommitMetadata",
    [_STATS, _COMPACTED, optional("extraMetadata", text_map(TEXT, default=None)), VERSION, _OPERATION],
)
"""A completed commit or deltacommit on layout 2."""

REPLACE_COMMIT: Final = top_level(
    "HoodieReplaceCommitMetadata",
    [
        _STATS,
        _COMPACTED,
        optional("extraMetadata", text_map(TEXT)),
        VERSION,
        _OPERATION,
        optional("partitionToReplaceFileIds", text_map(array(TEXT))),
    ],
)
"""A completed replacecommit on layout 2."""

_SLICE: Final = record(
    "HoodieSliceInfo",
    [
        optional("dataFilePath", TEXT),
        optional("deltaFilePaths", array(TEXT)),
        field("fileId", ["null", TEXT]),
        optional("partitionPath", TEXT),
        optional("bootstrapFilePath", TEXT),
        VERSION,
    ],
)

_CLUSTERING_GROUP: Final = record(
    "HoodieClusteringGroup",
    [
        optional("slices", array(_SLICE)),
        optional("metrics", text_map("double")),
        {"name": "numOutputFileGroups", "type": ["int", "null"], "default": 1},
        optional("extraMetadata", text_map(TEXT)),
        VERSION,
    ],
)

_CLUSTERING_STRATEGY: Final = record(
    "HoodieClusteringStrategy",
    [optional("strategyClassName", TEXT), optional("strategyParams", text_map(TEXT)), VERSION],
)

_CLUSTERING_PLAN: Final = record(
    "HoodieClusteringPlan",
    [
        optional("inputGroups", array(_CLUSTERING_GROUP)),
        optional("strategy", _CLUSTERING_STRATEGY),
        optional("extraMetadata", text_map(TEXT)),
        VERSION,
        optional("preserveHoodieMetadata", "boolean"),
        optional("missingSchedulePartitions", array(TEXT)),
    ],
)

REQUESTED_REPLACE: Final = top_level(
    "HoodieRequestedReplaceMetadata",
    [
        optional("operationType", TEXT),
        optional("clusteringPlan", _CLUSTERING_PLAN),
        optional("extraMetadata", text_map(TEXT)),
        VERSION,
    ],
)
"""A requested replacecommit or clustering on both layouts. Hudi 1.0 and earlier lack the last field of the clustering
plan; readers match fields by name."""
