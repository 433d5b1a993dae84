"""Encodes the history of timeline layout 2: its rows, the names of its files, and manifests. Pure.

Source: Hudi `LSMTimelineWriter`, `HoodieLSMTimelineInstant`, `HoodieLSMTimelineManifest`. `archive_v2` and
`archive_v2_files` decode them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.table.timeline.archive_v2 import HistoryFile
from penstock.table.timeline.archive_v2_files import HISTORY_SCHEMA
from penstock.table.timeline.metadata_schemas.archives import HISTORY_INSTANT

ROW_GROUP_BYTES: Final = 16 << 20
"""Size of a row group before compression."""
_ROW_VERSION: Final = 1
_FOOTERS: Final = {"writer.model.name": "avro", "parquet.avro.schema": json.dumps(HISTORY_INSTANT)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedAction:
    """A completed instant as a row of the history."""

    requested_time: str
    """Its requested time."""
    completion_time: str
    """Its completion time."""
    action: str
    """Action of its completed file."""
    metadata: bytes
    """Content of its completed file."""
    plan: bytes
    """Content of its requested file if that has a plan, else b''."""


def history_rows(actions: Sequence[ArchivedAction]) -> pa.RecordBatch:
    """The rows of these instants, in their order; b'' becomes null."""
    columns = [
        pa.array([item.requested_time for item in actions], pa.string()),
        pa.array([item.completion_time for item in actions], pa.string()),
        pa.array([item.action for item in actions], pa.string()),
        pa.array([item.metadata or None for item in actions], pa.binary()),
        pa.array([item.plan or None for item in actions], pa.binary()),
        pa.array([_ROW_VERSION] * len(actions), pa.int32()),
    ]
    return pa.record_batch(columns, schema=HISTORY_SCHEMA)


def write_history(file: BinaryIO, rows: Iterable[pa.RecordBatch]) -> None:
    """Writes rows of the history into a file, in their order, with the footers of Hudi's writer.

    Row groups have about ROW_GROUP_BYTES, however small the batches are: a reader of all completion times needs as many
    reads as there are row groups. At most one row group, and a batch, are in memory.
    """
    with pq.ParquetWriter(file, HISTORY_SCHEMA.with_metadata(_FOOTERS), compression="gzip") as writer:
        held: list[pa.RecordBatch] = []
        held_bytes = 0
        for batch in rows:
            held.append(batch)
            held_bytes += batch.nbytes
            if held_bytes >= ROW_GROUP_BYTES:
                _write_row_group(writer, held)
                held, held_bytes = [], 0
        if held:
            _write_row_group(writer, held)


def _write_row_group(writer: pq.ParquetWriter, batches: Sequence[pa.RecordBatch]) -> None:
    table = pa.Table.from_batches(batches)
    writer.write_table(table, row_group_size=max(1, table.num_rows))


def merged_name(files: Sequence[HistoryFile]) -> str:
    """The name of the file into which these files of one layer are merged."""
    first, last = min(file.first for file in files), max(file.last for file in files)
    return HistoryFile(first, last, files[0].layer + 1, -1).name


def encode_manifest(files: Sequence[HistoryFile]) -> bytes:
    """The content of a manifest with these files: the inverse of `parse_manifest`."""
    entries = [{"fileName": file.name, "fileLen": file.size_bytes} for file in files]
    return json.dumps({"files": entries}, indent=2, separators=(",", " : ")).encode()
