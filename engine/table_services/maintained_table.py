"""A table that a clean or an archival works on: they read no rows, so that they do more tables than writes do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.engine.write.settings import METADATA_PARTITIONS, timeline_zone
from penstock.proto.errors import InvariantViolation, TableError, UnsupportedFeature, WriteConflict
from penstock.proto.model.files import FileRef
from penstock.table.config.properties import load_properties
from penstock.table.files.names import parse_file_name
from penstock.table.files.slices import CommittedInstants, DataFile, GroupId
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.filesystem import FileInfo, redacted_uri
from penstock.table.storage.local_writes import WritableStorage, open_writable
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action, Instant, State
from penstock.writer.table_services.cleaning import CleaningFacts
from penstock.writer.transaction.transaction import WriteEnvironment

_VERSIONS: Final = (6, 9)
_COMPACTIONS: Final = (Action.COMPACTION, Action.LOG_COMPACTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainedTable:
    """A table and what a service takes from outside of it."""

    table: HudiTable
    """The table."""
    storage: WritableStorage
    """Its files."""
    environment: WriteEnvironment
    """Clocks, and the zone of the timeline."""

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


def open_maintained(path: str, timeline_timezone: str) -> MaintainedTable:
    """Opens a table for a clean or an archival.

    UnsupportedFeature for a table of another version than 6 and 9, or with a metadata table, which would list deleted
    files. ConfigurationError for a LOCAL timeline without a zone.
    """
    storage = open_writable(path)
    table = HudiTable(storage, load_properties(storage))
    table.refuse_unsupported()
    properties = table.properties
    where = f"table {redacted_uri(storage.base_path)}"
    if properties.version not in _VERSIONS:
        raise UnsupportedFeature(
            f"{where}: tables of version {properties.version} are neither cleaned nor archived, those of 6 and 9 are"
        )
    names = (METADATA_PARTITIONS, f"{METADATA_PARTITIONS}.inflight")
    listed = ",".join(properties.raw[name].strip() for name in names if properties.raw.get(name))
    if listed.strip(","):
        raise UnsupportedFeature(
            f"{where} has a metadata table ({METADATA_PARTITIONS}={listed[:200]}), which would still list files "
            "that are deleted: let Hudi clean and archive it, or write it once by Hudi with "
            "hoodie.metadata.enable=false, which removes the metadata table"
        )
    environment = WriteEnvironment(zone=timeline_zone(properties, timeline_timezone))
    return MaintainedTable(table=table, storage=storage, environment=environment)


def refuse_pending_restore(timeline: Timeline, where: str) -> None:
    """WriteConflict while a restore is pending: it decides which files and instants the table has."""
    for item in timeline.instants:
        if item.action is Action.RESTORE and item.state is not State.COMPLETED:
            raise WriteConflict(
                f"{where}: restore {item.requested_time} is pending: nothing was changed; let the restore end first"
            )


def cleaning_facts(table: HudiTable) -> CleaningFacts:
    """The state of a pinned table that its cleans depend on."""
    timeline = table.timeline()
    order_keys: dict[str, str] = {item.requested_time: timeline.order_key(item) for item in timeline.completed_writes}
    archived = {time: key for time, key in table.archived_completions().items() if time not in order_keys}
    plans = [(item, table.compaction_plan(item)) for item in timeline.pending if item.action in _COMPACTIONS]
    compactions: dict[GroupId, set[str]] = {}
    inputs: dict[GroupId, str] = {}
    for item, groups in plans:
        for part in groups:
            group = (part.partition, part.file_id)
            inputs[group] = min(inputs.get(group, part.base_instant), part.base_instant)
            if item.action is Action.COMPACTION:
                compactions.setdefault(group, set()).add(item.requested_time)
    return CleaningFacts(
        committed=CommittedInstants(
            layout=timeline.layout, order_keys={**archived, **order_keys}, archived_before=timeline.first_active
        ),
        replaced=replaced_groups(table, timeline),
        pending_compactions=compactions,
        compaction_inputs=inputs,
        clustering_inputs=_clustering_inputs(table, timeline),
        savepointed=frozenset(file for item in timeline.savepoints for file in table.savepoint(item)),
    )


def replaced_groups(table: HudiTable, timeline: Timeline) -> Mapping[GroupId, str]:
    """File group -> requested time of the newest completed replacecommit that replaced it."""
    return {
        group: item.requested_time
        for item in timeline.completed_writes
        if item.action is Action.REPLACE_COMMIT
        for group in table.commit(item).replaced
    }


def _clustering_inputs(table: HudiTable, timeline: Timeline) -> Mapping[GroupId, str]:
    pending = [item for item in timeline.pending if item.action in (Action.CLUSTERING, Action.REPLACE_COMMIT)]
    return {
        group: item.requested_time for item in reversed(pending) for group in table.requested_replace(item).input_groups
    }


def data_files(table: HudiTable, partition: str) -> list[DataFile]:
    """The data files in a partition's folder."""
    return [_data_file(partition, info) for info in table.list_partition(partition)]


def _data_file(partition: str, info: FileInfo) -> DataFile:
    name = parse_file_name(info.name)
    if name is None:
        raise InvariantViolation(f"{info.path} is no data file")
    return DataFile(partition=partition, ref=FileRef(info.path, info.size_bytes), name=name, listed=True)


def pending_cleans(timeline: Timeline) -> tuple[Instant, ...]:
    """The cleans that are planned and not completed, by requested time."""
    return tuple(item for item in timeline.instants if item.action is Action.CLEAN and not item.is_completed)
