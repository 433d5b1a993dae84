"""The positions of a micro-batch in its sources, from the checkpoint of the query, for the metadata of its commit.

Source: Spark `MicroBatchExecution`, `OffsetSeqLog`: `offsets/<batch id>` is written before the batch is run, and `-` or
a line of JSON in it is the end of the batch in each source. Spark gives them to no sink.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.enumerator.handover.commit_offsets import SINK_OFFSETS
from penstock.enumerator.handover.offset_formats import (
    MAX_CHARS,
    format_topics,
    parse_offset_log,
    parse_source_offsets,
)
from penstock.enumerator.handover.offsets import MalformedOffsets
from penstock.proto.errors import ConfigurationError
from penstock.table.storage.filesystem import Storage, open_storage
from penstock.table.storage.uris import redacted_uri

SINK_POSITIONS: Final = "penstock.streaming.positions"
"""The key of the positions in lake sources: a JSON list of `table_id`, `order_key`, `index` and `source`, which is the
number of the source in the query."""
_POSITION_KEYS: Final = ("table_id", "order_key", "index")
_MAX_METADATA_BYTES: Final = 1 << 20


def source_positions(checkpoint: str, query: str, batch_id: int) -> Mapping[str, str]:
    """The extra metadata of the commit of a batch: the topic offsets at its end, and the positions in lake sources.

    No topic offsets if two sources read one topic: they may end at different offsets.

    query: its id. ConfigurationError if the folder is not the checkpoint of this query, or lacks the batch.
    """
    storage = open_storage(checkpoint)
    where = f"checkpoint {redacted_uri(checkpoint)}"
    _check_query(storage, where, query)
    try:
        text = storage.read_bytes(f"offsets/{batch_id}", MAX_CHARS).decode("utf-8")
        sources = parse_source_offsets(text)
    except FileNotFoundError:
        raise ConfigurationError(
            f"{where}: it lacks offsets/{batch_id}, the offsets of the batch that is being written; asynchronous "
            "progress tracking is not supported"
        ) from None
    except (MalformedOffsets, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{where}, offsets/{batch_id}: {error}") from None
    positions = _lake_positions(sources)
    metadata = {SINK_POSITIONS: json.dumps(positions, separators=(",", ":"))} if positions else {}
    try:
        return metadata | {SINK_OFFSETS: format_topics(parse_offset_log(text))}
    except MalformedOffsets:
        return metadata


def _check_query(storage: Storage, where: str, query: str) -> None:
    try:
        stored = json.loads(storage.read_bytes("metadata", _MAX_METADATA_BYTES))["id"]
    except FileNotFoundError:
        raise ConfigurationError(
            f"{where}: it is not the checkpoint of a query, because it has no file `metadata`: give the folder of the "
            "query's option checkpointLocation"
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        stored = ""
    if stored != query:
        raise ConfigurationError(
            f"{where}: it is the checkpoint of query {str(stored)[:80]!r}, expected that of query {query}: give the "
            "folder of the query's option checkpointLocation"
        )


def _lake_positions(sources: Sequence[Any]) -> list[dict[str, Any]]:
    """The positions of the sources that are streams of Penstock (`engine.stream_offsets`)."""
    return [
        {"source": number, **{key: value[key] for key in _POSITION_KEYS}}
        for number, value in enumerate(sources)
        if isinstance(value, dict) and "version" in value and all(key in value for key in _POSITION_KEYS)
    ]
