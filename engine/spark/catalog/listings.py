"""The timeline and the splits of a table as rows. Reads metadata in this process, never a row of the table."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Final

import pyarrow as pa

from penstock.engine.connect import embedded_enumerator, enumerator_for
from penstock.engine.requests.batch import plan_request
from penstock.engine.requests.times import TimelineZone, utc_of
from penstock.proto.model.splits import RowGroupRun, Split
from penstock.proto.options.registry import ParsedOptions
from penstock.proto.retry import Retry
from penstock.table.hudi_table import open_table
from penstock.table.timeline.active import Timeline

_UTC: Final = pa.timestamp("us", tz="UTC")
_FILE: Final = pa.struct([pa.field("path", pa.string()), pa.field("size_bytes", pa.int64())])

TIMELINE: Final = pa.schema(
    [
        pa.field("requested_time", pa.string()),
        pa.field("completion_time", pa.string()),
        pa.field("order_key", pa.string()),
        pa.field("action", pa.string()),
        pa.field("state", pa.string()),
        pa.field("requested_at", _UTC),
        pa.field("completed_at", _UTC),
        pa.field("file", pa.string()),
    ]
)
"""The columns of a timeline: the fields of `penstock timeline --format json`."""

SPLITS: Final = pa.schema(
    [
        pa.field("split_id", pa.string()),
        pa.field("order_key", pa.string()),
        pa.field("partition", pa.string()),
        pa.field("partition_values", pa.list_(pa.string())),
        pa.field("file_group", pa.string()),
        pa.field("base_file", _FILE),
        pa.field("base_instant", pa.string()),
        pa.field("row_groups", pa.list_(pa.int64())),
        pa.field("log_files", pa.list_(_FILE)),
        pa.field("size_bytes", pa.int64()),
    ]
)
"""The columns of splits: the fields of `penstock splits plan --format json` that do not depend on the query."""


def timeline_of(table: str, options: ParsedOptions) -> pa.RecordBatch:
    """The active instants of the table by requested time; with the option `server`, of the table of that name there.

    `requested_at` and `completed_at` are null if the zone of the timeline is not known. Errors: `penstock.errors`.
    """
    opened = open_table(_path_of(table, options))
    zone = TimelineZone(table, opened.properties.timezone, options.timeline_timezone).known()
    return timeline_rows(opened.timeline(), zone)


def timeline_rows(timeline: Timeline, zone: tzinfo | None) -> pa.RecordBatch:
    """The instants as rows of `TIMELINE`; times in UTC if the zone is given."""

    def moment(instant: str | None) -> datetime | None:
        return utc_of(instant, zone) if instant is not None and zone is not None else None

    rows = [
        {
            "requested_time": str(instant.requested_time),
            "completion_time": None if instant.completion_time is None else str(instant.completion_time),
            "order_key": str(timeline.order_key(instant)) if instant.is_completed else None,
            "action": instant.action.value,
            "state": instant.state.value,
            "requested_at": moment(instant.requested_time),
            "completed_at": moment(instant.completion_time),
            "file": instant.file_name,
        }
        for instant in timeline.instants
    ]
    return pa.RecordBatch.from_pylist(rows, schema=TIMELINE)


def splits_of(table: str, options: ParsedOptions) -> pa.RecordBatch:
    """The splits of a read with these options, in commit order. Errors: `penstock.errors`."""
    path, enumerator = _path_of(table, options), embedded_enumerator()
    local = replace(options, server=None)
    plan = enumerator.plan(plan_request(path, local, lambda: enumerator.describe_table(path), slots=1))
    return pa.RecordBatch.from_pylist([_split_row(split) for split in plan.splits], schema=SPLITS)


def _split_row(split: Split) -> dict[str, object]:
    base, part = split.base, split.part
    return {
        "split_id": split.split_id,
        "order_key": str(split.order_key),
        "partition": split.partition,
        "partition_values": list(split.partition_values),
        "file_group": split.file_group,
        "base_file": None if base is None else {"path": base.path, "size_bytes": base.size_bytes},
        "base_instant": split.base_instant or None,
        "row_groups": [part.first, part.end] if isinstance(part, RowGroupRun) else None,
        "log_files": [{"path": log.path, "size_bytes": log.size_bytes} for log in split.logs],
        "size_bytes": split.size_bytes,
    }


def _path_of(table: str, options: ParsedOptions) -> str:
    """The table's path; for a name on a server the path that the server returns: this process must reach it too."""
    if options.server is None:
        return table
    enumerator, retry = enumerator_for(options.server, options.access), Retry(policy=options.retry)
    return retry.call(lambda: enumerator.describe_table(table)).base_path
