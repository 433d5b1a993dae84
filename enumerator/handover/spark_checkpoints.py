"""Offsets of a Spark query's batches, from the folder of its checkpoint.

Shell: reads `offsets/<batch id>`. `offset_formats` parses the file.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.enumerator.handover.offset_formats import MAX_CHARS, SinkBatch, parse_offset_log
from penstock.enumerator.handover.offsets import MalformedOffsets, OffsetMap
from penstock.proto.errors import ConfigurationError, FormatError, PositionExpired
from penstock.table.storage.filesystem import open_storage
from penstock.table.storage.uris import redacted_uri


class SparkCheckpoints:
    """Checkpoint folders (paths or URIs) by the identifier of their query.

    One folder may be given without an identifier: it counts for the first query that is looked up.
    """

    def __init__(self, named: Mapping[str, str], unnamed: str | None = None) -> None:
        self._folders = dict(named)
        self._unnamed = unnamed

    def __call__(self, batch: SinkBatch) -> tuple[OffsetMap, ...] | None:
        """The batch's offsets by topic; None if no folder is known for its query.

        Raises PositionExpired if the checkpoint no longer holds the batch, ConfigurationError if the folder is no
        checkpoint, FormatError for a file that is not an offset log.
        """
        if batch.identifier not in self._folders and self._unnamed is not None:
            self._folders[batch.identifier], self._unnamed = self._unnamed, None
        folder = self._folders.get(batch.identifier)
        return None if folder is None else _offsets(folder, batch)


def _offsets(folder: str, batch: SinkBatch) -> tuple[OffsetMap, ...]:
    storage = open_storage(folder)
    where = f"batch {batch.batch_id} of the Spark query {batch.identifier!r}, checkpoint {redacted_uri(folder)}"
    try:
        data = storage.read_bytes(f"offsets/{batch.batch_id}", MAX_CHARS)
    except FileNotFoundError:
        if not any(info.name.isdigit() for info in storage.list_dir("offsets")):
            raise ConfigurationError(f"{where}: there is no checkpoint of a query (no offsets/<batch id>)") from None
        raise PositionExpired(f"{where}: offsets/{batch.batch_id} is gone, Spark keeps the newest batches") from None
    try:
        return parse_offset_log(data.decode("utf-8"))
    except (MalformedOffsets, UnicodeDecodeError) as error:
        raise FormatError(f"{where}: {error}") from None
