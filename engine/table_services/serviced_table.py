"""A table as compactions and clusterings see it: what it holds, and which groups other services have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.settings import (
    VERSIONS,
    refuse_nested_ordering,
    refuse_read_only,
    refuse_unwritten,
    timeline_zone,
)
from penstock.proto.errors import ConfigurationError, CorruptFile, InvariantViolation, TableError, UnsupportedFeature
from penstock.proto.model.files import FileRef
from penstock.table.config.merge_rules import rules_of_writes
from penstock.table.config.properties import load_properties
from penstock.table.files.slices import GroupId
from penstock.table.hudi_table import HudiTable
from penstock.table.schema.avro import RecordSchema
from penstock.table.storage.local_writes import WritableStorage, open_writable
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action, Instant
from penstock.table.timeline.services.plans import ClusteringSlice, CompactionGroup
from penstock.writer.index.slices import LatestSlice
from penstock.writer.metadata_table.update import refuse_unkept
from penstock.writer.table_services.planned_slices import planned_paths, planned_slice
from penstock.writer.transaction.transaction import WriteEnvironment, is_clustering


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicedTable:
    """A table that a service works on."""

    table: HudiTable
    """The table."""
    storage: WritableStorage
    """Its files."""
    environment: WriteEnvironment
    """Clocks, and the zone of the timeline."""
    partitions: tuple[str, ...] | None = None
    """The partitions that a clean looks at; None for those that it finds."""

    @property
    def where(self) -> str:
        """The beginning of error texts."""
        return f"table {redacted_uri(self.storage.base_path)}"

    def unchanged(self) -> HudiTable:
        """The table, with its properties read again. TableError if it was upgraded."""
        table = self.table.unpinned().refreshed()
        mine, others = self.table.properties, table.properties
        if (mine.version, mine.layout) != (others.version, others.layout):
            raise TableError(
                f"{self.where}: it changed meanwhile from version {mine.version} to {others.version}: nothing was "
                "changed; try again"
            )
        return table


def open_serviced(path: str, timeline_timezone: str, *, keeps_metadata: bool = False) -> ServicedTable:
    """Opens a table for a service that writes no rows: a clean, an archival, a savepoint, a restore.

    keeps_metadata: whether the service records in a metadata table which files it deletes.

    UnsupportedFeature for a table of another version than 6 and 9; with `keeps_metadata` as `refuse_unkept`.
    ConfigurationError for a LOCAL timeline without a zone.
    """
    storage = open_writable(path)
    table = HudiTable(storage, load_properties(storage))
    table.refuse_unsupported()
    properties = table.properties
    refuse_read_only(properties)
    environment = WriteEnvironment(zone=timeline_zone(properties, timeline_timezone))
    serviced = ServicedTable(table=table, storage=storage, environment=environment)
    if properties.version not in VERSIONS:
        raise UnsupportedFeature(
            f"{serviced.where}: tables of version {properties.version} have no services of Penstock, those of 6 and 9 "
            "have"
        )
    if keeps_metadata:
        refuse_unkept(properties)
    return serviced


def open_rewritten(path: str, timeline_timezone: str) -> ServicedTable:
    """Opens a table for a service that rewrites rows: a compaction or a clustering.

    UnsupportedFeature for a table that is not written (`refuse_unwritten`); ConfigurationError for a LOCAL timeline
    without a zone.
    """
    storage = open_writable(path)
    table = HudiTable(storage, load_properties(storage))
    refuse_unwritten(table)
    environment = WriteEnvironment(zone=timeline_zone(table.properties, timeline_timezone))
    serviced = ServicedTable(table=table, storage=storage, environment=environment)
    refuse_nested_ordering(rules_of_writes(table.properties).mode, serviced.where)
    return serviced


def check_parts(*, schedule_only: bool, run_only: bool) -> None:
    """ConfigurationError if both parts of a service are asked for alone."""
    if schedule_only and run_only:
        raise ConfigurationError("got schedule_only and run_only: give one of them, or neither to plan and carry out")


def pending(timeline: Timeline, action: Action) -> tuple[Instant, ...]:
    """The pending instants of this action, by requested time."""
    return tuple(item for item in timeline.pending if item.action is action)


def pending_clusterings(table: HudiTable, timeline: Timeline) -> tuple[Instant, ...]:
    """The pending clusterings, by requested time."""
    return tuple(item for item in timeline.pending if is_clustering(table, item))


def busy_groups(current: CurrentTable) -> frozenset[GroupId]:
    """The groups that a pending compaction, log compaction, clustering or replacement has."""
    slices = (item for items in current.slices.by_partition.values() for item in items)
    compacted = {item.group for item in slices if item.being_compacted}
    merged = {
        (group.partition, group.file_id)
        for instant in pending(current.table.timeline(), Action.LOG_COMPACTION)
        for group in current.table.compaction_plan(instant)
    }
    return frozenset({*compacted, *merged, *current.slices.locked})


def record_of(current: CurrentTable) -> RecordSchema:
    """The schema of a table with files."""
    if current.record is None:
        raise InvariantViolation(f"table {redacted_uri(current.table.base_path)}: files, and no schema")
    return current.record


def planned_slices(
    current: CurrentTable, planned: Iterable[CompactionGroup | ClusteringSlice], where: str
) -> tuple[LatestSlice, ...]:
    """The slices that a plan names, with the files as they are on storage.

    CorruptFile, beginning with `where`, for a plan that names a file which is none of its group, or does not exist.
    """
    items = (item for slices in current.slices.by_partition.values() for item in slices)
    known = {file.path: file for item in items for file in (item.base, *item.logs) if file is not None}
    storage = current.table.storage
    result = []
    for part in planned:
        files = {}
        for path in planned_paths(part, where):
            info = None if path in known else storage.file_info(path)
            if path in known:
                files[path] = known[path]
            elif info is not None:
                files[path] = FileRef(path, info.size_bytes)
            else:
                raise CorruptFile(
                    f"{where}: file {path} of its plan is gone: the plan cannot be carried out; restore the file, or "
                    "remove a plan of a clustering with `penstock rollback TABLE INSTANT`"
                )
        result.append(planned_slice(part, files, where))
    return tuple(result)
