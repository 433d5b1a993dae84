"""A hand-over in words: what was made of each commit, where the offsets come from, what is promised.

Pure. Not here: what is decided (`walk`, `ladder`), form of output (`engine.cli`).
"""

from __future__ import annotations

from typing import assert_never

from penstock.enumerator.handover.commit_offsets import Reached, WriterKind
from penstock.enumerator.handover.offset_fallbacks import GivenOffsets, GroupOffsets, HandOver, OffsetsAtTime, Origin
from penstock.enumerator.handover.offset_search import (
    Compared,
    Found,
    NotCompared,
    NothingFound,
    OffsetsTaken,
    PassedByStatement,
    PassedElsewhere,
    PassedEmpty,
    PassedService,
    Step,
    Undecided,
    Verdict,
)


def step_in_words(step: Step) -> str:
    """What was made of the commit, and of keys on it that are never a position."""
    told = _verdict(step.verdict)
    if step.overrides:
        told += f"; {', '.join(step.overrides)} says where a run of the writer began, which is no position"
    return told


def _verdict(verdict: Verdict) -> str:
    match verdict:
        case OffsetsTaken(positions=positions):
            return f"taken: {_positions(positions)}"
        case Compared(positions=positions):
            return f"older, and covered by what was taken: {_positions(positions)}" if positions else "older, not asked"
        case NotCompared(why=why):
            return f"older, cannot be compared: {why}"
        case PassedService():
            return "passed over: a table service brings no rows"
        case PassedEmpty():
            return "passed over: it wrote nothing"
        case PassedElsewhere(claim=claim):
            what = f"topic {', '.join(claim.topics[:10])}" if claim.topics else "a source that is not Kafka"
            return f"passed over: {claim.writer} reads {what} ({claim.key})"
        case PassedByStatement():
            return "passed over: its writer does not read the topic, as stated"
        case Undecided(pointer=pointer):
            return f"tells no position; Flink's checkpoint {pointer[:40]} would" if pointer else "tells no position"
        case _:
            assert_never(verdict)


def _positions(positions: tuple[Reached, ...]) -> str:
    return "; ".join(f"{item.writer} by {item.key}" for item in positions)


def origin_in_words(origin: Origin) -> str:
    """Where the offsets come from."""
    match origin:
        case Found(sources=sources):
            return ", ".join(f"{source.commit} ({source.reached.writer})" for source in sources)
        case GroupOffsets(group=group):
            return f"what consumer group {group} committed to Kafka"
        case OffsetsAtTime(timestamp_ms=timestamp_ms):
            return f"the first offsets from {timestamp_ms} ms since the epoch on"
        case GivenOffsets():
            return "the offsets given"
        case _:
            assert_never(origin)


def notes(outcome: HandOver) -> list[str]:
    """What the reader of the offsets must know."""
    found: list[str] = []
    for step in outcome.passed:
        if isinstance(step, NothingFound):
            found.append(f"no commit tells a position ({len(step.steps)} looked at, archived ones included)")
        else:
            found.append(f"no answer from {origin_in_words(step)}")
    match outcome.origin:
        case Found(sources=sources, steps=steps):
            kinds = {source.reached.writer.kind for source in sources}
            if kinds & {WriterKind.STREAMER, WriterKind.SPARK}:
                found.append(
                    "the writer read aborted records too, unless its own isolation level was read_committed; the "
                    "offsets are right either way"
                )
            if WriterKind.FLINK in kinds:
                found.append("Flink stores its offsets as best it can: a commit may lack them")
            if WriterKind.NAMED in kinds:
                found.append("the key was named by the user: the offsets are as good as its writer")
            if len(sources) > 1:
                found.append("merged of several writers: right only if each partition is read by one of them")
            if any(isinstance(step.verdict, PassedByStatement) for step in steps):
                found.append("commits without a known position were passed over, as other writers' by statement")
        case GivenOffsets():
            found.append("nothing shows that the lake ends at these offsets")
        case _:
            found.append("records that the lake holds already may come again")
    return found
