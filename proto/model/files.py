"""References to data files, as splits carry them. Values only; what the files mean together is in `splits` and
`changes`."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.proto.model.positions import InstantTime


@dataclass(frozen=True, slots=True)
class LogWrite:
    """What the metadata of a completed instant says it wrote into a log file: records in its data blocks, and in its
    delete blocks."""

    instant: InstantTime
    data_rows: int
    delete_rows: int


@dataclass(frozen=True, slots=True)
class FileRef:
    """A data file by its path relative to the table's base path ('/'-separated, never leaving it), and its size.

    `writes`, of a log file: what every completed instant wrote into it, sorted; None where that is not known of all of
    them. A reader needs it where the file is damaged, to tell the leftover of a failed append from a loss.
    """

    path: str
    size_bytes: int
    writes: tuple[LogWrite, ...] | None = None


@dataclass(frozen=True, slots=True)
class SliceFiles:
    """The files that a state of a file group is merged from: `logs` in scan order, `base` None for logs alone.

    `base_instant` is the requested time of the instant that wrote the base file, '' without one.
    """

    base: FileRef | None
    base_instant: str = ""
    logs: tuple[FileRef, ...] = ()

    @property
    def files(self) -> tuple[FileRef, ...]:
        """The base file, if any, and the logs."""
        return self.logs if self.base is None else (self.base, *self.logs)
