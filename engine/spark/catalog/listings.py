"""The timeline and the splits of a table as rows, from metadata, never from a row of the table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import pyarrow as pa

from penstock.engine.connect import enumerator_for
from penstock.engine.instants import list_instants
from penstock.engine.read_tasks import open_read
from penstock.proto.model.splits import RowGroupRun, Split
from penstock.proto.options.registry import ParsedOptions
from penstock.proto.retry import Retry

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
    retry = Retry(policy=options.retry_if_given if options.server is None else options.retry)
    instants = list_instants(enumerator_for(options.server, options.access), table, options, retry)
    return pa.RecordBatch.from_pylist(list(map(asdict, instants)), schema=TIMELINE)


def splits_of(table: str, options: ParsedOptions) -> pa.RecordBatch:
    """The splits of a read with these options, in commit order; with the option `server`, as that server plans them:
    this process opens no file of the table. Errors: `penstock.errors`."""
    rows = [_split_row(task.split) for task in open_read(table, options).tasks()]
    return pa.RecordBatch.from_pylist(rows, schema=SPLITS)


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
