"""When the log of the state is compacted: its length stays within a multiple of the state, however many rounds there
were, and however often the process restarts. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.enumerator.store.protocol import StoredRecord

COMPACTED_FROM_BYTES: Final = 256 << 10
"""A shorter log is never compacted."""
FACTOR: Final = 4
"""A log is replaced by its compacted records if it is at least so many times as long: compactions then write at most a
third of what is appended."""
ROW_BYTES: Final = 32
"""What a record takes in the store besides its payload."""


@dataclass(slots=True)
class LogSize:
    """The bytes of a log, and from how many on a compaction is considered."""

    size_bytes: int = 0
    """The bytes of all records of the log."""
    due_bytes: int = COMPACTED_FROM_BYTES
    """From this size on the compacted records are computed."""

    def add(self, records: Iterable[StoredRecord]) -> None:
        """Counts records that were appended."""
        self.size_bytes += _size(records)

    @property
    def is_due(self) -> bool:
        """Whether the compacted records are to be computed."""
        return self.size_bytes >= self.due_bytes

    def replaces(self, compacted: Iterable[StoredRecord]) -> bool:
        """Whether the log is to be replaced by its compacted records. If not, they are computed again when the log is
        FACTOR times as long as they are now."""
        self.due_bytes = max(COMPACTED_FROM_BYTES, _size(compacted) * FACTOR)
        return self.is_due

    def replaced(self, compacted: Iterable[StoredRecord]) -> None:
        """Counts the compacted records instead of all others."""
        self.size_bytes = _size(compacted)


def _size(records: Iterable[StoredRecord]) -> int:
    return sum(len(record.payload) + ROW_BYTES for record in records)
