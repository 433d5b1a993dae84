"""The group door: consumer groups whose readers pull splits under leases. Values and the seam.

Belongs here: what a reader, an operator and the enumerator tell each other about groups. Not here: how it is decided
(`penstock.enumerator.core`), how it travels (`codec_groups`).

A group belongs to one table. Its position moves in *rounds*: a round is the plan of one commit range, with an id by
which its scan is asked for (`Enumerator.describe_plan`). Readers hold splits of rounds, report how far they are (an
*ordinal*: merged rows of the split that are done, before any filter), and finish them. What is committed is never
handed out again; what a reader held when its lease ended is, from the last committed ordinal on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import KafkaPlace
from penstock.proto.model.lost_ranges import OnLostRange as OnLostRange
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import NO_LIMITS, PlanRequest, RoundLimits
from penstock.proto.model.reports import SplitReport
from penstock.proto.model.splits import Split

MAX_NAME_CHARS: Final = 200
"""Of a group or reader id: letters, digits, `.`, `_`, `-`, `:`, `@`, `/`."""
MAX_SPLITS_A_REQUEST: Final = 1000


@dataclass(frozen=True, slots=True)
class StartLatest:
    """Starts behind the newest instant when the group is created."""


@dataclass(frozen=True, slots=True)
class StartAt:
    """Starts behind this position; EARLIEST is before everything."""

    position: Position = EARLIEST


GroupStart = StartLatest | StartAt


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScope:
    """What a group consumes: part of its state, so that a reader who means something else is refused.

    `request.query` is Incremental (latest-state rows of each round's range) or Changes; its bounds are ignored.
    `upto` ends the group there. `on_lost_range` SNAPSHOT is for rows alone.
    """

    request: PlanRequest
    upto: Position | None = None
    on_lost_range: OnLostRange = OnLostRange.FAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A scope with what counts only when a group is created (`start`, `limits`). `principal` is who joins, as the
    server authenticated the caller; it is never sent."""

    scope: GroupScope
    start: GroupStart = StartAt()
    limits: RoundLimits = NO_LIMITS
    principal: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A reader of a group, fenced by its epoch: each join of the same reader id gets a higher one. `principal` is who
    names the member in a call, as the server authenticated the caller; it is never sent."""

    table: str
    group: str
    reader_id: str
    epoch: int
    principal: str = ""


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to a join. The lease ends `lease_ms` after the last call in which the member named itself."""

    member: Member
    lease_ms: int


@dataclass(frozen=True, slots=True)
class SplitRef:
    """A split of a round, by its place in the plan."""

    plan_id: str
    index: int


@dataclass(frozen=True, slots=True)
class AssignedSplit:
    """A split that the member holds now, to be read from `start` on (an ordinal).

    `position` is what is consumed once this split and all before it are finished: the end of the round's range.
    """

    ref: SplitRef
    split: Split
    start: int
    position: Position


@dataclass(frozen=True, slots=True)
class Assignments:
    """Splits to read, in this order; those of one file group stay in it."""

    splits: tuple[AssignedSplit, ...]


@dataclass(frozen=True, slots=True)
class NothingYet:
    """Nothing to hand out now; ask again in `retry_ms`. `caught_up`: the table held nothing new either, when it was
    last looked at, and nothing is with other readers."""

    retry_ms: int
    caught_up: bool = False


@dataclass(frozen=True, slots=True)
class EndOfGroup:
    """The group's `upto` is reached and every split is finished."""


GroupAnswer = Assignments | NothingYet | EndOfGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitProgress:
    """How far a held split is done: rows up to `ordinal`, or all of it (`finished`, with its report)."""

    ref: SplitRef
    ordinal: int
    finished: bool = False
    report: SplitReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderState:
    """A reader as `describe_group` shows it."""

    reader_id: str
    epoch: int
    held_splits: int
    lease_left_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """How far a group is behind its table: commits and bytes not yet committed, seconds since the oldest of them
    completed. `loss_*`: what is left before the table's cleaner takes files of the next range; None: unknown, or no
    cleaner is known."""

    commits: int
    size_bytes: int
    seconds: float
    loss_commits: int | None = None
    loss_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group in a list. `state`: running, paused (back-pressure), waiting (no table yet), stopped, ended."""

    table: str
    group: str
    state: str
    committed: Position
    planned: Position
    readers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group in full. `error_code` and `error` say why it stopped; `lag` is None where the table cannot be asked.
    `kafka`: of a hybrid group that has left the lake, up to where it is planned."""

    summary: GroupSummary
    scope: GroupScope
    limits: RoundLimits
    rounds: int
    pending_splits: int
    held_splits: int
    readers: tuple[ReaderState, ...]
    lag: GroupLag | None = None
    error_code: str = ""
    error: str = ""
    kafka: KafkaPlace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """A group at work. Counters are since the server's process started, rates over the last minute; `issued_ms` since
    1970 UTC, of the newest instant planned; `lag` as last measured, `lag_age_ms` ago (None: not told)."""

    summary: GroupSummary
    pending_splits: int
    held_splits: int
    lag: GroupLag | None = None
    issued_ms: int | None = None
    rows: int = 0
    size_bytes: int = 0
    finished_splits: int = 0
    expired_splits: int = 0
    fenced: int = 0
    rows_per_second: float = 0.0
    bytes_per_second: float = 0.0
    error_code: str = ""
    lag_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table of a server. `watermark_ms`: since 1970 UTC, of the stream on it whose batch was planned last.
    `error_code` and `error`: why the server cannot open it now, '' if it can."""

    table: str
    watermark_ms: int | None = None
    error_code: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """What a server does now. `now_ms`: since 1970 UTC, by its clock."""

    version: str
    now_ms: int
    uptime_ms: int
    tables: tuple[TableStatus, ...] = ()
    groups: tuple[GroupStatus, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOutcome:
    """The result of moving a group to another position."""

    before: Position
    """The group's position before the reset."""
    after: Position
    """The group's position after the reset."""
    dropped_splits: int
    """The number of splits that were assigned or pending and are dropped."""
    dry_run: bool
    """Whether the group was left unchanged: the other fields then say what a reset would do."""


class GroupService(Protocol):
    """Consumer groups. Any thread. `request_id` makes a repeated call one call; sequence numbers order those of a
    member. Errors: `penstock.proto.errors`; Fenced for a member whose epoch is not current, UnknownGroup, and for a
    stopped group the error that stopped it."""

    def join_group(self, group: str, reader_id: str, spec: GroupSpec, request_id: str) -> Joined:
        """A new epoch for the reader id, whatever held it before. The first join creates the group. A reader that
        comes back under its id within its lease gets its splits again. ConfigurationError: another scope."""
        ...

    def heartbeat(self, member: Member) -> int:
        """Renews the lease; milliseconds from now on."""
        ...

    def request_splits(self, member: Member, max_splits: int, sequence: int) -> GroupAnswer:
        """At most `max_splits` more splits. `sequence` grows with each request of the member; the newest one asked
        again gets the same answer, an older one is refused (Fenced)."""
        ...

    def commit_splits(self, member: Member, done: tuple[SplitProgress, ...]) -> None:
        """Durable on return: all of it or nothing. An ordinal never moves back; what is finished already may be
        told again. UnknownSplit for a split that the member does not hold."""
        ...

    def leave_group(self, member: Member) -> None:
        """Gives back what the member holds, at once. A member that left may leave again."""
        ...

    def list_groups(self, table: str = "") -> tuple[GroupSummary, ...]:
        """By table, then name."""
        ...

    def describe_group(self, table: str, group: str) -> GroupDescription:
        """One group, with its lag."""
        ...

    def reset_group(self, table: str, group: str, start: GroupStart, *, dry_run: bool) -> ResetOutcome:
        """Moves the group, fences its readers, forgets its rounds, and lets a stopped group go on. ConfigurationError
        for a position that is not of the table."""
        ...

    def delete_group(self, table: str, group: str) -> None:
        """Forgets the group; ConfigurationError while it has readers."""
        ...

    def describe_server(self, table: str = "") -> ServerStatus:
        """What the server does now, for all tables or for one. Cheap: no table is looked at."""
        ...


_NAME = re.compile(r"[A-Za-z0-9._:@/-]+", flags=re.ASCII)


def checked_name(kind: str, text: str) -> str:
    """`text`, if it is a name; else ConfigurationError. `kind`: what it names, `group` or `reader id`."""
    if not text:
        raise ConfigurationError(f"{kind}: field `{kind}`: got nothing, expected a value: name one")
    if len(text) > MAX_NAME_CHARS:
        raise ConfigurationError(f"{kind} {text[:40]!r}…: {len(text)} characters, expected at most {MAX_NAME_CHARS}")
    if not _NAME.fullmatch(text):
        raise ConfigurationError(f"{kind} {text!r}: expected letters (a to z), digits, and . _ - : @ / alone")
    return text


def sanitized_name(text: str) -> str:
    """A name made of any text: what may not stand in one becomes `-`."""
    return re.sub(r"[^A-Za-z0-9._:@/-]", "-", text, flags=re.ASCII)[:MAX_NAME_CHARS] or "-"
