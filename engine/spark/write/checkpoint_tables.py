"""The tables that the streams of a query write, in a file of the query's checkpoint: a table that is not among them is
another one than that of the checkpoint. Spark leaves the file alone."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.engine.spark.write.written_batches import Batch, WrittenBatch
from penstock.proto.errors import ConfigurationError
from penstock.table.storage.local_writes import open_writable
from penstock.table.storage.uris import redacted_uri, uri_scheme

FOLDER: Final = "sinks"
FILE: Final = f"{FOLDER}/penstock.json"
"""The file, in the folder of the checkpoint."""
NONE: Final = -1
"""No batch."""
_MAX_BYTES: Final = 1 << 20
_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class RecordedTable:
    """What the checkpoint says about a stream and a table."""

    first: int
    """The first micro-batch for which the sink was called."""
    newest: int = NONE
    """The newest batch of the stream that the table is known to have; NONE without one."""


RecordedTables = Mapping[str, RecordedTable]
"""The tables of a stream, by path."""


def check_table(checkpoint: str, base_path: str, batch: Batch, newest: WrittenBatch | None) -> None:
    """Records the table in the checkpoint, before the batch is written. `newest`: the newest batch of the stream in the
    table. Checkpoints on object stores have no record, and are not checked.

    ConfigurationError if the table lacks batches: it has none of the stream, and the checkpoint is that of another
    table; or it had a newer one.
    """
    number = NONE if newest is None else newest.number

    def checked(tables: RecordedTables, path: str) -> RecordedTables:
        if reason := lost_rows(tables, path, batch.number, number):
            raise ConfigurationError(
                f"table {redacted_uri(base_path)}: it has "
                f"{'no batch' if newest is None else f'batch {number} as the newest one'} of stream "
                f"{batch.name[:80]!r}, and {reason}: rows of batches before {batch.number} would be missing; nothing "
                f"was written. Start the query with a new checkpoint (this one is {redacted_uri(checkpoint)}), or, if "
                "the table is to have the rows from this batch on, give the sink another identifier"
            )
        return recorded_now(tables, path, batch.number, number)

    _change(checkpoint, base_path, batch.name, checked)


def record_batch(checkpoint: str, base_path: str, batch: Batch) -> None:
    """Records that the table has the batch. After a crash before it, the batch comes again, and is found in the
    table."""
    number = batch.number
    _change(checkpoint, base_path, batch.name, lambda tables, path: recorded_now(tables, path, number, number))


def lost_rows(tables: RecordedTables, path: str, number: int, newest: int) -> str:
    """Why a table whose newest batch of the stream is `newest` (NONE: it has none) lacks rows of batches before
    `number`; '' if that is not known. Pure.

    A table may be new to the stream: a first batch, a checkpoint without a record, a table whose batches were empty. A
    table with batches may have been moved.
    """
    if path in tables:
        known = tables[path].newest
        return f"it had batch {known}: it was created again, or restored" if known > newest else ""
    if newest > NONE:
        return ""
    earlier = sorted(other for other, one in tables.items() if one.first < number and one.newest > NONE)
    return f"the stream has written table {redacted_uri(earlier[0])} before" if earlier else ""


def recorded_now(tables: RecordedTables, path: str, number: int, newest: int) -> RecordedTables:
    """The record with this table. Pure."""
    before = tables.get(path, RecordedTable(number))
    return {**tables, path: RecordedTable(before.first, max(before.newest, newest))}


def _change(
    checkpoint: str, base_path: str, name: str, changed: Callable[[RecordedTables, str], RecordedTables]
) -> None:
    """Replaces the record of a stream. Sinks of one query may be called in several threads."""
    if uri_scheme(checkpoint) not in ("", "file"):
        return
    storage, path = open_writable(checkpoint), os.path.realpath(base_path)
    with _LOCK:
        try:
            recorded = _parse(storage.read_bytes(FILE, _MAX_BYTES))
        except FileNotFoundError:
            recorded = {}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ConfigurationError(
                f"checkpoint {redacted_uri(checkpoint)}: {FILE} is damaged ({str(error)[:200]}): delete the file if "
                "the checkpoint is that of this table; the sink writes it again"
            ) from None
        tables = recorded.get(name, {})
        now = changed(tables, path)
        if now != tables:
            storage.make_folder(FOLDER)
            storage.replace(FILE, _encode({**recorded, name: now}))


def _parse(data: bytes) -> dict[str, RecordedTables]:
    streams: dict[str, dict[str, dict[str, Any]]] = json.loads(data)["streams"]
    return {
        name: {path: RecordedTable(int(one["first"]), int(one["newest"])) for path, one in tables.items()}
        for name, tables in streams.items()
    }


def _encode(streams: Mapping[str, RecordedTables]) -> bytes:
    values = {
        name: {path: {"first": one.first, "newest": one.newest} for path, one in tables.items()}
        for name, tables in streams.items()
    }
    return json.dumps({"version": 1, "streams": values}, indent=1, sort_keys=True).encode()
