"""The Avro schema of plans of compactions. Pure."""

from __future__ import annotations

from typing import Final

from penstock.table.timeline.metadata_schemas.parts import (
    TEXT,
    array,
    optional,
    record,
    text_map,
    top_level,
)

_OPERATION: Final = record(
    "HoodieCompactionOperation",
    [
        {"name": "baseInstantTime", "type": ["null", TEXT]},
        optional("deltaFilePaths", array(TEXT)),
        optional("dataFilePath", TEXT),
        {"name": "fileId", "type": ["null", TEXT]},
        optional("partitionPath", TEXT),
        optional("metrics", text_map("double")),
        optional("bootstrapFilePath", TEXT),
    ],
)

_STRATEGY: Final = record(
    "HoodieCompactionStrategy",
    [
        optional("compactorClassName", TEXT),
        optional("strategyParams", text_map(TEXT)),
        {"name": "version", "type": ["int", "null"], "default": 1},
    ],
)

COMPACTION_PLAN: Final = top_level(
    "HoodieCompactionPlan",
    [
        optional("operations", array(_OPERATION)),
        optional("extraMetadata", text_map(TEXT)),
        {"name": "version", "type": ["int", "null"], "default": 1},
        optional("strategy", _STRATEGY),
        {"name": "preserveHoodieMetadata", "type": ["boolean", "null"], "default": False},
        optional("missingSchedulePartitions", array(TEXT)),
    ],
)
"""A requested compaction. Hudi 1.0 and earlier lack the last field; readers match fields by name."""
