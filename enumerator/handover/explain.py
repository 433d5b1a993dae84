"""Texts that explain a hand-over: what each commit contributed, and where the offsets come from. Pure."""

from __future__ import annotations

from typing import assert_never

from penstock.enumerator.handover.commit_offsets import KnownOffsets, WriterKind
from penstock.enumerator.handover.offset_fallbacks import GivenOffsets, GroupOffsets, HandOver, OffsetsAtTime, Origin
from penstock.enumerator.handover.offset_search import (
    Compared,
    NotCompared,
    OffsetsFound,
    OffsetsMissing,
    OffsetsNotFound,
    OffsetsTaken,
    SkippedByHint,
    SkippedEmptyCommit,
    SkippedOtherSource,
    SkippedTableService,
    Step,
    Verdict,
)


def describe_step(step: Step) -> str:
    """What the commit contributed, and which of its keys were ignored."""
    text = _verdict(step.verdict)
    if step.overrides:
        text += f"; {', '.join(step.overrides)} is ignored: it is where a run of the writer began"
    return text


def _verdict(verdict: Verdict) -> str:
    match verdict:
        case OffsetsTaken(positions=positions):
            return f"used: {_positions(positions)}"
        case Compared(positions=positions):
            return (
                f"older, and covered by the offsets used: {_positions(positions)}"
                if positions
                else "older, not compared"
            )
        case NotCompared(why=why):
            return f"older, cannot be compared: {why}"
        case SkippedTableService():
            return "skipped: a table service adds no rows"
        case SkippedEmptyCommit():
            return "skipped: it wrote nothing"
        case SkippedOtherSource(source=source):
            what = f"topic {', '.join(source.topics[:10])}" if source.topics else "a source that is not Kafka"
            return f"skipped: {source.writer} reads {what} ({source.key})"
        case SkippedByHint():
            return "skipped: its writer does not read the topic, as the user states"
        case OffsetsMissing(pointer=pointer):
            return f"no offsets; they are in Flink's checkpoint {pointer[:40]}" if pointer else "no offsets"
        case _:
            assert_never(verdict)


def _positions(positions: tuple[KnownOffsets, ...]) -> str:
    return "; ".join(f"{item.writer} by {item.key}" for item in positions)


def describe_origin(origin: Origin) -> str:
    """The origin of the offsets."""
    match origin:
        case OffsetsFound(sources=sources):
            return ", ".join(f"{source.commit} ({source.reached.writer})" for source in sources)
        case GroupOffsets(group=group):
            return f"the offsets that consumer group {group} committed to Kafka"
        case OffsetsAtTime(timestamp_ms=timestamp_ms):
            return f"the first offsets at or after {timestamp_ms} ms since the epoch"
        case GivenOffsets():
            return "the offsets given"
        case _:
            assert_never(origin)


def notes(outcome: HandOver) -> list[str]:
    """Limits of the guarantee, one sentence each."""
    lines: list[str] = []
    for step in outcome.passed:
        if isinstance(step, OffsetsNotFound):
            lines.append(f"no commit holds offsets ({len(step.steps)} searched, archived ones included)")
        else:
            lines.append(f"no answer from {describe_origin(step)}")
    match outcome.origin:
        case OffsetsFound(sources=sources, steps=steps):
            kinds = {source.reached.writer.kind for source in sources}
            if kinds & {WriterKind.STREAMER, WriterKind.SPARK}:
                lines.append(
                    "the writer read aborted records too, unless its own isolation level was read_committed; the "
                    "offsets are correct in both cases"
                )
            if WriterKind.FLINK in kinds:
                lines.append("Flink stores its offsets on a best-effort basis: a commit may lack them")
            if WriterKind.NAMED in kinds:
                lines.append("the key was named by the user: the offsets are as reliable as its writer")
            if len(sources) > 1:
                lines.append("merged from several writers: correct only if each partition is read by one of them")
            if any(isinstance(step.verdict, SkippedByHint) for step in steps):
                lines.append(
                    "commits without known offsets were skipped: the user states that their writers read other topics"
                )
        case GivenOffsets():
            lines.append("no commit confirms that the table ends at these offsets")
        case _:
            lines.append("records that the table already holds may be delivered again")
    return lines
