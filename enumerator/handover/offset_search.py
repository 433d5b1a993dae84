"""The walk back from the hand-over instant to the position that the lake's writer had reached there.

Pure. A position belongs to the writer that stored it, so every data commit behind the one that carries it must be
known not to read the topic, or the walk refuses. Not here: keys and texts (`claims`, `formats`), what to do when no
commit carries a position (`ladder`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias, assert_never

from penstock.enumerator.handover.commit_offsets import (
    NEVER_A_POSITION,
    BatchOffsets,
    Elsewhere,
    NamedKey,
    Position,
    Reached,
    Silent,
    Unknown,
    Writer,
    WriterKind,
    claim_of,
)
from penstock.enumerator.handover.lake_commits import LakeCommit
from penstock.enumerator.handover.offsets import OffsetMap, merged
from penstock.proto.errors import ConfigurationError, DataInvalidated, FormatError, PositionExpired


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterHints:
    """What the user says about the lake's writers.

    `topic`: '' for whichever topic the newest position is in. `named`: a key of the user's own. `sinks`: identifiers of
    Spark queries that own disjoint partitions of the topic and are merged, () for no such statement. `others_read_it`:
    False says that data commits without a known position come from writers that do not read the topic.
    """

    topic: str = ""
    named: NamedKey | None = None
    sinks: tuple[str, ...] = ()
    others_read_it: bool = True


@dataclass(frozen=True, slots=True)
class OffsetsTaken:
    """Positions of this commit are part of the answer."""

    positions: tuple[Reached, ...]


@dataclass(frozen=True, slots=True)
class PassedService:
    """A table service: it brings no rows. A key on it is a copy of a data commit's."""


@dataclass(frozen=True, slots=True)
class PassedEmpty:
    """It wrote nothing and says nothing: the lake is the same with and without it."""


@dataclass(frozen=True, slots=True)
class PassedElsewhere:
    """Its writer reads something else: other topics, or no Kafka."""

    claim: Elsewhere


@dataclass(frozen=True, slots=True)
class PassedByStatement:
    """Nothing tells what its writer reads; the user said that it is not the topic."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """A data commit that tells no position; `pointer` as in `Silent`."""

    pointer: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """An older commit whose positions the answer covers."""

    positions: tuple[Reached, ...]


@dataclass(frozen=True, slots=True)
class NotCompared:
    """An older commit whose position can no longer be read."""

    why: str


Verdict: TypeAlias = (
    OffsetsTaken
    | PassedService
    | PassedEmpty
    | PassedElsewhere
    | PassedByStatement
    | Undecided
    | Compared
    | NotCompared
)


@dataclass(frozen=True, slots=True)
class Step:
    """A commit of the walk and what was made of it. `overrides`: its reset and ignore keys, never a position."""

    commit: LakeCommit
    verdict: Verdict

    @property
    def overrides(self) -> tuple[str, ...]:
        """The keys on the commit that only say where a writer's next run begins."""
        return tuple(key for key in NEVER_A_POSITION if key in self.commit.extra)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a position was found."""

    commit: LakeCommit
    reached: Reached


@dataclass(frozen=True, slots=True)
class Found:
    """The offset map at the hand-over instant, the commits that it comes from (newest first), and the walk."""

    offsets: OffsetMap
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class NothingFound:
    """No data commit up to the hand-over instant tells a position, archived ones included; and the walk."""

    steps: tuple[Step, ...]


@dataclass(slots=True)
class _Walk:
    """How far the walk is."""

    rules: WriterHints
    batch_offsets: BatchOffsets
    sources: dict[Writer, Source] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    undecided: list[LakeCommit] = field(default_factory=list)


def find_offsets(
    near: Iterable[LakeCommit], far: Iterable[LakeCommit], rules: WriterHints, batch_offsets: BatchOffsets
) -> Found | NothingFound:
    """The position at the first commit of `near`, walking back in descending order; `far` is looked at if `near` tells
    none.

    What `near` has behind the answer is compared with it: offsets that fall mean a topic created anew or a writer that
    was set back (DataInvalidated). ConfigurationError for several writers, several topics, or a query whose checkpoint
    is not known; FormatError for a value that is not of its form.
    """
    walk = _Walk(rules, batch_offsets)
    ahead = iter(near)
    for commit in chain(ahead, far):
        _take(walk, commit)
        if walk.sources and len(walk.sources) >= len(rules.sinks):
            break
    if not walk.sources:
        return NothingFound(tuple(walk.steps))
    missing = [name for name in rules.sinks if Writer(WriterKind.SPARK, name) not in walk.sources]
    if missing:
        raise ConfigurationError(f"no commit up to the instant is of the Spark query {', '.join(map(repr, missing))}")
    if walk.undecided:
        raise ConfigurationError(_several(walk))
    offsets = merged(source.reached.offsets for source in walk.sources.values())
    _compare(walk, offsets, ahead)
    return Found(offsets, tuple(walk.sources.values()), tuple(walk.steps))


def _take(walk: _Walk, commit: LakeCommit) -> None:
    rules = walk.rules
    if commit.is_service:
        walk.steps.append(Step(commit, PassedService()))
        return
    claim = claim_of(commit, rules.topic, rules.named, walk.batch_offsets)
    match claim:
        case tuple():
            _take_positions(walk, commit, claim)
        case Elsewhere():
            walk.steps.append(Step(commit, PassedElsewhere(claim)))
        case Silent(pointer=pointer):
            if commit.wrote_nothing:
                walk.steps.append(Step(commit, PassedEmpty()))
            elif rules.others_read_it:
                walk.undecided.append(commit)
                walk.steps.append(Step(commit, Undecided(pointer)))
            else:
                walk.steps.append(Step(commit, PassedByStatement()))
        case _:
            assert_never(claim)


def _take_positions(walk: _Walk, commit: LakeCommit, positions: tuple[Position, ...]) -> None:
    positions = _of_named(walk.rules, commit, positions)
    for item in positions:
        if isinstance(item, Unknown):
            raise ConfigurationError(
                f"{commit}: batch {item.batch_id} of the Spark query {item.writer.identifier!r}, whose offsets are in "
                f"the query's checkpoint: name it (--checkpoint {item.writer.identifier}=FOLDER)"
            )
    told = tuple(item for item in positions if isinstance(item, Reached))
    if not told:
        walk.steps.append(Step(commit, PassedByStatement()))
        return
    if len(told) > 1 and not walk.rules.sinks:
        raise ConfigurationError(
            f"{commit} holds positions of {len(told)} writers ({', '.join(str(item.writer) for item in told[:10])}): "
            "name each one's checkpoint by its identifier (--checkpoint ID=FOLDER), if they own disjoint partitions"
        )
    for item in told:
        walk.sources.setdefault(item.writer, Source(commit, item))
    walk.steps.append(Step(commit, OffsetsTaken(told)))


def _of_named(rules: WriterHints, commit: LakeCommit, positions: tuple[Position, ...]) -> tuple[Position, ...]:
    """The positions of the Spark queries that were named, if any were: any other writer is refused, or passed over by
    the user's statement."""
    if not rules.sinks:
        return positions
    own: list[Position] = []
    strangers: list[Position] = []
    for item in positions:
        (own if _is_sink(item.writer, rules.sinks) else strangers).append(item)
    if strangers and rules.others_read_it:
        raise ConfigurationError(
            f"several writers: {commit} is of {strangers[0].writer}, which was not named; name its checkpoint too, or "
            "say that other writers do not read the topic (--others-read-other-topics)"
        )
    return tuple(own)


def _is_sink(writer: Writer, sinks: Collection[str]) -> bool:
    return writer.kind is WriterKind.SPARK and writer.identifier in sinks


def _several(walk: _Walk) -> str:
    source = next(iter(walk.sources.values()))
    newer = ", ".join(map(str, walk.undecided[:3])) + (", …" if len(walk.undecided) > 3 else "")
    return (
        f"several writers: the position of {source.reached.writer} is that of {source.commit}, but {newer} brought "
        "rows later and tells no position; hand over at an instant before it, or say that such writers do not read "
        "the topic (--others-read-other-topics)"
    )


def _compare(walk: _Walk, offsets: OffsetMap, older: Iterator[LakeCommit]) -> None:
    """Holds the answer against the positions of older commits of the active timeline."""
    for commit in older:
        if commit.is_service:
            continue
        try:
            claim = claim_of(commit, walk.rules.topic, walk.rules.named, walk.batch_offsets)
        except (FormatError, PositionExpired) as error:
            walk.steps.append(Step(commit, NotCompared(str(error))))
            continue
        if isinstance(claim, tuple):
            _check_covered(walk, commit, claim, offsets)


def _check_covered(walk: _Walk, commit: LakeCommit, claim: tuple[Position, ...], offsets: OffsetMap) -> None:
    newest = next(iter(walk.sources.values()))
    for item in _of_named(walk.rules, commit, claim):
        if isinstance(item, Unknown):
            if not walk.rules.others_read_it:
                walk.steps.append(Step(commit, PassedByStatement()))
                return
            raise ConfigurationError(
                f"several writers: {newest.commit} is of {newest.reached.writer}, {commit} of {item.writer}, whose "
                "checkpoint was not named; name it, or say that other writers do not read the topic "
                "(--others-read-other-topics)"
            )
        if item.offsets.topic != offsets.topic:
            raise ConfigurationError(
                f"the table is filled from several topics: {newest.commit} tells a position in {offsets.topic}, "
                f"{commit} in {item.offsets.topic}: say which one (--topic)"
            )
        beyond = item.offsets.beyond(offsets)
        if not beyond:
            continue
        told, now = item.offsets.by_partition(), offsets.by_partition()
        falls = f"partition {beyond[0]}: {told[beyond[0]]} in {commit}, {now.get(beyond[0], 'nothing')} at the end"
        if item.writer not in walk.sources:
            raise ConfigurationError(
                f"several writers read topic {offsets.topic}: {newest.reached.writer} and {item.writer} ({falls}); "
                "their positions are merged only for Spark queries that are all named (--checkpoint ID=FOLDER)"
            )
        raise DataInvalidated(
            f"offsets of topic {offsets.topic} fall, {falls}: the topic was created again or {item.writer} was set "
            "back, and no offset stands for what the lake holds; hand over at an instant before, or read the lake anew"
        )
    walk.steps.append(Step(commit, Compared(tuple(item for item in claim if isinstance(item, Reached)))))
