"""The position of a Spark query in a table, from the folder of its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from penstock.engine.stream_offsets import ScopeId, is_offset, point_of
from penstock.proto.errors import ConfigurationError, FormatError
from penstock.proto.model.positions import EARLIEST, Position
from penstock.table.storage.filesystem import Storage, open_storage
from penstock.table.storage.uris import redacted_uri

_MAX_BYTES: Final = 16 << 20
"""Largest file of offsets that is read."""
_MAX_SOURCES: Final = 1000


def checkpoint_position(folder: str, hudi_name: str) -> Position | None:
    """Up to where the query of a checkpoint has read the table with this name in its properties; None if it reads the
    topic of a hybrid stream, or has ended, and needs nothing of the table any more.

    It is the end of the last batch that Spark completed: the query may still read a later one. EARLIEST before the
    first completed batch. If the query has several sources of the table, the one that is furthest behind.
    ConfigurationError for a folder without a checkpoint, and for a query that does not read the table by Penstock;
    FormatError for a damaged file.
    """
    where = f"checkpoint {redacted_uri(folder)}"
    storage = open_storage(folder)
    batches, commits = _batches(storage, "offsets"), _batches(storage, "commits")
    if not batches:
        raise ConfigurationError(f"{where}: there is no checkpoint of a query (no offsets/<batch id>)")
    completed = max(commits, default=None)
    number = min(batches) if completed is None else completed
    try:
        data = storage.read_bytes(f"offsets/{number}", _MAX_BYTES)
    except FileNotFoundError:
        raise FormatError(f"{where}: offsets/{number} is gone, and commits/{number} exists") from None
    sources = _sources(data, f"{where}, offsets/{number}", hudi_name)
    if completed is None:
        return EARLIEST
    positions = [_position(source) for source in sources]
    needed = [position for position in positions if position is not None]
    return min(needed, default=None)


def _batches(storage: Storage, folder: str) -> list[int]:
    return [int(info.name) for info in storage.list_dir(folder) if info.name.isascii() and info.name.isdigit()]


def _sources(data: bytes, where: str, hudi_name: str) -> list[dict[str, object]]:
    """The offsets of the sources that read the table. Line 1 is `v1`, line 2 the batch's own metadata, then a line for
    each source."""
    try:
        lines = data.decode("utf-8").rstrip("\n").split("\n")
        if lines[0].strip() != "v1" or not 3 <= len(lines) <= _MAX_SOURCES:
            raise FormatError(f"{where}: got {len(lines)} lines, expected v1, metadata, sources")
        values = [None if line.strip() == "-" else json.loads(line) for line in lines[2:]]
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where}: {error}") from None
    offsets: list[dict[str, object]] = [value for value in values if isinstance(value, dict) and is_offset(value)]
    ours = [offset for offset in offsets if offset.get("table_id") in ("", hudi_name)]
    if not ours:
        names = sorted({str(offset.get("table_id"))[:100] for offset in offsets})
        raise ConfigurationError(
            f"{where}: the query has no source of Penstock that reads table {hudi_name}; it reads "
            f"{', '.join(names)[:500] or 'no table by Penstock'}"
        )
    return ours


def _position(source: Mapping[str, object]) -> Position | None:
    point = point_of(source, ScopeId.parse(str(source["scope"])))
    return None if point.ended or point.progress.kafka is not None else point.progress.position
