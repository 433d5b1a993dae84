"""The event-time bounds of a plan's splits, from the best source that tells them; and the cutting of big base files,
which needs the same footers.

Shell. In this order: the partition path, if the column's values are there; footers of log-free slices; of slices with
logs the metadata table, then footers of base file and Parquet log blocks; of changes the same of every file that an
image can come from; what is left is read, if the request says so, by an `EventTimeScan` that is handed in (the
enumerator has no reader). Not here: what statistics mean (`bounds`), single files (`file_times`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from penstock.enumerator.log import log_event
from penstock.enumerator.planning.event_time.bounds import EventTimeColumn, SplitBounds, together
from penstock.enumerator.planning.event_time.file_bounds import FileTimes, TimesCache
from penstock.enumerator.planning.event_time.other_sources import (
    Files,
    covering_files,
    looked_up_bounds,
    path_times,
    times_of_changes,
)
from penstock.enumerator.planning.split_ids import digest, in_commit_order, run_id
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import GroupChanges
from penstock.proto.model.hybrid import KafkaAccess
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.splits import (
    EventTimeBounds,
    FileRef,
    NoEventTimes,
    Plan,
    RowGroupRun,
    Scan,
    Split,
    UnknownBounds,
)
from penstock.table.columns import resolve_column
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.column_stats import COLUMN_STATS
from penstock.table.metadata.metadata_table import indexes
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema


def cut(row_group_bytes: Sequence[int], target_bytes: int) -> tuple[RowGroupRun, ...]:
    """Runs that cover all row groups in order, each of at least one; a run ends before it would exceed the target.

    `row_group_bytes` are sizes on storage. () if one run would hold them all: the file is then read whole.
    """
    runs: list[RowGroupRun] = []
    first = held = 0
    for index, size_bytes in enumerate(row_group_bytes):
        if index > first and held + size_bytes > target_bytes:
            runs.append(RowGroupRun(first, index, held))
            first, held = index, 0
        held += size_bytes
    if not runs:
        return ()
    return (*runs, RowGroupRun(first, len(row_group_bytes), held))


_FOOTER_READERS: Final = 8
_SCANS: Final = 2
"""Splits read for their event times at once: each holds its log in memory."""


class EventTimeScan(Protocol):
    """Reads a split's event times."""

    def __call__(
        self, scan: Scan, split: Split, column: str, unit: str, access: KafkaAccess | None = None
    ) -> EventTimeBounds | NoEventTimes:
        """The lowest and highest value of the table's column among all rows of the split, whatever the scan's filter
        keeps. `unit` (s, ms, us) is that of a column of plain numbers, '' for any other. `access`: to the brokers of a
        split that is a range of a topic. Any thread; errors as for reading the split."""
        ...


@dataclass(frozen=True, slots=True)
class TimeSources:
    """What planning may use beside the table's files: what they told before, and a way to read splits (None: none)."""

    cache: TimesCache = field(default_factory=TimesCache)
    scan: EventTimeScan | None = None


def with_event_times(
    table: HudiTable, state: TableState, request: PlanRequest, plan: Plan, sources: TimeSources
) -> Plan:
    """The plan with the event-time bounds that the request asks for, and big log-free base files cut into runs.

    ConfigurationError if splits must be read and there is no way to. Errors as for `file_times` and for reading.
    """
    if request.event_time:
        plan = _of_paths(plan, request)
    column = _column(plan.scan, request)
    from_files = _FromFiles(
        table=table,
        state=state,
        plan=plan,
        files=FileTimes(table, column, sources.cache),
        use_metadata=request.metadata and state.metadata_usable and COLUMN_STATS in indexes(table.properties),
        target_bytes=request.target_split_bytes,
    )
    splits = from_files.splits()
    if request.event_time and request.scan_event_time:
        splits = _scanned(plan.scan, splits, request, sources)
    return plan if splits == plan.splits else replace(plan, splits=in_commit_order(splits))


def rows_of_split(table: HudiTable, split: Split, cache: TimesCache) -> int | None:
    """At most how many rows reading a split of rows gives: those of its row groups, and what completed instants say
    they wrote into its logs. None if that is not known of a log, or for changes. Reads a footer once."""
    if isinstance(split.part, GroupChanges) or any(log.writes is None for log in split.logs):
        return None
    logged = sum(write.data_rows for log in split.logs for write in log.writes or ())
    if split.base is None:
        return logged
    rows = FileTimes(table, None, cache).of_base(split.base).rows
    return logged + sum(rows[split.part.first : split.part.end] if isinstance(split.part, RowGroupRun) else rows)


def _of_paths(plan: Plan, request: PlanRequest) -> Plan:
    """The plan with the bounds that partition paths tell, if they hold the column's values."""
    schema = arrow_schema(parse_record_schema(plan.scan.schema_json))
    name = resolve_column(request.event_time, schema.names)
    if name not in plan.scan.partition_fields:
        return plan
    kind = schema.field(name).type
    told = (path_times(plan.scan, split, name, kind, request.event_time_unit) for split in plan.splits)
    splits = (replace(split, event_time=times) for split, times in zip(plan.splits, told, strict=True))
    return replace(plan, splits=tuple(splits))


def _column(scan: Scan, request: PlanRequest) -> EventTimeColumn | None:
    """The column that files tell of; None without one, if its values come from the partition path, or where columns
    are found by id."""
    if not request.event_time or scan.schema_history:
        return None
    record = parse_record_schema(scan.schema_json)
    name = resolve_column(request.event_time, arrow_schema(record).names)
    if name in scan.partition_fields:
        return None
    return EventTimeColumn(name, record.by_name()[name].type, request.event_time_unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FromFiles:
    """What statistics tell of the splits of one plan."""

    table: HudiTable
    state: TableState
    plan: Plan
    files: FileTimes
    use_metadata: bool
    target_bytes: int

    def splits(self) -> tuple[Split, ...]:
        told = self._of_metadata() if self.files.column is not None else {}
        given = [
            replace(split, event_time=told[split.split_id]) if split.split_id in told else split
            for split in self.plan.splits
        ]
        open_ones = [split for split in given if self._needs_files(split)]
        if not open_ones:
            return tuple(given)
        with ThreadPoolExecutor(max_workers=min(_FOOTER_READERS, len(open_ones))) as pool:
            made = dict(zip((split.split_id for split in open_ones), pool.map(self._parts, open_ones), strict=True))
        return tuple(part for split in given for part in made.get(split.split_id, (split,)))

    def _of_metadata(self) -> Mapping[str, SplitBounds]:
        """What the metadata table knows of slices with logs, by split id. On layout 2, where a log is one instant's
        whole, that holds as long as the files do."""
        wanted: dict[str, Files] = {}
        found: dict[str, SplitBounds] = {}
        keys: dict[str, tuple[object, ...]] = {}
        for split in self.plan.splits:
            files = _merged_files(split, self.files)
            if files is None or not self.use_metadata:
                continue
            key = keys[split.split_id] = self.files.key("slice", files)
            held = self.files.cache.get(key)
            if isinstance(held, EventTimeBounds | NoEventTimes):
                found[split.split_id] = held
            else:
                wanted[split.split_id] = Files(split.partition, files)
        if not wanted or self.files.column is None:
            return found
        asked = looked_up_bounds(self.table, self.state.table, self.state.facts.timeline, wanted, self.files.column)
        for split_id, bounds in asked.items():
            if not isinstance(bounds, UnknownBounds):
                found[split_id] = bounds
                if self.table.properties.layout > 1:
                    self.files.cache.put(keys[split_id], bounds)
        return found

    def _needs_files(self, split: Split) -> bool:
        if self.files.column is not None and isinstance(split.event_time, UnknownBounds):
            return True
        return split.base is not None and not split.logs and split.base.size_bytes > self.target_bytes

    def _parts(self, split: Split) -> tuple[Split, ...]:
        """The split with what its files tell, or cut into runs of row groups that have theirs."""
        if isinstance(split.part, GroupChanges):
            return (replace(split, event_time=times_of_changes(split.part, self.plan.scan, self.files)),)
        if split.base is None or split.logs:
            times = self.files.of_slice(split.base, split.logs, self.plan.scan.visible)
            return (replace(split, event_time=times),)
        base = self.files.of_base(split.base)
        runs = cut(base.sizes_bytes, self.target_bytes) if split.base.size_bytes > self.target_bytes else ()
        if not runs:
            return (replace(split, event_time=self._known(split, base.times)),)
        return tuple(
            replace(
                split,
                part=run,
                split_id=run_id(split.split_id, run),
                event_time=self._known(split, base.times[run.first : run.end]),
            )
            for run in runs
        )

    def _known(self, split: Split, times: Sequence[SplitBounds]) -> SplitBounds:
        return split.event_time if self.files.column is None else together(times)


def _merged_files(split: Split, files: FileTimes) -> tuple[FileRef, ...] | None:
    """The files of a split with logs that hold every row of it; None of a log-free one (its footer tells), and where
    other files have rows of it."""
    if isinstance(split.part, GroupChanges):
        covering = covering_files(split.part, files)
        if covering is None or not any(found.logs for found in covering):
            return None
        return tuple({file.path: file for found in covering for file in found.files}.values())
    if not split.logs:
        return None
    return split.logs if split.base is None else (split.base, *split.logs)


def _scanned(scan: Scan, splits: Sequence[Split], request: PlanRequest, sources: TimeSources) -> tuple[Split, ...]:
    """The splits, those read whose files do not tell."""
    unknown = [split for split in splits if isinstance(split.event_time, UnknownBounds)]
    if not unknown:
        return tuple(splits)
    column = resolve_column(request.event_time, arrow_schema(parse_record_schema(scan.schema_json)).names)
    read = sources.scan
    if read is None:
        raise ConfigurationError(
            f"event times of column {column!r} in {len(unknown)} of {len(splits)} splits of table {scan.table} are "
            f"told by no file's statistics (such as split {unknown[0].split_id}), and this enumerator was made without "
            "a way to read them (scan_event_time): make it with one, as `penstock serve` does, or use "
            "watermarkFallback hold or commitTime"
        )

    unit = request.event_time_unit
    looks = digest(["scan", scan.base_path, scan.schema_json, scan.schema_history, scan.skip_corrupt, column, unit])

    def scanned(split: Split) -> EventTimeBounds | NoEventTimes:
        return sources.cache.made((looks, split.split_id), lambda: read(scan, split, column, unit), lambda _: 0)

    fresh = sum(sources.cache.get((looks, split.split_id)) is None for split in unknown)
    if fresh:
        log_event("event times read", table=scan.table, column=column, splits=fresh, of=len(splits))
    with ThreadPoolExecutor(max_workers=min(_SCANS, len(unknown))) as pool:
        found = dict(zip((split.split_id for split in unknown), pool.map(scanned, unknown), strict=True))
    return tuple(
        replace(split, event_time=found[split.split_id]) if split.split_id in found else split for split in splits
    )
