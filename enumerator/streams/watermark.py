"""The watermark of a batch, from the event-time bounds of its splits and of the known later splits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import EventTimeBounds, NoEventTimes, Split, UnknownBounds
from penstock.proto.model.streams import END_OF_TIME_US, EventTimeRule, StreamScope, Watermark, WatermarkFallback

LOWEST_US: Final = -(2**63)
HIGHEST_US: Final = 2**63 - 1
"""The highest event time that a column can hold."""

InstantUs = Callable[[InstantTime], int | None]
"""UTC microseconds of an order key; None if its time zone is unknown."""


def span_of(splits: Iterable[Split], rule: EventTimeRule, instant_us: InstantUs) -> EventTimeSpan:
    """The span of all splits under the rule. ConfigurationError if the rule needs the time of an instant whose time
    zone is unknown."""
    span = EventTimeSpan()
    for split in splits:
        span |= span_of_split(split, rule, instant_us)
    return span


def span_of_split(split: Split, rule: EventTimeRule, instant_us: InstantUs) -> EventTimeSpan:
    """The span of one split; see `span_of`."""
    match split.event_time:
        case EventTimeBounds(min_us, max_us):
            return EventTimeSpan(min_us, max_us)
        case NoEventTimes():
            return EventTimeSpan()
        case UnknownBounds():
            return _span_of_unknown(split, rule, instant_us)


def _span_of_unknown(split: Split, rule: EventTimeRule, instant_us: InstantUs) -> EventTimeSpan:
    match rule.fallback:
        case WatermarkFallback.SCAN:
            raise InvariantViolation(f"split {split.split_id} was not read for its event times")
        case WatermarkFallback.HOLD:
            return EventTimeSpan(is_unbounded=True)
        case WatermarkFallback.COMMIT_TIME:
            completed_us = instant_us(split.order_key)
            if completed_us is None:
                raise ConfigurationError(
                    f"watermarkFallback=commitTime: instant {split.order_key} has no known UTC time; the timeline is "
                    "in its writer's local time, so give the option timelineTimezone, or use watermarkFallback=scan"
                )
            return EventTimeSpan(completed_us - rule.max_out_of_orderness_us, completed_us)


def next_watermark(before: Watermark, planned: EventTimeSpan, coming: EventTimeSpan, rule: EventTimeRule) -> Watermark:
    """The watermark of a batch. `planned` is the span of its own splits, `coming` that of all known later ones.

    The watermark is lower than every known later event time, and at most `max_out_of_orderness_us` lower than the
    highest event time. It never decreases. Its `high_us` is that of planned splits: a known later commit may be hidden
    by a pending one, or rolled back, and then bounds nothing.
    """
    planned_us = [high for high in (before.high_us, planned.high_us) if high is not None]
    high_us = max(planned_us, default=None)
    highest_us = max((each for each in (high_us, coming.high_us) if each is not None), default=None)
    if highest_us is None or coming.is_unbounded:
        return Watermark(before.at_us, high_us)
    at_us = highest_us - rule.max_out_of_orderness_us
    if coming.low_us is not None:
        at_us = min(at_us, coming.low_us - 1)
    if at_us < LOWEST_US:  # lower than every possible event time
        return Watermark(before.at_us, high_us)
    return Watermark(at_us if before.at_us is None else max(before.at_us, at_us), high_us)


def watermark_at_end(before: Watermark, scope: StreamScope) -> Watermark:
    """The watermark at the end of the stream. Without a rule it stays the same."""
    if scope.rule is None:
        return before
    if scope.end_watermark_us is None:
        return Watermark(END_OF_TIME_US, before.high_us)
    if before.high_us is None:
        return before
    at_us = min(before.high_us + scope.end_watermark_us, HIGHEST_US)
    return Watermark(at_us if before.at_us is None else max(before.at_us, at_us), before.high_us)
