"""What a reader handed out and has not committed yet, in order. Pure.

Belongs here: which progress a commit tells. A split's entries are its batches; the last one finishes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.proto.model.groups import SplitProgress, SplitRef


@dataclass(frozen=True, slots=True)
class _Entry:
    sequence: int
    progress: SplitProgress
    empty: bool


class UncommittedBatches:
    """Entries by sequence number: that of the batch after which they hold."""

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque()

    def add(self, sequence: int, progress: SplitProgress, *, empty: bool = False) -> None:
        """Holds once batch `sequence` is done. `empty`: nothing of the split was handed out, so it holds at once."""
        self._entries.append(_Entry(sequence, progress, empty))

    def through(self, sequence: int) -> tuple[SplitProgress, ...]:
        """The newest progress of each split among the entries up to batch `sequence`, in the order they came."""
        return _newest(entry for entry in self._entries if entry.sequence <= sequence)

    def empty(self) -> tuple[SplitProgress, ...]:
        """Of splits of which nothing was handed out."""
        return _newest(entry for entry in self._entries if entry.empty)

    def forget_through(self, sequence: int) -> None:
        """Those entries are committed."""
        while self._entries and self._entries[0].sequence <= sequence:
            self._entries.popleft()

    def forget_rowless(self) -> None:
        """Those entries are committed."""
        self._entries = deque(entry for entry in self._entries if not entry.empty)

    def __len__(self) -> int:
        return len(self._entries)


def _newest(entries: Iterable[_Entry]) -> tuple[SplitProgress, ...]:
    found: dict[SplitRef, SplitProgress] = {}
    for entry in entries:
        found.pop(entry.progress.ref, None)
        found[entry.progress.ref] = entry.progress
    return tuple(found.values())
