"""Search of the commits, newest first, for the topic offsets that the table's writer had reached at an instant.

Pure. Offsets belong to the writer that stored them. The search therefore fails unless every data commit after the one
that holds them is known not to read the topic. `offset_fallbacks` says what counts if no commit holds offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias, assert_never

from penstock.enumerator.handover.commit_offsets import (
    NEVER_A_POSITION,
    BatchOffsets,
    KnownOffsets,
    LakeCommit,
    NamedKey,
    NoOffsets,
    OtherSource,
    UnresolvedBatch,
    Writer,
    WriterKind,
    WriterPosition,
    offsets_of_commit,
)
from penstock.enumerator.handover.offsets import OffsetMap, merged
from penstock.proto.errors import ConfigurationError, DataInvalidated, FormatError, PositionExpired


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterHints:
    """What the user states about the table's writers."""

    topic: str = ""
    """The topic; '' for the one that the newest offsets are of."""
    named: NamedKey | None = None
    """A metadata key that holds offsets, beside those of the known writers."""
    sinks: tuple[str, ...] = ()
    """Identifiers of Spark queries that own disjoint partitions of the topic; their offsets are merged."""
    others_read_topic: bool = True
    """False: data commits without known offsets come from writers that do not read the topic."""


@dataclass(frozen=True, slots=True)
class OffsetsTaken:
    """The answer uses offsets of this commit."""

    positions: tuple[KnownOffsets, ...]
    """Those offsets."""


@dataclass(frozen=True, slots=True)
class SkippedTableService:
    """The commit is a table service, which adds no rows. Offsets in it are copies of a data commit's."""


@dataclass(frozen=True, slots=True)
class SkippedEmptyCommit:
    """The commit wrote nothing and holds no offsets."""


@dataclass(frozen=True, slots=True)
class SkippedOtherSource:
    """The commit's writer reads another source."""

    source: OtherSource
    """The other topics, or no Kafka."""


@dataclass(frozen=True, slots=True)
class SkippedByHint:
    """The commit holds no offsets, and the user states that its writer does not read the topic."""


@dataclass(frozen=True, slots=True)
class OffsetsMissing:
    """A data commit without offsets."""

    pointer: str = ""
    """As in `NoOffsets`."""


@dataclass(frozen=True, slots=True)
class Compared:
    """An older commit, with offsets that the answer covers."""

    positions: tuple[KnownOffsets, ...]
    """Its offsets."""


@dataclass(frozen=True, slots=True)
class NotCompared:
    """An older commit whose offsets can no longer be read."""

    why: str
    """The error's text."""


Verdict: TypeAlias = (
    OffsetsTaken
    | SkippedTableService
    | SkippedEmptyCommit
    | SkippedOtherSource
    | SkippedByHint
    | OffsetsMissing
    | Compared
    | NotCompared
)


@dataclass(frozen=True, slots=True)
class Step:
    """A commit that the search visited."""

    commit: LakeCommit
    """The commit."""
    verdict: Verdict
    """What it contributes."""

    @property
    def overrides(self) -> tuple[str, ...]:
        """The commit's reset and ignore keys: offsets at which a writer's next run begins."""
        return tuple(key for key in NEVER_A_POSITION if key in self.commit.extra)


@dataclass(frozen=True, slots=True)
class Source:
    """A commit that offsets come from."""

    commit: LakeCommit
    """The commit."""
    reached: KnownOffsets
    """Its offsets."""


@dataclass(frozen=True, slots=True)
class OffsetsFound:
    """The offsets at the hand-over instant."""

    offsets: OffsetMap
    """The next offset of each partition."""
    sources: tuple[Source, ...]
    """The commits that they come from, the newest first."""
    steps: tuple[Step, ...]
    """The commits that the search visited, the newest first."""


@dataclass(frozen=True, slots=True)
class OffsetsNotFound:
    """No data commit up to the hand-over instant holds offsets, archived commits included."""

    steps: tuple[Step, ...]
    """The commits that the search visited, the newest first."""


@dataclass(slots=True)
class _Search:
    """The state of a search."""

    hints: WriterHints
    batch_offsets: BatchOffsets
    sources: dict[Writer, Source] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    undecided: list[LakeCommit] = field(default_factory=list)


def find_offsets(
    active: Iterable[LakeCommit], archived: Iterable[LakeCommit], hints: WriterHints, batch_offsets: BatchOffsets
) -> OffsetsFound | OffsetsNotFound:
    """The offsets at the first commit of `active`. Both iterables are in descending commit order; `archived` is read
    only if no commit of `active` holds offsets.

    The older commits of `active` are compared with the answer. Raises DataInvalidated for offsets that fall (the topic
    was created again, or the writer was reset); ConfigurationError for several writers, several topics, or a query
    whose checkpoint is not known; FormatError for a value that does not have its key's format.
    """
    search = _Search(hints, batch_offsets)
    remaining = iter(active)
    for commit in chain(remaining, archived):
        _visit(search, commit)
        if search.sources and len(search.sources) >= len(hints.sinks):
            break
    if not search.sources:
        return OffsetsNotFound(tuple(search.steps))
    missing = [name for name in hints.sinks if Writer(WriterKind.SPARK, name) not in search.sources]
    if missing:
        raise ConfigurationError(f"no commit up to the instant is of the Spark query {', '.join(map(repr, missing))}")
    if search.undecided:
        raise ConfigurationError(_several(search))
    offsets = merged(source.reached.offsets for source in search.sources.values())
    _compare(search, offsets, remaining)
    return OffsetsFound(offsets, tuple(search.sources.values()), tuple(search.steps))


def _visit(search: _Search, commit: LakeCommit) -> None:
    hints = search.hints
    if commit.is_service:
        search.steps.append(Step(commit, SkippedTableService()))
        return
    commit_offsets = offsets_of_commit(commit, hints.topic, hints.named, search.batch_offsets)
    match commit_offsets:
        case tuple():
            _use_positions(search, commit, commit_offsets)
        case OtherSource():
            search.steps.append(Step(commit, SkippedOtherSource(commit_offsets)))
        case NoOffsets(pointer=pointer):
            if commit.wrote_nothing:
                search.steps.append(Step(commit, SkippedEmptyCommit()))
            elif hints.others_read_topic:
                search.undecided.append(commit)
                search.steps.append(Step(commit, OffsetsMissing(pointer)))
            else:
                search.steps.append(Step(commit, SkippedByHint()))
        case _:
            assert_never(commit_offsets)


def _use_positions(search: _Search, commit: LakeCommit, positions: tuple[WriterPosition, ...]) -> None:
    positions = _of_named(search.hints, commit, positions)
    for item in positions:
        if isinstance(item, UnresolvedBatch):
            raise ConfigurationError(
                f"{commit}: batch {item.batch_id} of the Spark query {item.writer.identifier!r}, whose offsets are in "
                f"the query's checkpoint: give its folder (--checkpoint {item.writer.identifier}=FOLDER)"
            )
    known = tuple(item for item in positions if isinstance(item, KnownOffsets))
    if not known:
        search.steps.append(Step(commit, SkippedByHint()))
        return
    if len(known) > 1 and not search.hints.sinks:
        raise ConfigurationError(
            f"{commit} holds positions of {len(known)} writers ({', '.join(str(item.writer) for item in known[:10])}): "
            "if they own disjoint partitions, give each checkpoint by its identifier (--checkpoint ID=FOLDER)"
        )
    for item in known:
        search.sources.setdefault(item.writer, Source(commit, item))
    search.steps.append(Step(commit, OffsetsTaken(known)))


def _of_named(
    hints: WriterHints, commit: LakeCommit, positions: tuple[WriterPosition, ...]
) -> tuple[WriterPosition, ...]:
    """The offsets of the named Spark queries, or all if none is named. Another writer is an error, unless the user
    states that other writers do not read the topic."""
    if not hints.sinks:
        return positions
    own: list[WriterPosition] = []
    others: list[WriterPosition] = []
    for item in positions:
        (own if _is_sink(item.writer, hints.sinks) else others).append(item)
    if others and hints.others_read_topic:
        raise ConfigurationError(
            f"several writers: {commit} is of {others[0].writer}, which was not named; give its checkpoint too, or "
            "state that other writers do not read the topic (--others-read-other-topics)"
        )
    return tuple(own)


def _is_sink(writer: Writer, sinks: Collection[str]) -> bool:
    return writer.kind is WriterKind.SPARK and writer.identifier in sinks


def _several(search: _Search) -> str:
    source = next(iter(search.sources.values()))
    newer = ", ".join(map(str, search.undecided[:3])) + (", …" if len(search.undecided) > 3 else "")
    return (
        f"several writers: the offsets of {source.reached.writer} are in {source.commit}, but {newer} added rows "
        "later and holds no offsets; hand over at an instant before it, or state that such writers do not read "
        "the topic (--others-read-other-topics)"
    )


def _compare(search: _Search, offsets: OffsetMap, older: Iterator[LakeCommit]) -> None:
    """Compares the answer with the offsets of older commits of the active timeline."""
    for commit in older:
        if commit.is_service:
            continue
        try:
            commit_offsets = offsets_of_commit(commit, search.hints.topic, search.hints.named, search.batch_offsets)
        except (FormatError, PositionExpired) as error:
            search.steps.append(Step(commit, NotCompared(str(error))))
            continue
        if isinstance(commit_offsets, tuple):
            _check_covered(search, commit, commit_offsets, offsets)


def _check_covered(
    search: _Search, commit: LakeCommit, positions: tuple[WriterPosition, ...], offsets: OffsetMap
) -> None:
    newest = next(iter(search.sources.values()))
    for item in _of_named(search.hints, commit, positions):
        if isinstance(item, UnresolvedBatch):
            if not search.hints.others_read_topic:
                search.steps.append(Step(commit, SkippedByHint()))
                return
            raise ConfigurationError(
                f"several writers: {newest.commit} is of {newest.reached.writer}, {commit} of {item.writer}, whose "
                "checkpoint was not given; give it, or state that other writers do not read the topic "
                "(--others-read-other-topics)"
            )
        if item.offsets.topic != offsets.topic:
            raise ConfigurationError(
                f"the table is filled from several topics: {newest.commit} holds offsets of {offsets.topic}, "
                f"{commit} of {item.offsets.topic}: give the one to resolve (--topic)"
            )
        beyond = item.offsets.beyond(offsets)
        if not beyond:
            continue
        older_offsets, newest_offsets = item.offsets.by_partition(), offsets.by_partition()
        partition = beyond[0]
        newest_offset = newest_offsets.get(partition, "nothing")
        falls = f"partition {partition}: {older_offsets[partition]} in {commit}, {newest_offset} at the end"
        if item.writer not in search.sources:
            raise ConfigurationError(
                f"several writers read topic {offsets.topic}: {newest.reached.writer} and {item.writer} ({falls}); "
                "their offsets are merged only for Spark queries that are all named (--checkpoint ID=FOLDER)"
            )
        raise DataInvalidated(
            f"offsets of topic {offsets.topic} fall, {falls}: the topic was created again or {item.writer} was set "
            "back, and no offset marks the end of the table; hand over at an earlier instant, or read the table again"
        )
    search.steps.append(Step(commit, Compared(tuple(item for item in positions if isinstance(item, KnownOffsets)))))
