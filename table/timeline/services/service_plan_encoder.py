"""Encodes plans of compactions and clusterings: their requested files. Pure. `plans` decodes both.

Source: Hudi `HoodieCompactionPlan`, `HoodieRequestedReplaceMetadata`, `BaseTableServicePlanActionExecutor`. They are
Avro on both layouts. Hudi's incremental scheduling looks at partitions that changed since the last completed service,
and at those that its plan names as left out: partitions that it does not name are not scheduled until a write changes
them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.table.timeline.container_encoder import encode_container
from penstock.table.timeline.metadata_schemas.compactions import COMPACTION_PLAN
from penstock.table.timeline.metadata_schemas.writes import REQUESTED_REPLACE
from penstock.table.timeline.services.plans import SORT_COLUMNS, ClusteringGroup, ClusteringSlice, CompactionGroup

_COMPACTION_VERSION: Final = 2
_EXECUTION: Final = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
_MB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSize:
    """The size of what a service reads in a group."""

    base_bytes: int
    """Bytes of base files."""
    log_files: int
    """How many logs."""
    log_bytes: int
    """Their bytes."""


def encode_compaction_plan(
    groups: Sequence[tuple[CompactionGroup, InputSize]], left_out: Collection[str] = ()
) -> bytes:
    """The requested file of a compaction: the inverse of `parse_compaction_plan`.

    left_out: partitions with logs that the plan does not compact.
    """
    return encode_container(
        COMPACTION_PLAN,
        {
            "operations": [_operation(group, size) for group, size in groups],
            "extraMetadata": {},
            "version": _COMPACTION_VERSION,
            "strategy": None,
            "preserveHoodieMetadata": False,
            "missingSchedulePartitions": sorted(left_out),
        },
    )


def encode_clustering_plan(
    groups: Sequence[tuple[ClusteringGroup, InputSize]],
    sort_by: Sequence[str],
    base_path: str,
    left_out: Collection[str] = (),
) -> bytes:
    """The requested file of a clustering: the inverse of `parse_requested_replace`.

    base_path: the table's absolute path or URI, as Hudi stores absolute paths here. left_out: partitions that the plan
    does not look at.
    """
    plan = {
        "inputGroups": [_clustering_group(group, size, base_path) for group, size in groups],
        "strategy": {
            "strategyClassName": _EXECUTION,
            "strategyParams": {SORT_COLUMNS: ",".join(sort_by)} if sort_by else {},
            "version": 1,
        },
        "extraMetadata": {},
        "version": 1,
        "preserveHoodieMetadata": True,
        "missingSchedulePartitions": sorted(left_out),
    }
    return encode_container(
        REQUESTED_REPLACE, {"operationType": "CLUSTER", "clusteringPlan": plan, "extraMetadata": {}, "version": 1}
    )


def _operation(group: CompactionGroup, size: InputSize) -> dict[str, object]:
    return {
        "baseInstantTime": group.base_instant,
        "deltaFilePaths": list(group.logs),
        "dataFilePath": group.base_file or None,
        "fileId": group.file_id,
        "partitionPath": group.partition,
        "metrics": _metrics(size),
        "bootstrapFilePath": None,
    }


def _clustering_group(group: ClusteringGroup, size: InputSize, base_path: str) -> dict[str, object]:
    return {
        "slices": [_slice(item, base_path) for item in group.slices],
        "metrics": _metrics(size),
        "numOutputFileGroups": 1,
        "extraMetadata": None,
        "version": 1,
    }


def _slice(item: ClusteringSlice, base_path: str) -> dict[str, object]:
    return {
        "dataFilePath": _uri(base_path, item.partition, item.base_file) if item.base_file else "",
        "deltaFilePaths": [_uri(base_path, item.partition, name) for name in item.logs],
        "fileId": item.file_id,
        "partitionPath": item.partition,
        "bootstrapFilePath": "",
        "version": 1,
    }


def _metrics(size: InputSize) -> Mapping[str, float]:
    """Hudi `CompactionStrategy.captureMetrics`: megabytes, and bytes of logs."""
    read, write = (size.base_bytes + size.log_bytes) // _MB, size.base_bytes // _MB
    return {
        "TOTAL_LOG_FILES": float(size.log_files),
        "TOTAL_IO_MB": float(read + write),
        "TOTAL_IO_READ_MB": float(read),
        "TOTAL_LOG_FILES_SIZE": float(size.log_bytes),
        "TOTAL_IO_WRITE_MB": float(write),
    }


def _uri(base_path: str, partition: str, name: str) -> str:
    """The path as Hudi stores it: with a scheme, so that the default file system of a reader does not matter."""
    base = f"file:{base_path}" if base_path.startswith("/") else base_path
    return "/".join(part for part in (base.rstrip("/"), partition, name) if part)
