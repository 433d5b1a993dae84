"""References to the data files of splits."""

from __future__ import annotations

from penstock.proto.model.positions import InstantTime
from penstock.proto.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class LogWrite:
    """The records that a completed instant wrote into a log file, by the instant's metadata."""

    instant: InstantTime
    """The instant's requested time."""
    data_rows: int
    """Records in data blocks."""
    delete_rows: int
    """Records in delete blocks."""


@dataclass(frozen=True, slots=True)
class FileRef:
    """A data file."""

    path: str
    """The path relative to the table's base path, separated by '/', never outside of it."""
    size_bytes: int
    """The file's size."""
    writes: tuple[LogWrite, ...] | None = None
    """Of a log file: the writes of all completed instants, sorted; None if one of them is not known. A reader needs
    them for a damaged file, to distinguish the leftover of a failed append from lost records."""
    source: FileRef | None = None
    """Of a skeleton of a bootstrapped table, which has the meta columns alone: the file with the other columns of the
    same rows, in the same order. Its path is relative to `Scan.bootstrap_base_path`."""

    @property
    def read_bytes(self) -> int:
        """The bytes on storage of the file and of its source."""
        return self.size_bytes + (0 if self.source is None else self.source.size_bytes)


@dataclass(frozen=True, slots=True)
class SliceFiles:
    """The files from which a state of a file group is merged."""

    base: FileRef | None
    """The base file; None: log files only."""
    base_instant: str = ""
    """The requested time of the instant that wrote the base file, or ''."""
    logs: tuple[FileRef, ...] = ()
    """The log files, in scan order."""

    @property
    def files(self) -> tuple[FileRef, ...]:
        """The base file, if any, and the logs."""
        return self.logs if self.base is None else (self.base, *self.logs)
