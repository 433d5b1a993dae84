"""What a caller asks of a table, resolved: one small class a query kind, and the request around it.

Values only. A new query kind is a new class in `Query`; everything that matches on it then fails its type check.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.hybrid import Hybrid, KafkaRange
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.splits import DeleteMarker


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The table's rows now: every completed instant."""


@dataclass(frozen=True, slots=True)
class SnapshotAsOf:
    """The rows as of a *requested* time, as Hudi's `as.of.instant` defines it (also on layout 2)."""

    instant: InstantTime


@dataclass(frozen=True, slots=True)
class ReadOptimized:
    """Base files only: the newest committed base file of each group; log-only groups give no rows."""


@dataclass(frozen=True, slots=True)
class Latest:
    """As an `upto`: the newest position when the plan is made."""


@dataclass(frozen=True, slots=True)
class Incremental:
    """Latest-state rows of (after, upto]: rows of State(upto) last written by an instant of the range.

    Ends may lie inside an instant: at (c, k) the file groups of the first k write stats of c are as of c, others as
    before it. `without` are requested times of instants that are not of the range, wherever they lie.
    """

    after: Position = EARLIEST
    upto: Position | Latest = field(default_factory=Latest)
    without: frozenset[InstantTime] = frozenset()


@dataclass(frozen=True, slots=True)
class Changes:
    """Each change of each completed commit of (after, upto], once (change data capture), in this format.

    Ends may lie inside an instant: a file group's change by c lies behind (c, k) if its write stats do. `without` are
    requested times of instants that are not of the range.
    """

    format: ChangeFormat
    after: Position = EARLIEST
    upto: Position | Latest = field(default_factory=Latest)
    without: frozenset[InstantTime] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPart:
    """Splits `first` to `end` - 1 of the state at `at`, whose list is in event-time order (`PlanRequest.event_time`; by
    split id without).

    `digest` names the list: DataInvalidated if the table gives another one by now. With `changes` each row is an
    insert in this format, at the instant of `at`.
    """

    at: Position
    first: int
    end: int
    digest: str
    changes: ChangeFormat | None = None


@dataclass(frozen=True, slots=True)
class TopicRanges:
    """These ranges of the topic that a hybrid read goes on in (`PlanRequest.hybrid`), one a split, each partition once
    or in ascending pieces."""

    ranges: tuple[KafkaRange, ...]


Query = Snapshot | SnapshotAsOf | ReadOptimized | Incremental | Changes | SnapshotPart | TopicRanges

RangeQuery = Incremental | Changes
"""The queries that a commit range bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """One read to be planned.

    `columns` empty means every column, in the table's order; names resolve by Spark's case rule. `where` empty means no
    filter (grammar: docs/reference/semantics.md). `slots` is the number of readers that will pull, 0 lets the planner
    choose.
    `event_time` names the column whose bounds each split carries, or is empty; `event_time_unit` (s, ms, us) is the
    unit of a column of plain numbers; with `scan_event_time` splits whose files do not tell their bounds are read for
    them. `of_stream` is an id of the stream whose batch the plan is, or empty: nobody comes back to it once later ones
    of that stream are opened. `target_split_bytes` is the size above which a log-free base file is cut into runs of row
    groups. `metadata` False leaves the table's metadata table out: the same rows, from listings of folders, and fewer
    event-time bounds. `delete_marker` marks deletes in the log of a table whose own properties name no marker.
    `skip_corrupt`: rows that damaged or missing log files held are given up, as Hudi does, instead of an error.
    `columns_by_name` finds columns of older files by name where the table has a schema-on-read history, as Hudi does by
    default: a renamed column is then null. `hybrid`: the read goes on in a Kafka topic behind the lake.
    """

    table: str
    query: Query
    columns: tuple[str, ...] = ()
    where: str = ""
    slots: int = 0
    event_time: str = ""
    event_time_unit: str = ""
    scan_event_time: bool = False
    of_stream: str = ""
    target_split_bytes: int = 128 << 20
    metadata: bool = True
    delete_marker: DeleteMarker | None = None
    skip_corrupt: bool = False
    columns_by_name: bool = False
    hybrid: Hybrid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLimits:
    """How far one round may move a position; 0: no limit of that kind.

    Counted in the order in which positions move. A round holds at least one file group, however large; it may end
    inside a commit (`Position.index`), but for one that replaces file groups.
    """

    max_commits: int = 0
    max_files: int = 0
    max_bytes: int = 0
    max_rows: int = 0

    def __post_init__(self) -> None:
        for name in ("max_commits", "max_files", "max_bytes", "max_rows"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name}: got {getattr(self, name)}, expected 0 (no limit) or more")


NO_LIMITS: Final = RoundLimits()
