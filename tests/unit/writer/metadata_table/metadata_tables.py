"""Tables with a metadata table, for tests of the writer."""

from __future__ import annotations

import pathlib

from penstock.table.hudi_table import open_table
from penstock.table.metadata.listing import TableListing
from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.metadata_table.opened import WritableMetadata

PARTITIONS = "hoodie.table.metadata.partitions"


def listings(path: pathlib.Path) -> tuple[dict[str, int], dict[str, int]]:
    """Path -> size of all data files: by the metadata table, and by the folders. Fails if it cannot be used."""
    table = open_table(str(path))
    found = []
    for metadata in (True, False):
        listing = TableListing(table, table.timeline(), metadata=metadata, few_partitions=0)
        files = {one.ref.path: one.ref.size_bytes for members in listing.all_files().values() for one in members}
        assert listing.from_metadata is metadata, listing.fallback
        found.append(files)
    return found[0], found[1]


def instants(path: pathlib.Path) -> list[tuple[str, str, str]]:
    """(requested time, action, state) of the metadata table's instants."""
    timeline = WritableMetadata.open(LocalStorage(str(path))).timeline
    return [(str(item.requested_time), str(item.action), str(item.state)) for item in timeline.instants]


def listed(path: pathlib.Path) -> str | None:
    """The partitions that the table's properties name."""
    return open_table(str(path)).properties.raw.get(PARTITIONS)


def list_partitions(path: pathlib.Path, names: str, key: str = PARTITIONS) -> None:
    """Names these partitions in the table's properties."""
    file = path / ".hoodie/hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if line.partition("=")[0] != key]
    file.write_text("\n".join([*lines, f"{key}={names}", ""]))
