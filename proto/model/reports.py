"""What comes back about a table, a plan and a finished split. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.proto.model.positions import Position
from penstock.proto.model.splits import Scan, Split


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescription:
    """A table as its newest completed instant leaves it. `schema_json` is Avro with the meta columns in front."""

    table: str
    base_path: str
    hudi_name: str
    table_type: str
    table_version: int
    timeline_layout: int
    timeline_timezone: str
    merge_mode: str
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    schema_json: str
    newest: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedPlan:
    """A plan that readers can pull from: slots are 0..slots-1; no slots means no splits."""

    plan_id: str
    slots: int
    splits: int
    size_bytes: int
    scan: Scan


@dataclass(frozen=True, slots=True)
class NextSplit:
    """The split at the asked index of a slot's list; asked again, the same."""

    split: Split


@dataclass(frozen=True, slots=True)
class EndOfSlot:
    """The slot's list is sealed at this index: no attempt of the slot will ever get more."""


SplitAnswer = NextSplit | EndOfSlot


PHASES: Final = ("open", "log_decode", "build", "base_decode", "merge", "emit")
"""open: files opened, block headers read. log_decode: log records to Arrow. build: the winner table. base_decode: base
rows to Arrow. merge: those probed, winners put in; of changes, states compared. emit: filters, projection, formats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOutcomes:
    """What became of the log records of a split."""

    won: int = 0
    lost_event_time: int = 0
    duplicate: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReport:
    """How reading one split went. `phase_ms` keys are of `PHASES`. Rows are rows handed on.
    `skipped_gaps` are damaged stretches of log files that were passed over, `skipped_bytes` their length.
    `pruned_row_groups` of a base file, with `pruned_rows`, were not decoded: its footer says that no row is kept;
    where a log meets them, but for the columns that decide.
    `counts` are further numbers by name, ascending, none of them 0: of topics `reader.topics.reading`'s."""

    rows: int
    size_bytes: int
    phase_ms: tuple[tuple[str, float], ...] = ()
    outcomes: MergeOutcomes = field(default_factory=MergeOutcomes)
    max_event_time_us: int | None = None
    skipped_gaps: int = 0
    skipped_bytes: int = 0
    pruned_row_groups: int = 0
    pruned_rows: int = 0
    counts: tuple[tuple[str, int], ...] = ()
