"""The results of compactions and clusterings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from penstock.table.timeline.commits import WriteStat
from penstock.writer.index.slices import LatestSlice


class ServiceState(StrEnum):
    """How far a service is."""

    DUE = "due"
    """It would be done; nothing was written (a dry run)."""
    SCHEDULED = "scheduled"
    """Its plan is on the timeline: any process can carry it out."""
    COMPLETED = "completed"
    """Readers see its files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceResult:
    """One compaction or clustering."""

    instant: str
    """Its requested time; '' if it is not on the timeline."""
    completion_time: str
    """Its completion time, on timeline layout 1 the requested time; '' if it is not complete."""
    state: ServiceState
    """How far it is."""
    groups: int
    """File groups that it rewrites."""
    files: int
    """Files that it reads."""
    read_bytes: int
    """Their size."""
    rows: int
    """Rows of the files that it wrote."""
    written_files: int
    """Files that it wrote."""
    written_bytes: int
    """Their size."""
    partitions: tuple[str, ...]
    """The partitions of the groups."""


def planned_result(instant: str, slices: Iterable[LatestSlice], state: ServiceState) -> ServiceResult:
    """The result of a service that is not carried out, which reads these slices."""
    return _result(instant, "", state, slices, ())


def completed_result(
    instant: str, completion_time: str, slices: Iterable[LatestSlice], stats: Iterable[WriteStat]
) -> ServiceResult:
    """The result of a completed service, which read these slices and wrote files with these stats."""
    return _result(instant, completion_time, ServiceState.COMPLETED, slices, stats)


def _result(
    instant: str,
    completion_time: str,
    state: ServiceState,
    slices: Iterable[LatestSlice],
    stats: Iterable[WriteStat],
) -> ServiceResult:
    items, written = list(slices), list(stats)
    files = [file for item in items for file in (*((item.base,) if item.base else ()), *item.logs)]
    return ServiceResult(
        instant=instant,
        completion_time=completion_time,
        state=state,
        groups=len(items),
        files=len(files),
        read_bytes=sum(file.size_bytes for file in files),
        rows=sum(stat.num_writes for stat in written),
        written_files=len(written),
        written_bytes=sum(stat.file_size_bytes for stat in written),
        partitions=tuple(sorted({item.partition for item in items})),
    )
