"""The result of a write."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """A completed write."""

    instant: str
    """Its requested time, which identifies it; '' if there was nothing to write."""
    completion_time: str
    """Its completion time, from which readers see it; on timeline layout 1 the requested time."""
    operation: str
    """The operation."""
    rows: int
    """Rows of the data, after the combination of repeated keys."""
    inserted: int
    """Rows of new keys in base files."""
    updated: int
    """Rows that replaced one in a base file, or were appended to a log: readers decide there which row wins."""
    deleted: int
    """Rows that were deleted in base files, or deletes that were appended to a log."""
    files: int
    """Data files written."""
    written_bytes: int
    """Their size."""
    partitions: tuple[str, ...]
    """The partitions that changed."""
    compacted: tuple[str, ...] = ()
    """The instants of compactions that followed (`compact_after`)."""
