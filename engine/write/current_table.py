"""The state of a table when a write begins: its schema, and the newest slice of each file group."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import InvariantViolation, SchemaMismatch
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.splits import MAX_SPLIT_BYTES, Scan, Split, WholeFile
from penstock.reader.base.file import BaseFile
from penstock.reader.read_split import read_split
from penstock.reader.values.record_keys import RECORD_KEY
from penstock.table.files.names import LogName, parse_file_name
from penstock.table.files.slices import GroupId
from penstock.table.hudi_table import HudiTable
from penstock.table.schema.avro import OPERATION, RecordSchema, parse_record_schema
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action
from penstock.table.timeline.settled_reads import read_current
from penstock.writer.files.rewritten_base import BATCH
from penstock.writer.index.locations import FooterTest
from penstock.writer.index.new_groups import FileSizes, average_row_bytes
from penstock.writer.index.slices import LatestSlice, TableSlices

_COMMITS: Final = 32
"""How many commits the average size of a row is looked for in, from the newest."""
_NEVER: Final = "~"
"""After every time."""
_DEFAULT_ROW_BYTES: Final = 1024
"""Hudi's `hoodie.copyonwrite.record.size.estimate`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentTable:
    """A table as a write sees it. Its files are those of one state of the timeline."""

    table: HudiTable
    """The table, with that timeline."""
    record: RecordSchema | None
    """Its schema with meta columns; None for a table without any."""
    slices: TableSlices
    """The newest slices."""
    scan: Scan | None = None
    """How the slices are read; None for a table without a schema."""
    splits: Mapping[GroupId, Split] = field(default_factory=dict)
    """The slices as they are read."""

    @property
    def stores_operations(self) -> bool:
        """Whether its files store the operation of each row."""
        return self.record is not None and OPERATION in self.record.by_name()

    def without(self, groups: Collection[GroupId]) -> CurrentTable:
        """The table without the slices of these groups."""
        return replace(self, slices=self.slices.without(groups))

    def base_file(self, item: LatestSlice, record: RecordSchema, columns: tuple[str, ...]) -> BaseFile:
        """The base file of a slice, opened with these columns of `record`."""
        if item.base is None:
            raise InvariantViolation(f"base file of {item.group}, which has only logs")
        name = redacted_uri(self.table.base_path)
        return BaseFile(self.table.storage, item.base, record, columns, table=name)

    def keys_of(self, item: LatestSlice, may_have_keys: FooterTest | None = None) -> Iterator[pa.Array]:
        """The record keys of a slice's base file, in batches in file order, or none if the test of its footer fails;
        then those of its rows, if its logs may have others."""
        if self.record is None:
            raise InvariantViolation(f"keys of {item.group} in a table without a schema")
        with self.base_file(item, self.record, (RECORD_KEY,)) as base:
            if may_have_keys is None or may_have_keys(base.footer):
                for group in base.row_groups(WholeFile(), BATCH):
                    for batch in group.batches():
                        yield batch.column(0)
        if item.logs_may_add_keys:
            for batch in self.live_rows(item, ()):
                yield batch.column(0)

    def live_rows(self, item: LatestSlice, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The rows of a slice as a snapshot returns them: the record key, then these columns."""
        if self.scan is None:
            raise InvariantViolation(f"rows of {item.group} in a table without a schema")
        scan = replace(self.scan, columns=(RECORD_KEY, *columns))
        for piece in read_split(scan, self.splits[item.group], storage=self.table.storage):
            yield piece.batch

    def row_bytes(self, sizes: FileSizes) -> int:
        """The average size of a row in base files, by the newest commits (Hudi `AverageRecordSizeEstimator`)."""
        written: list[tuple[int, int]] = []
        for instant in reversed(self.table.timeline().completed_writes[-_COMMITS:]):
            stats = [stat for stat in self.table.commit(instant).stats if not stat.file_name.startswith(".")]
            written.append((sum(stat.file_size_bytes for stat in stats), sum(stat.num_writes for stat in stats)))
        return average_row_bytes(written, sizes, _DEFAULT_ROW_BYTES)


def current_table(table: HudiTable) -> CurrentTable:
    """The table as its timeline is now, also while another process archives instants; a pinned table as its timeline
    was. Errors of planning a snapshot."""
    if table.is_pinned:
        return _current(table)  # it would not list its timeline again
    return read_current(lambda: _current(table.pinned()))


def _current(pinned: HudiTable) -> CurrentTable:
    name = redacted_uri(pinned.base_path)
    try:
        request = PlanRequest(table=name, query=Snapshot(), slots=1, target_split_bytes=MAX_SPLIT_BYTES, metadata=False)
        plan = plan_request(pinned, name, request)
    except SchemaMismatch:
        if pinned.timeline().completed_writes:
            raise
        return CurrentTable(table=pinned, record=None, slices=TableSlices({}, frozenset()))
    record = parse_record_schema(plan.scan.schema_json, f"schema of table {name}")
    timeline = pinned.timeline()
    pending = _pending_compactions(pinned, timeline)
    by_partition: dict[str, list[LatestSlice]] = {}
    for split in sorted(plan.splits, key=lambda one: (one.partition, one.file_group)):
        by_partition.setdefault(split.partition, []).append(_slice(split, pending, timeline))
    locked = _rewritten_groups(pinned, timeline)
    return CurrentTable(
        table=pinned,
        record=record,
        slices=TableSlices(by_partition, locked),
        scan=plan.scan,
        splits={(split.partition, split.file_group): split for split in plan.splits},
    )


def _slice(split: Split, pending: dict[GroupId, str], timeline: Timeline) -> LatestSlice:
    names = [parse_file_name(log.path.rpartition("/")[2]) for log in split.logs]
    logs = [name.instant for name in names if isinstance(name, LogName)]
    first_log = next(iter(logs), "")
    compaction = pending.get((split.partition, split.file_group), "")
    return LatestSlice(
        partition=split.partition,
        file_id=split.file_group,
        base=split.base,
        base_instant=split.base_instant,
        logs=split.logs,
        key=compaction or split.base_instant or first_log,
        being_compacted=bool(compaction),
        logs_may_add_keys=bool(logs) and logs_may_add_keys(split.base_instant, logs, timeline),
    )


def logs_may_add_keys(base_instant: str, logs: Collection[str], timeline: Timeline) -> bool:
    """Whether logs of a slice may have rows of keys that its base file lacks. Pure.

    A write logs a key that the base file has. If a compaction was pending then, which removed the key for an older
    delete, the new base file lacks it. On layout 1 the names of logs do not say when they were written. logs: the
    instants in their names.
    """
    written = timeline.completed_write(base_instant)
    if written is None:  # it is archived
        return True
    if written.action is not Action.COMMIT:
        return False
    return timeline.layout == 1 or any(instant < (written.completion_time or _NEVER) for instant in logs)


def _pending_compactions(table: HudiTable, timeline: Timeline) -> dict[GroupId, str]:
    """Group -> requested time of its pending compaction."""
    return {
        (group.partition, group.file_id): instant.requested_time
        for instant in timeline.pending
        if instant.action is Action.COMPACTION
        for group in table.compaction_plan(instant)
    }


def _rewritten_groups(table: HudiTable, timeline: Timeline) -> frozenset[GroupId]:
    """The groups that pending clusterings and other pending replacements read or replace."""
    return frozenset(
        group
        for instant in timeline.pending
        if instant.action in (Action.CLUSTERING, Action.REPLACE_COMMIT)
        for group in table.requested_replace(instant).input_groups
    )
