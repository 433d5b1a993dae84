"""Alignment of event times (FLIP-182): how far each member of a set may read ahead of the slowest one. Pure.

Batches are cut at commits and splits. The promise: a member that is not the slowest reads no event time above the
lowest watermark of the active members plus its drift, as far as event times are bounded; the slowest one is never held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.streams.watermark import HIGHEST_US, LOWEST_US
from penstock.proto.model.streams import EventTimeCeiling

K = TypeVar("K")

DEFAULT_IDLE_MS: Final = 5 * 60_000
"""The idle timeout of a member that gives none."""
MAX_IDLE_MS: Final = 24 * 3_600_000
"""A longer idle timeout counts as this one: no member that stopped holds back the others for longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedMember:
    """A member of a set after its newest batch."""

    watermark_us: int | None
    """Its watermark, UTC microseconds; None if it is not known yet."""
    idle_timeout_ms: int
    """After so long without activity it no longer holds back the others."""
    active_ms: int
    """When it last received a batch, was held, or joined."""
    seen_ms: int
    """When it last called."""


def set_number(principal: str, name: str) -> int:
    """A number for the set of this name of a caller: sets of the same name of different callers have different ones.
    It does not show who the caller is, and is the same while the process runs. At least 1."""
    return hash((principal, name)) % 2**31 + 1


def is_active(member: AlignedMember, now_ms: int) -> bool:
    """Whether the member holds back the others: it is neither idle nor stopped."""
    return now_ms - member.active_ms < min(member.idle_timeout_ms, MAX_IDLE_MS)


def is_silent(member: AlignedMember, now_ms: int) -> bool:
    """Whether the member has stopped: it has not called for its idle timeout."""
    return now_ms - member.seen_ms >= min(member.idle_timeout_ms, MAX_IDLE_MS)


def ceiling_of(
    watermark_us: int | None, max_drift_us: int, others: Iterable[AlignedMember], now_ms: int
) -> EventTimeCeiling:
    """The ceiling of the next batch of a member with this watermark. `others`: the other members of its set.

    A watermark that is not known yet is below every other one.
    """
    watermarks = [other.watermark_us for other in others if is_active(other, now_ms)]
    if watermark_us is None:
        return EventTimeCeiling(None, max_drift_us, is_lowest=True)
    known = [at_us for at_us in watermarks if at_us is not None]
    if len(known) < len(watermarks):
        return EventTimeCeiling(LOWEST_US, max_drift_us, is_lowest=False)
    lowest_us = min(known, default=watermark_us)
    until_us = min(min(lowest_us, watermark_us) + max_drift_us, HIGHEST_US)
    return EventTimeCeiling(until_us, max_drift_us, is_lowest=watermark_us <= lowest_us)


def ceilings_of(
    watermarks: Mapping[K, int | None], max_drift_us: int, members: Iterable[AlignedMember], now_ms: int
) -> dict[K, EventTimeCeiling]:
    """The ceiling of each of several members of a set, by their watermarks. `members`: all members of the set; to
    count a member itself does not change its ceiling."""
    slowest = min((each for each in members if is_active(each, now_ms)), key=_mark, default=None)
    others = [] if slowest is None else [slowest]
    lowest_us = None if slowest is None else slowest.watermark_us
    ahead: EventTimeCeiling | None = None  # the same for all that are ahead of the slowest one
    ceilings: dict[K, EventTimeCeiling] = {}
    for key, at_us in watermarks.items():
        if at_us is None or lowest_us is None or at_us <= lowest_us:
            ceilings[key] = ceiling_of(at_us, max_drift_us, others, now_ms)
            continue
        if ahead is None:
            ahead = ceiling_of(at_us, max_drift_us, others, now_ms)
        ceilings[key] = ahead
    return ceilings


def _mark(member: AlignedMember) -> tuple[bool, int]:
    return (member.watermark_us is not None, member.watermark_us or 0)


def is_held(watermark_us: int | None, ceiling: EventTimeCeiling) -> bool:
    """Whether a member with this watermark receives no batch, whatever its table has."""
    if ceiling.is_lowest or watermark_us is None or ceiling.until_us is None:
        return False
    return watermark_us > ceiling.until_us


def units_within(spans: Iterable[EventTimeSpan], ceiling: EventTimeCeiling) -> int:
    """How many of the next commits or splits the batch may contain. `spans`: of each, in order; read only as far as
    needed.

    For the slowest member at least one, and all within its drift of the first event time, so that it crosses a gap in
    the event times. For another member, one whose event times are unknown counts only as the first.
    """
    until_us, count, is_open = ceiling.until_us, 0, ceiling.is_lowest
    for span in spans:
        if span.is_unbounded:
            return max(count, 1)
        if is_open and span.low_us is not None:
            first_us = min(span.low_us + ceiling.max_drift_us, HIGHEST_US)
            until_us, is_open = first_us if until_us is None else max(until_us, first_us), False
        if span.high_us is not None and until_us is not None and span.high_us > until_us:
            return max(count, 1) if ceiling.is_lowest else count
        count += 1
    return count
