"""Which instants a clean retains, by its policy and by what readers still need. Pure.

Source: Hudi `CleanerUtils.getEarliestCommitToRetain`. A clean with an earliest instant to retain keeps the newest slice
of each file group, every slice from that instant on, and the newest slice before it: the state of the table at that
instant and at every later one can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import InstantTime, Position
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action, Instant
from penstock.table.timeline.services.plans import CleanMetadata


@dataclass(frozen=True, slots=True)
class KeepCommits:
    """Hudi's KEEP_LATEST_COMMITS."""

    count: int
    """The newest completed writes whose state of the table is retained."""

    def __post_init__(self) -> None:
        _check("commits", self.count)

    @property
    def hudi_name(self) -> str:
        """The policy's name in Hudi."""
        return "KEEP_LATEST_COMMITS"


@dataclass(frozen=True, slots=True)
class KeepHours:
    """Hudi's KEEP_LATEST_BY_HOURS."""

    hours: int
    """The last hours whose states of the table are retained."""

    def __post_init__(self) -> None:
        _check("hours", self.hours)

    @property
    def hudi_name(self) -> str:
        """The policy's name in Hudi."""
        return "KEEP_LATEST_BY_HOURS"


@dataclass(frozen=True, slots=True)
class KeepFileVersions:
    """Hudi's KEEP_LATEST_FILE_VERSIONS."""

    count: int
    """The newest slices of each file group that are retained. Replaced file groups are not retained."""

    def __post_init__(self) -> None:
        _check("file_versions", self.count)

    @property
    def hudi_name(self) -> str:
        """The policy's name in Hudi."""
        return "KEEP_LATEST_FILE_VERSIONS"


CleanPolicy = KeepCommits | KeepHours | KeepFileVersions


_MOST: Final = 1_000_000
EVERYTHING: Final = "0"
"""An instant before all others."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What a clean retains, beside the newest slice of each file group."""

    earliest: Instant | None
    """The earliest instant to retain, which the clean records; None under KEEP_LATEST_FILE_VERSIONS."""
    protected_from: str
    """Requested time of the earliest instant whose state of the table must stay readable; '' for none."""


def retention(
    timeline: Timeline,
    policy: CleanPolicy,
    oldest_reader: Position | None,
    now: datetime,
    zone: tzinfo,
    *,
    reads_archived: bool = False,
    newest_archived: str = "",
) -> Retention | None:
    """What a clean by this policy retains now; None if it must delete nothing.

    oldest_reader, reads_archived: as for `needed_from`. now: aware of its zone. zone: that of the timeline.
    newest_archived: as for `earliest_to_retain`.
    """
    needed = needed_from(timeline, oldest_reader, reads_archived=reads_archived)
    if needed == EVERYTHING:
        return None
    if isinstance(policy, KeepFileVersions):
        return Retention(None, needed)
    earliest = earliest_to_retain(timeline, policy, now, zone, newest_archived=newest_archived)
    if earliest is not None and needed and needed < earliest.requested_time:
        earliest = timeline.completed_write(needed)
    return None if earliest is None else Retention(earliest, earliest.requested_time)


def needed_from(timeline: Timeline, oldest_reader: Position | None, *, reads_archived: bool = False) -> str:
    """Requested time of the earliest completed write whose state of the table a reader needs; '' if it needs none of
    the known ones, EVERYTHING if no state may go.

    oldest_reader: the position of the reader that is furthest behind: it still reads every instant after its position,
    and the state of the table at it. None without a reader. reads_archived: whether an archived write is after it.
    """
    if oldest_reader is None:
        return ""
    if reads_archived:
        return EVERYTHING
    completed = timeline.completed_writes
    unread = [item for item in completed if not oldest_reader.holds(timeline.order_key(item))]
    if not unread:
        return ""
    needed = _not_after_pending(completed, unread[0], timeline)
    return EVERYTHING if needed is None else needed.requested_time


def reader_position(keep_from: Position | str | None) -> Position | None:
    """The position that an option states, itself or as an order key."""
    return Position(InstantTime(keep_from)) if isinstance(keep_from, str) else keep_from


def earliest_to_retain(
    timeline: Timeline,
    policy: KeepCommits | KeepHours,
    now: datetime,
    zone: tzinfo,
    *,
    newest_archived: str = "",
) -> Instant | None:
    """The earliest completed write that the policy retains; None if it retains all.

    newest_archived: the requested time of the newest archived write; '' without one. If it is in the last hours, the
    timeline does not have all writes of these hours, and KeepHours retains all. Hudi's archiver leaves them there.

    It is not later than the last completed write before the earliest pending one: what that writes is then looked at by
    the next clean. Hudi does not limit KEEP_LATEST_BY_HOURS so, and never cleans partitions that only a slow write
    touched.
    """
    completed = timeline.completed_writes
    match policy:
        case KeepCommits(count):
            if len(completed) <= count:
                return None
            earliest = completed[len(completed) - count]
        case KeepHours(hours):
            begin = _begin(hours, now, zone)
            later = next((item for item in completed if item.requested_time >= begin), None)
            if later is None or newest_archived >= begin:
                return None
            earliest = later
    return _not_after_pending(completed, earliest, timeline)


def archived_up_to(timeline: Timeline, policy: CleanPolicy, now: datetime, zone: tzinfo) -> str:
    """The requested time of the first write that no archival may archive, so that a clean by this policy retains the
    last hours; '' for any other policy, and if no write is in the last hours.

    It is the write before the first one of these hours, as in Hudi (`ArchivalUtils.getMinAndMaxInstantsToKeep`).
    """
    if not isinstance(policy, KeepHours):
        return ""
    begin = _begin(policy.hours, now, zone)
    completed = timeline.completed_writes
    first = next((n for n, item in enumerate(completed) if item.requested_time >= begin), None)
    return "" if first is None else str(completed[max(0, first - 1)].requested_time)


def archived_up_to_clean(timeline: Timeline, clean: CleanMetadata) -> str:
    """The requested time of the first write that no archival may archive, so that the next clean retains what the last
    one, `clean`, retained by hours; '' if that had another policy.

    It is the write before the earliest one that the clean retained. How many hours it retained is not recorded.
    """
    earliest = clean.earliest_to_retain.strip()
    if not earliest or clean.policy != KeepHours(1).hudi_name:
        return ""
    before = [item.requested_time for item in timeline.completed_writes if item.requested_time < earliest]
    return str(before[-1]) if before else earliest


def _begin(hours: int, now: datetime, zone: tzinfo) -> str:
    """The instant's time that begins the last hours."""
    return (now - timedelta(hours=hours)).astimezone(zone).strftime("%Y%m%d%H%M%S%f")[:17]


def _not_after_pending(completed: Sequence[Instant], instant: Instant, timeline: Timeline) -> Instant | None:
    """The instant, or the last completed write before the earliest pending one if that is before the instant; None if
    there is none."""
    pending = [item.requested_time for item in timeline.pending if item.action is not Action.LOG_COMPACTION]
    first = min(pending, default="")
    if not first or instant.requested_time <= first:
        return instant
    return next((item for item in reversed(completed) if item.requested_time < first), None)


def _check(name: str, value: int) -> None:
    if not 1 <= value <= _MOST:
        raise ConfigurationError(f"clean: got {name}={value}, expected 1 to {_MOST}")
