"""The event times of a round of a consumer group: of its splits, and of what is known to come after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.enumerator.continuous.types import NextRound, RoundEventTimes
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.snapshots.group_start import at_snapshot
from penstock.enumerator.streams.known_commits import KnownCommits
from penstock.enumerator.streams.watermark import span_of, span_of_split
from penstock.proto.model.hybrid import KafkaPlace
from penstock.proto.model.splits import EventTimeBounds, NoEventTimes, Split
from penstock.proto.model.streams import EventTimeRule


def with_event_times(next_round: NextRound, known: KnownCommits, later: Sequence[Split] = ()) -> NextRound:
    """The round of the table, with its event times. `later`: splits of its snapshot after the round."""
    coming = span_of(later, known.rule, known.instant_us) | known.span_after(at_snapshot(next_round.progress))
    times = RoundEventTimes(
        tuple(span_of_split(split, known.rule, known.instant_us) for split in next_round.plan.splits), coming
    )
    return replace(next_round, event_times=times)


def with_topic_times(next_round: NextRound, place: KafkaPlace, rule: EventTimeRule) -> NextRound:
    """The round of a topic, with its event times."""
    times = RoundEventTimes(tuple(_spans_of_topic(next_round.plan.splits)), coming_of_topic(place, rule))
    return replace(next_round, event_times=times)


def _spans_of_topic(splits: Iterable[Split]) -> Iterable[EventTimeSpan]:
    for split in splits:
        match split.event_time:
            case EventTimeBounds(min_us, max_us):
                yield EventTimeSpan(min_us, max_us)
            case NoEventTimes():
                yield EventTimeSpan()
            case _:
                yield EventTimeSpan(is_unbounded=True)


def coming_of_topic(place: KafkaPlace, rule: EventTimeRule) -> EventTimeSpan:
    """The span of the records of the topic after the place.

    A partition with more records limits the watermark to the allowed lateness below its highest event time so far;
    without an event time so far, it holds the watermark where it is. A partition that is read to its end does not
    limit it.
    """
    coming = EventTimeSpan()
    for item in place.places:
        if item.behind and item.high_us is None:
            coming |= EventTimeSpan(is_unbounded=True)
        elif item.behind and item.high_us is not None:
            coming |= EventTimeSpan(low_us=item.high_us - rule.max_out_of_orderness_us + 1)
    return coming
