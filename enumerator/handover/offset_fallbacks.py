"""Where the offsets come from, best first: a commit, the consumer group, a time, an explicit map; each step explicit.

Pure: answers of brokers come in as values. A fallback counts only if the user configured it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never

from penstock.enumerator.handover.commit_offsets import WriterKind
from penstock.enumerator.handover.offset_search import OffsetsFound, OffsetsNotFound, SkippedOtherSource, Step
from penstock.enumerator.handover.offsets import OffsetMap
from penstock.proto.errors import ConfigurationError


class Guarantee(StrEnum):
    """How the offsets relate to the rows of the table."""

    EXACT = "exact"
    """Records below the offsets are in the table, all others are not."""
    BEST_EFFORT = "best effort"
    """As EXACT, unless the writer failed to store its offsets."""
    NO_LOSS = "no loss, some records again"
    """No record is lost; some may be delivered twice."""
    AS_GIVEN = "as given"
    """The user is responsible for the offsets."""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The offsets that the writer's consumer group committed to Kafka, after each commit of the table.

    Valid only if the writer ran with `hoodie.streamer.source.kafka.enable.commit.offset`.
    """

    group: str
    """The consumer group."""
    offsets: OffsetMap | None
    """Its offsets; None without any."""


@dataclass(frozen=True, slots=True)
class OffsetsAtTime:
    """The first offsets at or after a time; the end of a partition without such a record."""

    timestamp_ms: int
    """Milliseconds since 1970 UTC, with any slack subtracted."""
    offsets: OffsetMap | None
    """The offsets; None if the broker has no answer."""


@dataclass(frozen=True, slots=True)
class GivenOffsets:
    """The option `kafkaStartingOffsets`."""

    offsets: OffsetMap
    """The offsets."""


Fallback: TypeAlias = GroupOffsets | OffsetsAtTime | GivenOffsets
Origin: TypeAlias = OffsetsFound | Fallback


@dataclass(frozen=True, slots=True)
class HandOver:
    """The resolved hand-over."""

    offsets: OffsetMap
    """Where reading the topic begins."""
    origin: Origin
    """Where the offsets come from."""
    guarantee: Guarantee
    """How they relate to the rows of the table."""
    passed: tuple[OffsetsNotFound | Fallback, ...] = ()
    """The earlier steps, which had no answer."""


def hand_over(
    search: OffsetsFound | OffsetsNotFound, fallbacks: Collection[Fallback] = (), topic: str = ""
) -> HandOver:
    """The first step with an answer, in the order of the module's docstring, whatever the order of `fallbacks`.

    ConfigurationError if no step has one, or if it is about another topic than `topic`.
    """
    if isinstance(search, OffsetsFound):
        return HandOver(search.offsets, search, _guarantee(search))
    passed: list[OffsetsNotFound | Fallback] = [search]
    for step in sorted(fallbacks, key=_rank):
        offsets = step.offsets
        if offsets is None:
            passed.append(step)
            continue
        if topic and offsets.topic != topic:
            raise ConfigurationError(f"the offsets given are of topic {offsets.topic}, expected {topic}")
        guarantee = Guarantee.AS_GIVEN if isinstance(step, GivenOffsets) else Guarantee.NO_LOSS
        return HandOver(offsets, step, guarantee, tuple(passed))
    others = sorted({name for step in search.steps for name in _topics(step)})
    hint = f"; they hold offsets of {', '.join(others[:10])}" if others else ""
    raise ConfigurationError(
        f"no commit up to the hand-over instant holds offsets of {topic or 'a topic'} ({len(search.steps)} commits "
        f"searched, archived ones included{hint}): name the key that holds them and its format (kafkaOffsetsKey and "
        "kafkaOffsetsFormat; --key and --format of `penstock offsets resolve`), or give the offsets "
        "(kafkaStartingOffsets; --starting-offsets)"
    )


def _topics(step: Step) -> tuple[str, ...]:
    return step.verdict.source.topics if isinstance(step.verdict, SkippedOtherSource) else ()


def _rank(step: Fallback) -> int:
    match step:
        case GroupOffsets():
            return 0
        case OffsetsAtTime():
            return 1
        case GivenOffsets():
            return 2
        case _:
            assert_never(step)


def _guarantee(search: OffsetsFound) -> Guarantee:
    kinds = {source.reached.writer.kind for source in search.sources}
    return Guarantee.BEST_EFFORT if kinds & {WriterKind.FLINK, WriterKind.NAMED} else Guarantee.EXACT
