"""The watermark of a batch, from the event-time bounds of what is planned and of what is known to come.

Pure. Belongs here: what bounds mean for the watermark. Not here: where bounds come from
(`penstock.enumerator.planning.event_time.bounds`), which splits are still to come (`batches`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import EventTimeBounds, NoEventTimes, Split, UnknownBounds
from penstock.proto.model.streams import END_OF_TIME_US, EventTimeRule, StreamScope, Watermark, WatermarkFallback

LOWEST_US: Final = -(2**63)
HIGHEST_US: Final = 2**63 - 1
"""Of the event times that a column can hold."""

InstantUs = Callable[[InstantTime], int | None]
"""UTC microseconds of an order key; None if they cannot be told."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What is known of the event times of some rows. `low_us` None: no row bounds them from below; `is_open`: a row may
    have any event time."""

    low_us: int | None = None
    high_us: int | None = None
    is_open: bool = False

    def __or__(self, other: Reach) -> Reach:
        return Reach(
            min((low for low in (self.low_us, other.low_us) if low is not None), default=None),
            max((high for high in (self.high_us, other.high_us) if high is not None), default=None),
            self.is_open or other.is_open,
        )


def reach_of(splits: Iterable[Split], rule: EventTimeRule, instant_us: InstantUs) -> Reach:
    """What the bounds of splits amount to by the rule. ConfigurationError if it needs the time of an instant that
    cannot be told."""
    found = Reach()
    for split in splits:
        found |= _reach_of_split(split, rule, instant_us)
    return found


def _reach_of_split(split: Split, rule: EventTimeRule, instant_us: InstantUs) -> Reach:
    match split.event_time:
        case EventTimeBounds(min_us, max_us):
            return Reach(min_us, max_us)
        case NoEventTimes():
            return Reach()
        case UnknownBounds():
            return _reach_of_unknown(split, rule, instant_us)


def _reach_of_unknown(split: Split, rule: EventTimeRule, instant_us: InstantUs) -> Reach:
    match rule.fallback:
        case WatermarkFallback.SCAN:
            raise InvariantViolation(f"split {split.split_id} was not read for its event times")
        case WatermarkFallback.HOLD:
            return Reach(is_open=True)
        case WatermarkFallback.COMMIT_TIME:
            completed_us = instant_us(split.order_key)
            if completed_us is None:
                raise ConfigurationError(
                    f"watermarkFallback=commitTime: instant {split.order_key} cannot be told in UTC; the timeline is "
                    "in its writer's local time, so give the option timelineTimezone, or use watermarkFallback=scan"
                )
            return Reach(completed_us - rule.max_out_of_orderness_us, completed_us)


def next_watermark(before: Watermark, planned: Reach, coming: Reach, rule: EventTimeRule) -> Watermark:
    """The watermark that the rows of a batch carry: `planned` are its own splits, `coming` all others that are known.

    It is below every event time that is known to come, and at the frontier `max_out_of_orderness_us` behind the highest
    one; it never moves back.
    """
    highs = [high for high in (before.high_us, planned.high_us, coming.high_us) if high is not None]
    high_us = max(highs, default=None)
    if high_us is None or coming.is_open:
        return Watermark(before.at_us, high_us)
    at_us = high_us - rule.max_out_of_orderness_us
    if coming.low_us is not None:
        at_us = min(at_us, coming.low_us - 1)
    if at_us < LOWEST_US:  # below every event time there is: nothing to say
        return Watermark(before.at_us, high_us)
    return Watermark(at_us if before.at_us is None else max(before.at_us, at_us), high_us)


def watermark_at_end(before: Watermark, scope: StreamScope) -> Watermark:
    """The watermark once the stream's end is reached; without a rule it stays."""
    if scope.rule is None:
        return before
    if scope.end_watermark_us is None:
        return Watermark(END_OF_TIME_US, before.high_us)
    if before.high_us is None:
        return before
    at_us = min(before.high_us + scope.end_watermark_us, HIGHEST_US)
    return Watermark(at_us if before.at_us is None else max(before.at_us, at_us), before.high_us)
