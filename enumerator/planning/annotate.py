"""Add event-time bounds to a plan's splits, and cut large base files into runs of row groups.

Bounds come from the first of these sources that has them:

1. the partition path, if the event-time column is a partition column;
2. for slices without logs, the footer of the base file;
3. for slices with logs, the metadata table, then the footers of the base file and of Parquet log blocks;
4. for changes, the same sources for every file that an image can come from;
5. if the request asks for it, reading the split by an `EventTimeScan`, which the caller supplies because the enumerator
   has no reader.

Cutting base files needs the same footers, so both happen together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from typing import Final, Protocol

from penstock.enumerator.log import log_event
from penstock.enumerator.planning.event_time.bounds import (
    EventTimeColumn,
    SplitBounds,
    path_bounds,
    union_of_bounds,
)
from penstock.enumerator.planning.event_time.file_bounds import FileBounds, FooterCache, covering_slices
from penstock.enumerator.planning.event_time.metadata_bounds import CoveringFiles, bounds_from_metadata
from penstock.enumerator.planning.split_ids import digest, in_commit_order, run_id
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import GroupChanges
from penstock.proto.model.hybrid import KafkaAccess
from penstock.proto.model.splits import (
    CustomMerge,
    EventTimeBounds,
    FileRef,
    NoEventTimes,
    Plan,
    RowGroupRun,
    Scan,
    Split,
    UnknownBounds,
)
from penstock.proto.value_classes import dataclass
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.column_stats import COLUMN_STATS
from penstock.table.metadata.metadata_table import indexes

_FOOTER_READERS: Final = 8
_SCANS: Final = 2
"""Splits that are read for their event times at the same time. Each holds its log in memory."""


class EventTimeScan(Protocol):
    """Reads a split's event times."""

    def __call__(
        self, scan: Scan, split: Split, column: str, unit: str, access: KafkaAccess | None = None
    ) -> EventTimeBounds | NoEventTimes:
        """The lowest and highest value of the column among all rows of the split; the scan's filter does not apply.

        `unit` (s, ms, us) is that of a column of plain numbers, '' for any other. `access` is for the brokers of a
        split that is a range of a topic. Called from any thread. Errors as for reading the split.
        """
        ...


@dataclass(frozen=True, slots=True)
class TimeSources:
    """Sources of event times beside the table's files."""

    cache: FooterCache = field(default_factory=FooterCache)
    """Bounds and sizes that were read before."""
    scan: EventTimeScan | None = None
    """Reads splits; None if this process cannot."""


def with_event_times(table: HudiTable, state: TableState, plan: Plan, sources: TimeSources) -> Plan:
    """The plan with the event-time bounds that the request asks for, and with large log-free base files cut into runs.

    ConfigurationError if splits must be read and `sources.scan` is None. Errors as for `file_bounds` and for reading.
    """
    request = state.request.request
    plan = _with_path_bounds(plan, state)
    from_files = _FromFiles(
        table=table,
        state=state,
        plan=plan,
        files=FileBounds(table, _column_in_files(plan.scan, state), sources.cache),
        use_metadata=request.metadata and state.metadata_usable and COLUMN_STATS in indexes(table.properties),
        target_bytes=request.target_split_bytes,
    )
    splits = from_files.splits()
    if state.request.event_time is not None and request.scan_event_time:
        splits = _with_scanned_bounds(plan.scan, splits, state.request.event_time, sources)
    return plan if splits == plan.splits else replace(plan, splits=in_commit_order(splits))


def max_rows_of_split(table: HudiTable, split: Split, cache: FooterCache) -> int | None:
    """An upper bound for the rows of a split: the rows of its row groups, and the records that completed instants wrote
    into its logs. None for changes, and if the writes into a log are unknown. Reads a footer once."""
    if isinstance(split.part, GroupChanges) or any(log.writes is None for log in split.logs):
        return None
    logged = sum(write.data_rows for log in split.logs for write in log.writes or ())
    if split.base is None:
        return logged
    rows = FileBounds(table, None, cache).of_base(split.base).rows
    return logged + sum(rows[split.part.first : split.part.end] if isinstance(split.part, RowGroupRun) else rows)


def row_group_runs(row_group_bytes: Sequence[int], target_bytes: int) -> tuple[RowGroupRun, ...]:
    """Runs that cover all row groups in order, each of at least one. A run ends before it would exceed the target.

    `row_group_bytes` are sizes on storage. () if one run would hold all row groups: the file is then read whole.
    """
    runs: list[RowGroupRun] = []
    first = run_bytes = 0
    for index, size_bytes in enumerate(row_group_bytes):
        if index > first and run_bytes + size_bytes > target_bytes:
            runs.append(RowGroupRun(first, index, run_bytes))
            first, run_bytes = index, 0
        run_bytes += size_bytes
    if not runs:
        return ()
    return (*runs, RowGroupRun(first, len(row_group_bytes), run_bytes))


def _with_path_bounds(plan: Plan, state: TableState) -> Plan:
    """The plan with bounds from the partition paths, if the event-time column is a partition column."""
    column = state.request.event_time
    if column is None or column.name not in plan.scan.partition_fields:
        return plan
    kind = state.schema.arrow.field(column.name).type
    splits = (replace(split, event_time=path_bounds(plan.scan, split, column, kind)) for split in plan.splits)
    return replace(plan, splits=tuple(splits))


def _column_in_files(scan: Scan, state: TableState) -> EventTimeColumn | None:
    """The event-time column, if file statistics apply to it. They do not if its values come from the partition path, or
    if columns are found by id (schema-on-read)."""
    column = state.request.event_time
    if column is None or scan.schema_history or column.name in scan.partition_fields:
        return None
    if isinstance(scan.merge, CustomMerge):
        return None  # a function may return any value
    return column


@dataclass(frozen=True, slots=True, kw_only=True)
class _FromFiles:
    """The splits of one plan with the bounds and runs that file statistics give."""

    table: HudiTable
    state: TableState
    plan: Plan
    files: FileBounds
    use_metadata: bool
    target_bytes: int

    def splits(self) -> tuple[Split, ...]:
        from_metadata = self._bounds_from_metadata() if self.files.column is not None else {}
        splits: Sequence[Split] = self.plan.splits
        if from_metadata:
            splits = [
                replace(split, event_time=from_metadata[split.split_id]) if split.split_id in from_metadata else split
                for split in splits
            ]
        unread = [split for split in splits if self._needs_files(split)]
        if not unread:
            return tuple(splits)
        with ThreadPoolExecutor(max_workers=min(_FOOTER_READERS, len(unread))) as pool:
            parts = dict(zip((split.split_id for split in unread), pool.map(self._parts, unread), strict=True))
        return tuple(part for split in splits for part in parts.get(split.split_id, (split,)))

    def _bounds_from_metadata(self) -> Mapping[str, SplitBounds]:
        """Split id -> bounds of a slice with logs, from the metadata table. Cached on layout 2, where a log belongs to
        one instant and does not grow."""
        lookups: dict[str, CoveringFiles] = {}
        bounds: dict[str, SplitBounds] = {}
        keys: dict[str, tuple[object, ...]] = {}
        for split in self.plan.splits:
            files = _merged_files(split, self.files)
            if files is None or not self.use_metadata:
                continue
            key = keys[split.split_id] = self.files.key("slice", files)
            cached = self.files.cache.get(key)
            if isinstance(cached, EventTimeBounds | NoEventTimes):
                bounds[split.split_id] = cached
            else:
                lookups[split.split_id] = CoveringFiles(split.partition, files)
        if not lookups or self.files.column is None:
            return bounds
        timeline = self.state.facts.timeline
        fresh = bounds_from_metadata(self.table, self.state.table, timeline, lookups, self.files.column)
        for split_id, split_bounds in fresh.items():
            if not isinstance(split_bounds, UnknownBounds):
                bounds[split_id] = split_bounds
                if self.table.properties.layout > 1:
                    self.files.cache.put(keys[split_id], split_bounds)
        return bounds

    def _needs_files(self, split: Split) -> bool:
        if self.files.column is not None and isinstance(split.event_time, UnknownBounds):
            return True
        return split.base is not None and not split.logs and split.base.read_bytes > self.target_bytes

    def _parts(self, split: Split) -> tuple[Split, ...]:
        """The split with bounds from its files, or its runs of row groups with theirs."""
        if isinstance(split.part, GroupChanges):
            return (replace(split, event_time=self.files.of_changes(split.part, self.plan.scan)),)
        if split.base is None or split.logs:
            bounds = self.files.of_slice(split.base, split.logs, self.plan.scan.visible)
            return (replace(split, event_time=bounds),)
        base = self.files.of_base(split.base)
        runs = row_group_runs(base.sizes_bytes, self.target_bytes) if split.base.read_bytes > self.target_bytes else ()
        if not runs:
            return (replace(split, event_time=self._bounds(split, base.bounds)),)
        return tuple(
            replace(
                split,
                part=run,
                split_id=run_id(split.split_id, run),
                event_time=self._bounds(split, base.bounds[run.first : run.end]),
            )
            for run in runs
        )

    def _bounds(self, split: Split, row_groups: Sequence[SplitBounds]) -> SplitBounds:
        return split.event_time if self.files.column is None else union_of_bounds(row_groups)


def _merged_files(split: Split, files: FileBounds) -> tuple[FileRef, ...] | None:
    """The files that hold every row of a split with logs. None for a log-free split, whose footer has the bounds, and
    if other files hold rows or columns of it."""
    if isinstance(split.part, GroupChanges):
        covering = covering_slices(split.part, files)
        if covering is None or not any(item.logs for item in covering):
            return None
        if any(item.base is not None and item.base.source is not None for item in covering):
            return None
        return tuple({file.path: file for item in covering for file in item.files}.values())
    if not split.logs or (split.base is not None and split.base.source is not None):
        return None
    return split.logs if split.base is None else (split.base, *split.logs)


def _with_scanned_bounds(
    scan: Scan, splits: Sequence[Split], column: EventTimeColumn, sources: TimeSources
) -> tuple[Split, ...]:
    """The splits; those without bounds from files are read."""
    unknown = [split for split in splits if isinstance(split.event_time, UnknownBounds)]
    if not unknown:
        return tuple(splits)
    name, unit, read = column.name, column.unit, sources.scan
    if read is None:
        raise ConfigurationError(
            f"event times of column {name!r} in {len(unknown)} of {len(splits)} splits of table {scan.table} are in "
            f"no file's statistics (such as split {unknown[0].split_id}), and this enumerator was created without "
            "a way to read them (scan_event_time): create it with one, as `penstock serve` does, or use "
            "watermarkFallback hold or commitTime"
        )
    scope = digest(["scan", scan.base_path, scan.schema_json, scan.schema_history, scan.skip_corrupt, name, unit])

    def read_bounds(split: Split) -> EventTimeBounds | NoEventTimes:
        key = (scope, split.split_id)
        return sources.cache.get_or_compute(key, lambda: read(scan, split, name, unit), lambda _: 0)

    uncached = sum(sources.cache.get((scope, split.split_id)) is None for split in unknown)
    if uncached:
        log_event("event times read", table=scan.table, column=name, splits=uncached, of=len(splits))
    with ThreadPoolExecutor(max_workers=min(_SCANS, len(unknown))) as pool:
        bounds = dict(zip((split.split_id for split in unknown), pool.map(read_bounds, unknown), strict=True))
    return tuple(
        replace(split, event_time=bounds[split.split_id]) if split.split_id in bounds else split for split in splits
    )
