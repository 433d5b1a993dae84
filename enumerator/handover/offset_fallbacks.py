"""Where the offsets come from, best first: a commit, the consumer group, a time, an explicit map; each step explicit.

Pure: what a broker answered comes in as values. A step is there only if the user asked for it. Not here: the walk
itself (`walk`), asking a broker.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never

from penstock.enumerator.handover.commit_offsets import WriterKind
from penstock.enumerator.handover.offset_search import Found, NothingFound, PassedElsewhere, Step
from penstock.enumerator.handover.offsets import OffsetMap
from penstock.proto.errors import ConfigurationError


class Guarantee(StrEnum):
    """What going on at the offsets means.

    EXACT: what is below is in the lake, what is not below is not. BEST_EFFORT: the same, unless the writer failed to
    store its offsets. NO_LOSS: some records may come again. AS_GIVEN: the user answers for it.
    """

    EXACT = "exact"
    BEST_EFFORT = "best effort"
    NO_LOSS = "no loss, some records again"
    AS_GIVEN = "as given"


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """What the writer's consumer group committed to Kafka, which it does behind the lake's commit; None if nothing.

    To be asked for only where the writer ran with `hoodie.streamer.source.kafka.enable.commit.offset`.
    """

    group: str
    offsets: OffsetMap | None


@dataclass(frozen=True, slots=True)
class OffsetsAtTime:
    """The first offsets at or behind a time (the end of partitions without such a record); slack is taken off already.

    None if the broker could not tell.
    """

    timestamp_ms: int
    offsets: OffsetMap | None


@dataclass(frozen=True, slots=True)
class GivenOffsets:
    """The user's own map (`kafkaStartingOffsets`)."""

    offsets: OffsetMap


Fallback: TypeAlias = GroupOffsets | OffsetsAtTime | GivenOffsets
Origin: TypeAlias = Found | Fallback


@dataclass(frozen=True, slots=True)
class HandOver:
    """Where Kafka is read from, where that comes from, what it promises; `passed` are steps that had no answer."""

    offsets: OffsetMap
    origin: Origin
    guarantee: Guarantee
    passed: tuple[NothingFound | Fallback, ...] = ()


def hand_over(found: Found | NothingFound, fallbacks: Collection[Fallback] = (), topic: str = "") -> HandOver:
    """The first step that has an answer, in the order of the module's text, whatever the order of `fallbacks`.

    ConfigurationError if none has, or if the answer is about another topic than `topic`.
    """
    if isinstance(found, Found):
        return HandOver(found.offsets, found, _guarantee(found))
    passed: list[NothingFound | Fallback] = [found]
    for step in sorted(fallbacks, key=_rank):
        offsets = step.offsets
        if offsets is None:
            passed.append(step)
            continue
        if topic and offsets.topic != topic:
            raise ConfigurationError(f"the offsets given are of topic {offsets.topic}, expected {topic}")
        guarantee = Guarantee.AS_GIVEN if isinstance(step, GivenOffsets) else Guarantee.NO_LOSS
        return HandOver(offsets, step, guarantee, tuple(passed))
    others = sorted({name for step in found.steps for name in _topics(step)})
    told = f"; they tell of {', '.join(others[:10])}" if others else ""
    raise ConfigurationError(
        f"no commit up to the hand-over instant tells a position in {topic or 'a topic'} ({len(found.steps)} looked "
        f"at, archived ones included{told}): name the key and form that hold it (kafkaOffsetsKey and "
        "kafkaOffsetsFormat; --key and --format of `penstock offsets resolve`), or give the offsets "
        "(kafkaStartingOffsets; --starting-offsets)"
    )


def _topics(step: Step) -> tuple[str, ...]:
    return step.verdict.claim.topics if isinstance(step.verdict, PassedElsewhere) else ()


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


def _guarantee(found: Found) -> Guarantee:
    kinds = {source.reached.writer.kind for source in found.sources}
    return Guarantee.BEST_EFFORT if kinds & {WriterKind.FLINK, WriterKind.NAMED} else Guarantee.EXACT
