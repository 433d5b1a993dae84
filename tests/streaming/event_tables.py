"""Tables of events in commits of equal spans of event time, in the layout of version 6 and without Hudi's writer."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

START_S: Final = 1_767_225_600
"""2026-01-01 UTC: the first event time."""
S: Final = 1_000_000
_AVRO: Final[dict[str, Any]] = {
    "id": "string",
    "ts": {"type": "long", "logicalType": "timestamp-micros"},
    "g": "string",
    "n": "long",
}
_PROPERTIES: Final = {
    "hoodie.table.name": "events",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.populate.meta.fields": "true",
    "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}


def instant(number: int) -> str:
    """The instant of a commit, counted from 0."""
    return f"20260201{number:06d}000"


def write_events(table: pathlib.Path, commits: int, span_s: int, rows: int) -> pathlib.Path:
    """Each commit adds a file with `rows` rows, whose event times divide the next `span_s` seconds evenly."""
    timeline = table / ".hoodie"
    timeline.mkdir(parents=True)
    (timeline / "hoodie.properties").write_text("".join(f"{key}={value}\n" for key, value in _PROPERTIES.items()))
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in _AVRO.items()]
    schema = json.dumps({"type": "record", "name": "events", "fields": fields})
    for number in range(commits):
        commit = {
            "partitionToWriteStats": {"": [_write_file(table, number, span_s, rows)]},
            "compacted": False,
            "operationType": "INSERT",
            "extraMetadata": {"schema": schema},
        }
        (timeline / f"{instant(number)}.commit").write_text(json.dumps(commit))
    return table


def _write_file(table: pathlib.Path, number: int, span_s: int, rows: int) -> dict[str, Any]:
    name, at = f"file{number}-0_0-1-{number}_{instant(number)}.parquet", instant(number)
    keys = [f"k{number:04d}-{row:03d}" for row in range(rows)]
    first_us = (START_S + number * span_s) * S
    columns = {
        "_hoodie_commit_time": [at] * rows,
        "_hoodie_commit_seqno": [f"{at}_0_{row}" for row in range(rows)],
        "_hoodie_record_key": keys,
        "_hoodie_partition_path": [""] * rows,
        "_hoodie_file_name": [name] * rows,
        "id": keys,
        "ts": pa.array([first_us + row * span_s * S // rows for row in range(rows)], pa.timestamp("us", "UTC")),
        "g": [f"g{row % 2}" for row in range(rows)],
        "n": pa.array([number * rows + row for row in range(rows)], pa.int64()),
    }
    pq.write_table(pa.table(columns), table / name)
    return {
        "fileId": f"file{number}-0",
        "path": name,
        "prevCommit": "null",
        "numWrites": rows,
        "numInserts": rows,
        "numDeletes": 0,
        "numUpdateWrites": 0,
        "totalWriteErrors": 0,
        "fileSizeInBytes": (table / name).stat().st_size,
        "totalWriteBytes": (table / name).stat().st_size,
        "partitionPath": "",
    }
