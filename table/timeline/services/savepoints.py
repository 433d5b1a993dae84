"""Decodes savepoints: the data files that a savepoint protects. Pure. Source: Hudi `HoodieSavepointMetadata`."""

from __future__ import annotations

from penstock.proto.errors import CorruptFile
from penstock.table.timeline.commits import decode_metadata
from penstock.table.timeline.instants import Instant


def parse_savepoint(data: bytes, instant: Instant, table: str = "") -> frozenset[tuple[str, str]]:
    """(partition, name) of the base and log files that a completed savepoint protects.

    CorruptFile for bytes that are not a complete savepoint, and for a path in place of a name.
    """
    fields = decode_metadata(data, instant, table)
    files: set[tuple[str, str]] = set()
    for partition, entry in fields.partitions("partitionMetadata", required=True):
        names = entry.nested("of", entry.values["of"]).file_names("savepointDataFile")
        if "" in names:
            raise CorruptFile(f"{fields.where}, field {entry.path}savepointDataFile: got an empty name")
        files.update((partition, name) for name in names)
    return frozenset(files)
