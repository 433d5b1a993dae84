"""Queries of a table, one class per kind, and `PlanRequest`, which adds what all kinds share.

A new kind is a new class in `Query`; code that matches on it then fails the type check.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.hybrid import Hybrid, KafkaRange
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.splits import DeleteMarker
from penstock.proto.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The table's rows now: every completed instant."""


@dataclass(frozen=True, slots=True)
class SnapshotAsOf:
    """The rows as of a *requested* time, as Hudi's `as.of.instant` (also on timeline layout 2)."""

    instant: InstantTime
    """The requested time."""
    base_files_only: bool = False
    """Whether the rows are those of base files alone, as of `ReadOptimized`."""


@dataclass(frozen=True, slots=True)
class ReadOptimized:
    """Base files only: the newest committed base file of each group. Groups without a base file have no rows."""


@dataclass(frozen=True, slots=True)
class Latest:
    """As an `upto`: the newest position when the plan is made."""


@dataclass(frozen=True, slots=True)
class Incremental:
    """Latest-state rows of (after, upto]: the rows of the state at `upto` that an instant of the range wrote last.

    An end may be inside an instant: at (c, k) the file groups of the first k write stats of c are as of c, the others
    as before c.
    """

    after: Position = EARLIEST
    """The exclusive start."""
    upto: Position | Latest = field(default_factory=Latest)
    """The inclusive end."""
    without: frozenset[InstantTime] = frozenset()
    """Requested times of instants that are excluded from the range."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Each change of each completed commit of (after, upto], exactly once (change data capture).

    An end may be inside an instant: the changes of a file group by c are after (c, k) if its write stats are.
    """

    format: ChangeFormat
    """The format of the changes."""
    after: Position = EARLIEST
    """The exclusive start."""
    upto: Position | Latest = field(default_factory=Latest)
    """The inclusive end."""
    without: frozenset[InstantTime] = frozenset()
    """Requested times of instants that are excluded from the range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPart:
    """Splits `first` to `end` - 1 of the state at `at`.

    The list of splits is in event-time order (`PlanRequest.event_time`), or ordered by split id without an event time.
    DataInvalidated if the table now gives another list.
    """

    at: Position
    """The position of the state."""
    first: int
    """The first split."""
    end: int
    """The end of the splits, exclusive."""
    digest: str
    """The digest of the list."""
    changes: ChangeFormat | None = None
    """If set, each row is an insert in this format, at the instant of `at`."""


@dataclass(frozen=True, slots=True)
class TopicRanges:
    """Ranges of the topic of a hybrid read (`PlanRequest.hybrid`)."""

    ranges: tuple[KafkaRange, ...]
    """One range per split; the ranges of a partition are in ascending order."""


Query = Snapshot | SnapshotAsOf | ReadOptimized | Incremental | Changes | SnapshotPart | TopicRanges

RangeQuery = Incremental | Changes
"""The queries that a commit range bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """One read to plan."""

    table: str
    """The table's name or path."""
    query: Query
    """The query."""
    columns: tuple[str, ...] = ()
    """The columns, in order; empty: every column, in the table's order. Names resolve by Spark's case rule."""
    where: str = ""
    """The filter (grammar: docs/reference/semantics.md); '': none."""
    slots: int = 0
    """The number of tasks that pull splits; 0: the planner chooses."""
    event_time: str = ""
    """The column whose bounds each split carries, or ''."""
    event_time_unit: str = ""
    """The unit (s, ms, us) of an event-time column of whole numbers, or ''."""
    scan_event_time: bool = False
    """Whether splits without event-time statistics are read to find their bounds."""
    of_stream: str = ""
    """The id of the stream whose batch the plan is, or ''. Such a plan is not needed after later ones of the stream are
    opened."""
    target_split_bytes: int = 128 << 20
    """The size above which a base file without logs is divided into runs of row groups."""
    metadata: bool = True
    """Whether the table's metadata table is used. Without it: the same rows, from listings of folders, and fewer
    event-time bounds."""
    record_index: bool = False
    """Whether the record index of the metadata table may exclude file groups. The table must hold no key twice."""
    delete_marker: DeleteMarker | None = None
    """Marks deletes in the log of a table whose own properties define no marker."""
    skip_corrupt: bool = False
    """Whether rows of damaged or missing log files are skipped, as Hudi does, instead of an error."""
    columns_by_name: bool = False
    """Whether columns of older files are found by name on a table with a schema-on-read history, which is Hudi's
    default: a renamed column is then null."""
    hybrid: Hybrid | None = None
    """The topic in which the read continues after the table."""
    meta: bool = True
    """Whether Hudi's meta columns are returned if `columns` is empty."""
    completion_time: bool = False
    """Whether the columns include `_completion_time`."""
    timeline_timezone: str = ""
    """The zone of a LOCAL timeline, by its IANA name, for `completion_time`; '' if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLimits:
    """The limits of one round; 0: no limit.

    A round contains at least one file group, however large it is. It may end inside a commit (`Position.index`), except
    inside one that replaces file groups.
    """

    max_commits: int = 0
    """Data commits."""
    max_files: int = 0
    """Files."""
    max_bytes: int = 0
    """Bytes on storage."""
    max_rows: int = 0
    """Rows, by the statistics of commits."""

    def __post_init__(self) -> None:
        for name in ("max_commits", "max_files", "max_bytes", "max_rows"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name}: got {getattr(self, name)}, expected 0 (no limit) or more")


NO_LIMITS: Final = RoundLimits()


def is_pattern(table: str) -> bool:
    """Whether the text is a shell pattern of names of tables. No table with `*`, `?` or `[` in its name is served."""
    return any(character in table for character in "*?[")
