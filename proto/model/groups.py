"""The values of consumer groups (`penstock.proto.group_service`): groups whose readers pull splits under leases.

A group belongs to one table. Its position advances in *rounds*: a round is the plan of one commit range, whose id gives
its scan (`Enumerator.describe_plan`). Readers hold splits of rounds, commit their progress as an *ordinal* (the number
of merged rows of the split that are processed, before any filter), and finish them. A committed row is never assigned
again. A split whose reader's lease ended is assigned again, from the last committed ordinal. The decisions are in
`penstock.enumerator.core`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.group_status import GroupAlignment as GroupAlignment
from penstock.proto.model.group_status import GroupLag as GroupLag
from penstock.proto.model.group_status import GroupStatus as GroupStatus
from penstock.proto.model.group_status import GroupSummary as GroupSummary
from penstock.proto.model.group_status import ReaderState as ReaderState
from penstock.proto.model.group_status import TableStatus as TableStatus
from penstock.proto.model.hybrid import KafkaPlace
from penstock.proto.model.names import MAX_NAME_CHARS as MAX_NAME_CHARS
from penstock.proto.model.names import checked_name as checked_name
from penstock.proto.model.names import sanitized_name as sanitized_name
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.positions import OnLostRange as OnLostRange
from penstock.proto.model.queries import NO_LIMITS, PlanRequest, RoundLimits
from penstock.proto.model.reports import SplitReport
from penstock.proto.model.server_status import ServerStatus as ServerStatus
from penstock.proto.model.splits import Split
from penstock.proto.model.streams import Alignment, EventTimeRule, SnapshotPlace
from penstock.proto.model.streams import StartSnapshot as StartSnapshot

MAX_SPLITS_A_REQUEST: Final = 1000
MAX_WAIT_MS: Final = 1000
"""The longest time for which a request for splits waits at the server."""
MAX_TABLES_SHOWN: Final = 1000
"""The maximum number of tables in the description of a group over tables, and of those that a request leaves out."""


@dataclass(frozen=True, slots=True)
class StartLatest:
    """Start after the newest instant at the time when the group is created."""


@dataclass(frozen=True, slots=True)
class StartAt:
    """Start after a position."""

    position: Position = EARLIEST
    """The position; EARLIEST is before everything."""


GroupStart = StartLatest | StartAt | StartSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScope:
    """The read of a group, its end, and its policy for lost ranges.

    It is part of the group's state: a reader with another scope is refused.
    """

    request: PlanRequest
    """The read; its query is Incremental (latest-state rows of each round's range) or Changes, whose bounds are
    ignored."""
    upto: Position | None = None
    """The end of the group, inclusive; None: it does not end."""
    on_lost_range: OnLostRange = OnLostRange.FAIL
    """The policy for a range that can no longer be read; SNAPSHOT is for rows only."""
    over_tables: bool = False
    """Whether `request.table` is a pattern of table names, and the group consumes every table that matches."""
    rule: EventTimeRule | None = None
    """How the watermark is computed, from the event-time column of the request; None: no watermark."""
    idle_timeout_us: int | None = None
    """After this time without new commits and without unfinished splits, the watermark advances by it; None: never."""
    alignment: Alignment | None = None
    """The set with which the group is aligned, each table of a group over tables for itself; None: none."""

    def __post_init__(self) -> None:
        if self.rule is not None and not self.request.event_time:
            raise ConfigurationError("a watermark without an event-time column: give the option eventTime")
        if self.idle_timeout_us is not None and (self.rule is None or self.idle_timeout_us < 1):
            raise ConfigurationError(
                f"idleTimeout: got {self.idle_timeout_us} µs, expected 1 or more, with eventTime and maxOutOfOrderness"
            )
        if self.alignment is not None and self.rule is None:
            raise ConfigurationError(
                "an aligned group without a watermark: give the options eventTime and maxOutOfOrderness"
            )

    def of_table(self, table: str) -> GroupScope:
        """What the group of one table consumes, if this is the scope of a group over tables."""
        return replace(self, request=replace(self.request, table=table), over_tables=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A join's parameters."""

    scope: GroupScope
    """The read of the group, its end, and its policy for lost ranges."""
    start: GroupStart = StartAt()
    """Where the group starts; used only when it is created."""
    limits: RoundLimits = NO_LIMITS
    """The limits of a round; used only when the group is created."""
    principal: str = ""
    """The caller, as the server authenticated it; never sent."""


@dataclass(frozen=True, slots=True)
class Member:
    """A reader of a group, fenced by its epoch."""

    table: str
    """The table's name."""
    group: str
    """The group's name."""
    reader_id: str
    """The reader's id."""
    epoch: int
    """The epoch; each join with the same reader id gets a higher one."""
    principal: str = ""
    """The caller, as the server authenticated it; never sent."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to a join."""

    member: Member
    """The member, with its epoch."""
    lease_ms: int
    """The lease: it ends this long after the member's last call."""


@dataclass(frozen=True, slots=True)
class SplitRef:
    """A reference to a split of a round."""

    plan_id: str
    """The round's plan."""
    index: int
    """The split's number in the plan."""


@dataclass(frozen=True, slots=True)
class AssignedSplit:
    """A split that the member holds now."""

    ref: SplitRef
    """The reference to the split."""
    split: Split
    """The split."""
    start: int
    """The ordinal from which to read."""
    position: Position
    """The group's position after this split and all before it are finished: the end of the round's range."""
    table: str = ""
    """The split's table, if the group is over tables; '' otherwise."""
    epoch: int = 0
    """If the group is over tables: the epoch of the member in the group of that table. Progress of the split is
    committed by a `Member` with this table and epoch."""
    watermark_us: int | None = None
    """The watermark of the group in the split's table, as in `Assignments`."""


@dataclass(frozen=True, slots=True)
class Assignments:
    """Splits to read."""

    splits: tuple[AssignedSplit, ...]
    """The splits, in reading order; those of a file group are in commit order."""
    watermark_us: int | None = None
    """The watermark of the group, UTC microseconds: no row that is not committed yet, these splits included, has an
    event time at or below it, except late rows. Of a group over tables the lowest one of its tables, which moves back
    when a table joins. None: the group has none, or it is not known yet."""


@dataclass(frozen=True, slots=True)
class TableTrouble:
    """A table of a group over tables that an error stopped."""

    table: str
    """The table's name."""
    code: str
    """The code of the error."""
    text: str
    """The text of the error."""


@dataclass(frozen=True, slots=True)
class NothingYet:
    """No split is available now."""

    retry_ms: int
    """The delay after which to request again."""
    caught_up: bool = False
    """Whether the group is caught up: the last discovery had nothing new, and no reader holds a split. In a group over
    tables: all tables except those of `troubles`, and those from which the member wanted no splits."""
    troubles: tuple[TableTrouble, ...] = ()
    """Tables of a group over tables from which no split is assigned because of an error; the first ones by name."""
    watermark_us: int | None = None
    """As in `Assignments`."""


@dataclass(frozen=True, slots=True)
class EndOfGroup:
    """The group's `upto` is reached and every split is finished."""

    watermark_us: int | None = None
    """As in `Assignments`."""


GroupAnswer = Assignments | NothingYet | EndOfGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitProgress:
    """The progress in a held split."""

    ref: SplitRef
    """The split."""
    ordinal: int
    """The number of merged rows that are processed."""
    finished: bool = False
    """Whether the whole split is processed."""
    report: SplitReport | None = None
    """The metrics of a finished split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """The description of a group."""

    summary: GroupSummary
    """The group's name, state and positions."""
    scope: GroupScope
    """Its read, its end, and its policy for lost ranges."""
    limits: RoundLimits
    """The limits of a round."""
    rounds: int
    """The number of open rounds."""
    pending_splits: int
    """The number of splits that no reader holds."""
    held_splits: int
    """The number of splits that readers hold."""
    readers: tuple[ReaderState, ...]
    """The readers."""
    lag: GroupLag | None = None
    """The lag; None if the table cannot be read."""
    error_code: str = ""
    """The code of the error that stopped the group, or ''."""
    error: str = ""
    """The text of that error, or ''."""
    kafka: KafkaPlace | None = None
    """The planned progress in the topic, after the hand-over of a hybrid group."""
    tables: tuple[GroupStatus, ...] = ()
    """Of a group over tables: its tables; those with errors first, then by lag, the largest first; MAX_TABLES_SHOWN."""
    watermark_us: int | None = None
    """The watermark, UTC microseconds; None: the group has none, or it is not known yet."""
    snapshot: SnapshotPlace | None = None
    """The planned progress in the snapshot with which the group starts; None after it."""
    snapshot_at: Position | None = None
    """The position of the state of the table with which the group starts, from a snapshot or by rows from `earliest`,
    until all its rows are committed: the group needs this state, and the commits after it. None if it reads none."""
    alignment: GroupAlignment | None = None
    """How far the group may read; None: it is not aligned."""


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
