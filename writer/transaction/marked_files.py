"""The data files of a write, each with a marker that exists before it, so that the write can be rolled back.

Source: Hudi `WriteMarkers`, `HoodiePartitionMetadata`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from penstock.proto.model.positions import InstantTime
from penstock.table.files.markers import IoType, marker_path
from penstock.table.storage.local_writes import WritableStorage
from penstock.writer.transaction.markers import create_partition


@dataclass(slots=True, kw_only=True)
class MarkedFiles:
    """Creates data files of an instant. For one thread."""

    storage: WritableStorage
    """The table's files."""
    requested_time: InstantTime
    """The instant of the write."""
    _partitions: set[str] = field(default_factory=set)
    _markers: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def data_file(self, partition: str, name: str, io_type: IoType) -> Iterator[BinaryIO]:
        """Creates a data file, to be written while the block runs; its marker, and the marker file of its partition,
        exist before. FileExistsError if there is such a file."""
        if partition not in self._partitions:
            create_partition(self.storage, partition, self.requested_time)
            self._partitions.add(partition)
        self._markers.append(marker_path(self.requested_time, partition, name, io_type))
        with contextlib.suppress(FileExistsError):
            self.storage.create(self._markers[-1], b"")
        with self.storage.new_file(joined(partition, name)) as file:
            yield file

    def restore_markers(self) -> None:
        """Creates the markers that are missing. Another writer that rolled this write back removed them, also those of
        files that were created after that."""
        for path in self._markers:
            with contextlib.suppress(FileExistsError):
                self.storage.create(path, b"")

    @property
    def num_files(self) -> int:
        """How many data files were begun."""
        return len(self._markers)


def joined(partition: str, name: str) -> str:
    """The path of a file of a partition."""
    return f"{partition}/{name}" if partition else name
