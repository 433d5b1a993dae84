"""The answers of the plan API: table descriptions, instants, opened plans, splits, and the reports on splits."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.splits import Scan, Split
from penstock.proto.value_classes import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescription:
    """A table at its newest completed instant."""

    table: str
    """The name by which the table was requested."""
    base_path: str
    """The table's base path."""
    hudi_name: str
    """The name in the table's properties."""
    table_type: str
    """Hudi's table type."""
    table_version: int
    """Hudi's table version."""
    timeline_layout: int
    """Hudi's timeline layout version."""
    timeline_timezone: str
    """The time zone of the timeline."""
    merge_mode: str
    """The record merge mode."""
    record_key_fields: tuple[str, ...]
    """The columns of the record key."""
    partition_fields: tuple[str, ...]
    """The partition columns."""
    ordering_fields: tuple[str, ...]
    """The ordering columns."""
    schema_json: str
    """The Avro schema, with the meta columns first."""
    newest: Position
    """The newest position that may be consumed."""


INSTANT_STATES: Final = ("requested", "inflight", "completed")
"""The states of an instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineInstant:
    """An instant of an active timeline, in its latest state."""

    requested_time: InstantTime
    """Time at which the writer requested the instant; identifies it."""
    completion_time: InstantTime | None
    """Time at which it completed; None if it is pending, and on timeline layout 1."""
    action: str
    """Hudi's name of the action."""
    state: str
    """One of INSTANT_STATES."""
    file: str
    """Name of its file in the timeline's folder."""

    @property
    def order_key(self) -> InstantTime | None:
        """Its place in the order of commits; None if it is pending."""
        return (self.completion_time or self.requested_time) if self.state == "completed" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePage:
    """A part of a table's active timeline."""

    instants: tuple[TimelineInstant, ...]
    """The instants by requested time."""
    timeline_timezone: str
    """The time zone of the timeline."""
    more: bool
    """Whether instants with later requested times follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedPlan:
    """A plan from which readers can pull splits."""

    plan_id: str
    """The plan's id."""
    slots: int
    """The number of slots, numbered from 0; 0: there are no splits."""
    splits: int
    """The number of splits."""
    size_bytes: int
    """The bytes on storage of all splits."""
    scan: Scan
    """What all splits share."""


@dataclass(frozen=True, slots=True)
class NextSplit:
    """The split at the requested index of a slot's list; the same for each repeated request."""

    split: Split
    """The split."""


@dataclass(frozen=True, slots=True)
class EndOfSlot:
    """The slot's list ends at this index, for every attempt of the slot."""


SplitAnswer = NextSplit | EndOfSlot


PHASES: Final = ("open", "log_decode", "build", "base_decode", "merge", "emit")
"""The phases of reading a split. `open`: opens files and reads block headers. `log_decode`: log records to Arrow.
`build`: builds the table of winning log records. `base_decode`: base rows to Arrow. `merge`: looks up base rows in that
table and replaces them; for changes, compares states. `emit`: filters, projection, output format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOutcomes:
    """The results of merging the log records of a split, in records."""

    won: int = 0
    """Records that became rows."""
    lost_event_time: int = 0
    """Records with a lower ordering value than another one of their key."""
    duplicate: int = 0
    """Records that a later record of the same key replaced."""
    deleted: int = 0
    """Records that deleted a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReport:
    """A reader's metrics of one split."""

    rows: int
    """Rows returned."""
    size_bytes: int
    """Bytes read."""
    phase_ms: tuple[tuple[str, float], ...] = ()
    """(phase, milliseconds); phases are those of `PHASES`."""
    outcomes: MergeOutcomes = field(default_factory=MergeOutcomes)
    """The results of merging."""
    max_event_time_us: int | None = None
    """The highest event time, in UTC microseconds; None: none."""
    skipped_gaps: int = 0
    """Damaged parts of log files that were skipped."""
    skipped_bytes: int = 0
    """The length of those parts."""
    pruned_row_groups: int = 0
    """Row groups of a base file that were not decoded, because by the footer no row passes the filter. If log records
    may apply to them, the columns needed for merging were decoded."""
    pruned_rows: int = 0
    """The rows of those row groups."""
    counts: tuple[tuple[str, int], ...] = ()
    """Further (name, number) pairs, sorted by name, without zeros; those of topics are in `penstock.reader.topics`."""
