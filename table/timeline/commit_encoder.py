"""Encodes the metadata of completed writes, and of requested replacecommits. Pure.

Source: Hudi `HoodieCommitMetadata`, `HoodieWriteStat`, `HoodieDeltaWriteStat`. Layout 1 stores JSON, layout 2 Avro.
`commits` and `services.plans` decode both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final

from penstock.table.files.names import LogName, parse_file_name
from penstock.table.timeline.commits import CommitMetadata, CompactedLogs, WriteStat
from penstock.table.timeline.container_encoder import encode_container
from penstock.table.timeline.instants import Action, comparable_action
from penstock.table.timeline.metadata_schemas.writes import COMMIT, REPLACE_COMMIT, REQUESTED_REPLACE

_ZEROS: Final = ("totalWriteErrors", "totalCorruptLogBlock", "totalRollbackBlocks")
"""Counters that are 0 for writes. Hudi's Java classes cannot read null for them."""
_NO_LOGS: Final = CompactedLogs(files=0, blocks=0, records=0, updated=0, size_bytes=0)
_NULLS: Final = ("tempPath", "minEventTime", "maxEventTime", "runtimeStats")
_LOG_FIELDS: Final = ("logVersion", "logOffset", "baseFile", "logFiles")


def encode_commit(metadata: CommitMetadata, action: Action, layout: int) -> bytes:
    """The completed file of a commit, deltacommit or replacecommit: the inverse of `parse_commit`.

    `action` is that of the instant; a compaction or clustering has the file as which it completes. The schema of
    `metadata` counts, not that in its extra metadata.
    """
    replaces = comparable_action(action) is Action.REPLACE_COMMIT
    extra = {key: text for key, text in metadata.extra.items() if key != "schema"}
    if metadata.schema_json:
        extra["schema"] = metadata.schema_json
    record: dict[str, object] = {
        "partitionToWriteStats": {
            partition: [_stat_fields(stat, layout) for stat in stats]
            for partition, stats in groupby(
                sorted(metadata.stats, key=lambda stat: stat.partition), lambda stat: stat.partition
            )
        },
        "compacted": metadata.compacted,
        "extraMetadata": extra,
        "operationType": metadata.operation or None,
    }
    if replaces:
        record["partitionToReplaceFileIds"] = _by_partition(metadata.replaced)
    if layout == 1:
        return json.dumps(record, indent=2, separators=(",", " : "), ensure_ascii=False).encode()
    return encode_container(REPLACE_COMMIT if replaces else COMMIT, {**record, "version": None})


def encode_requested_replace(operation: str, layout: int) -> bytes:
    """The requested file of a replacecommit other than a clustering: the inverse of `parse_requested_replace`.

    It is the same on both layouts. An `operation` of '' is recorded as none, as Hudi does for insert_overwrite.
    """
    del layout  # the same on both
    return encode_container(
        REQUESTED_REPLACE,
        {"operationType": operation or None, "clusteringPlan": None, "extraMetadata": None, "version": 1},
    )


def _by_partition(groups: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    by_partition: dict[str, list[str]] = {}
    for partition, file_id in groups:
        by_partition.setdefault(partition, []).append(file_id)
    return by_partition


def _stat_fields(stat: WriteStat, layout: int) -> Mapping[str, object]:
    """The fields of a file's write. On layout 1, fields of logs make it the stat of a log."""
    logs = stat.compacted_logs or _NO_LOGS
    fields: dict[str, object] = {
        "fileId": stat.file_id,
        "path": stat.path or None,
        "cdcStats": dict(stat.change_logs) or None,
        "prevCommit": stat.prev_commit or "null",
        "numWrites": stat.num_writes,
        "numDeletes": stat.num_deletes,
        "numUpdateWrites": stat.num_update_writes,
        "numInserts": stat.num_inserts,
        "totalWriteBytes": stat.file_size_bytes,
        "partitionPath": stat.partition,
        "fileSizeInBytes": stat.file_size_bytes,
        "totalLogFilesCompacted": logs.files,
        "totalLogBlocks": logs.blocks,
        "totalLogRecords": logs.records,
        "totalUpdatedRecordsCompacted": logs.updated,
        "totalLogSizeCompacted": logs.size_bytes,
        **dict.fromkeys(_ZEROS, 0),
        **dict.fromkeys(_NULLS, None),
    }
    name = parse_file_name(stat.file_name)
    if layout == 2:
        fields |= {
            "totalLogFiles": None,
            "totalLogReadTimeMs": 0,
            "prevBaseFile": stat.prev_base_file or None,
            "numUpdates": 0,
            **dict.fromkeys(_LOG_FIELDS, None),
        }
    if isinstance(name, LogName):
        fields |= {
            "logVersion": name.version,
            "logOffset": 0,
            "baseFile": stat.base_file,
            "logFiles": list(stat.log_files),
        }
    return fields
