"""The progress that a reader made and did not commit yet, in order. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from penstock.proto.model.groups import SplitProgress, SplitRef


@dataclass(frozen=True, slots=True)
class _Entry:
    sequence: int
    progress: SplitProgress
    empty: bool


class UncommittedBatches:
    """One entry for each batch, and for each split without rows: the progress of the split once the batch is done."""

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque()

    def add(self, sequence: int, progress: SplitProgress, *, empty: bool = False) -> None:
        """Adds the progress that is true once batch `sequence` is done. `empty`: the split had no rows, so its progress
        is true at once."""
        self._entries.append(_Entry(sequence, progress, empty))

    def through(self, sequence: int) -> tuple[SplitProgress, ...]:
        """The newest progress of each split up to batch `sequence`, in the order of the batches."""
        return _newest(entry for entry in self._entries if entry.sequence <= sequence)

    def empty(self) -> tuple[SplitProgress, ...]:
        """The progress of the splits without rows."""
        return _newest(entry for entry in self._entries if entry.empty)

    def forget_through(self, sequence: int) -> None:
        """Removes the entries that `through` returns: they are committed."""
        while self._entries and self._entries[0].sequence <= sequence:
            self._entries.popleft()

    def forget_splits(self, refs: Collection[SplitRef]) -> bool:
        """Removes the entries of these splits; returns whether one of them was of a batch."""
        gone = [entry for entry in self._entries if entry.progress.ref in refs]
        self._entries = deque(entry for entry in self._entries if entry.progress.ref not in refs)
        return any(not entry.empty for entry in gone)

    def forget_empty(self) -> None:
        """Removes the entries that `empty` returns: they are committed."""
        self._entries = deque(entry for entry in self._entries if not entry.empty)

    def __len__(self) -> int:
        return len(self._entries)


def _newest(entries: Iterable[_Entry]) -> tuple[SplitProgress, ...]:
    newest: dict[SplitRef, SplitProgress] = {}
    for entry in entries:
        newest.pop(entry.progress.ref, None)
        newest[entry.progress.ref] = entry.progress
    return tuple(newest.values())
