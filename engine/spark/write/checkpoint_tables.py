"""The tables that the streams of a query write, in a file of the query's checkpoint: a table that is not among them is
another one than that of the checkpoint. Spark leaves the file alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.engine.spark.write.written_batches import Batch, WrittenBatch
from penstock.proto.errors import ConfigurationError
from penstock.table.storage.filesystem import redacted_uri, uri_scheme
from penstock.table.storage.local_writes import open_writable

FOLDER: Final = "sinks"
FILE: Final = f"{FOLDER}/penstock.json"
"""The file, in the folder of the checkpoint."""
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RecordedTable:
    """What the checkpoint says about a stream and a table."""

    first: int
    """The first micro-batch for which the sink was called."""
    has_batches: bool
    """Whether the table has had a batch of the stream."""


RecordedTables = Mapping[str, RecordedTable]
"""The tables of a stream, by path."""


def check_table(checkpoint: str, base_path: str, batch: Batch, newest: WrittenBatch | None) -> None:
    """Records the table in the checkpoint, before the batch is written. `newest`: the newest batch of the stream in the
    table. Checkpoints on object stores have no record, and are not checked.

    ConfigurationError if the table has no batch of the stream, and the checkpoint is that of another table, or of one
    at the same path that had batches.
    """
    if uri_scheme(checkpoint) not in ("", "file"):
        return
    storage, path = open_writable(checkpoint), os.path.realpath(base_path)
    try:
        recorded = _parse(storage.read_bytes(FILE, _MAX_BYTES))
    except FileNotFoundError:
        recorded = {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(
            f"checkpoint {redacted_uri(checkpoint)}: {FILE} is damaged ({str(error)[:200]}): delete the file if the "
            "checkpoint is that of this table; the sink writes it again"
        ) from None
    tables = recorded.get(batch.name, {})
    if newest is None and (reason := lost_rows(tables, path, batch.number)):
        raise ConfigurationError(
            f"table {redacted_uri(base_path)}: it has no batch of stream {batch.name[:80]!r}, and {reason}: the rows "
            f"of batches before {batch.number} would be missing; nothing was written. Checkpoint "
            f"{redacted_uri(checkpoint)} is that of another table: start the query with a new one, or, if the table is "
            "to have the rows from this batch on, give the sink another identifier"
        )
    now = recorded_now(tables, path, batch.number, newest)
    if now != tables:
        storage.make_folder(FOLDER)
        storage.replace(FILE, _encode({**recorded, batch.name: now}))


def lost_rows(tables: RecordedTables, path: str, number: int) -> str:
    """Why a table without batches of the stream lacks rows of batches before `number`; '' if that is not known. Pure.

    A table may be new to the stream: a first batch, a checkpoint without a record, a table whose batches were empty.
    """
    if path in tables:
        return "it had some: it was created again, or restored" if tables[path].has_batches else ""
    earlier = sorted(other for other, recorded in tables.items() if recorded.first < number)
    return f"the stream has written table {redacted_uri(earlier[0])} before" if earlier else ""


def recorded_now(tables: RecordedTables, path: str, number: int, newest: WrittenBatch | None) -> RecordedTables:
    """The record with this table. Pure."""
    before = tables.get(path, RecordedTable(number, has_batches=False))
    return {**tables, path: RecordedTable(before.first, before.has_batches or newest is not None)}


def _parse(data: bytes) -> dict[str, RecordedTables]:
    streams: dict[str, dict[str, dict[str, Any]]] = json.loads(data)["streams"]
    return {
        name: {path: RecordedTable(int(one["first"]), bool(one["has_batches"])) for path, one in tables.items()}
        for name, tables in streams.items()
    }


def _encode(streams: Mapping[str, RecordedTables]) -> bytes:
    values = {
        name: {path: {"first": one.first, "has_batches": one.has_batches} for path, one in tables.items()}
        for name, tables in streams.items()
    }
    return json.dumps({"version": 1, "streams": values}, indent=1, sort_keys=True).encode()
