"""Decodes plans of table services (compactions, requested replacecommits) and metadata of cleans and rollbacks. Pure.

Plans contain absolute paths of the writer: only partitions, file ids and file names are read from them, never a path
to open.
"""

from __future__ import annotations

from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.proto.value_classes import dataclass
from penstock.table.timeline.commits import decode_metadata
from penstock.table.timeline.fields import Fields
from penstock.table.timeline.instants import Action, Instant
from penstock.table.timeline.services.recorded_holds import HOLDS, RecordedHold, parse_holds

SORT_COLUMNS: Final = "hoodie.clustering.plan.strategy.sort.columns"
"""Hudi's option of the columns by which a clustering sorts; also their name in its plan."""
SAVEPOINTS: Final = "savepointed_timestamps"
"""Extra metadata of a clean: requested times of the savepoints, separated by commas (Hudi `CleanerUtils`)."""


@dataclass(frozen=True, slots=True)
class CompactionGroup:
    """A file group that a compaction or log compaction will rewrite (Hudi `CompactionOperation`)."""

    partition: str
    """Partition path."""
    file_id: str
    """The file group in the partition."""
    base_instant: str
    """Key of the slice that the compaction reads."""
    base_file: str = ""
    """Name of the slice's base file; '' for a slice of logs only."""
    logs: tuple[str, ...] = ()
    """Names of the logs that the compaction reads, in the plan's order."""


@dataclass(frozen=True, slots=True)
class ClusteringSlice:
    """A file slice that a clustering reads (Hudi `HoodieSliceInfo`)."""

    partition: str
    """Partition path."""
    file_id: str
    """The file group in the partition."""
    base_file: str
    """Name of the base file; '' for a slice of logs only."""
    logs: tuple[str, ...] = ()
    """Names of the logs, in the plan's order."""


@dataclass(frozen=True, slots=True)
class ClusteringGroup:
    """File slices whose rows a clustering writes together (Hudi `HoodieClusteringGroup`)."""

    slices: tuple[ClusteringSlice, ...]
    """The slices, in the plan's order."""


@dataclass(frozen=True, slots=True)
class RequestedReplace:
    """A requested replacecommit or clustering."""

    operation: str
    """Operation of the writer, upper case; '' if it recorded none."""
    is_clustering: bool
    """Whether it is a clustering."""
    input_groups: tuple[tuple[str, str], ...]
    """(partition, file id) of the file groups that a clustering reads, sorted; () for other operations."""
    groups: tuple[ClusteringGroup, ...] = ()
    """What a clustering reads and writes together; () for other operations."""
    sort_by: tuple[str, ...] = ()
    """The columns by which a clustering sorts, as its writer stated them; () for none."""


@dataclass(frozen=True, slots=True)
class CleanedPartition:
    """The files that a clean deleted from a partition."""

    partition: str
    """Partition path."""
    file_names: tuple[str, ...]
    """Names without folders, sorted."""
    whole: bool
    """Whether the clean deleted the partition too."""


@dataclass(frozen=True, slots=True)
class CleanMetadata:
    """The metadata of a completed clean."""

    earliest_to_retain: str
    """Earliest instant that the clean retains; '' under KEEP_LATEST_FILE_VERSIONS."""
    last_completed: str
    """Last completed instant before the clean."""
    partitions: tuple[CleanedPartition, ...]
    """Partitions with deleted files, by path."""
    policy: str = ""
    """Hudi's `HoodieCleaningPolicy`; '' if no partition records it."""
    savepoints: tuple[str, ...] = ()
    """Requested times of the savepoints at that time; Hudi records them for tables with partitions."""
    holds: tuple[RecordedHold, ...] = ()
    """The readers that held the cleaner; Penstock's cleans record them."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The metadata of a completed rollback or restore."""

    instants: tuple[str, ...]
    """Requested times of the instants that it removed."""


def parse_compaction_plan(data: bytes, instant: Instant, table: str = "") -> tuple[CompactionGroup, ...]:
    """The groups of a compaction's or log compaction's requested file (Hudi `HoodieCompactionPlan`), in its order.

    CorruptFile for bytes that are not a complete plan, or an operation without a file id.
    """
    plan = decode_metadata(data, instant, table)
    return tuple(
        CompactionGroup(
            partition=operation.file_path("partitionPath"),
            file_id=operation.required_text("fileId"),
            base_instant=operation.text("baseInstantTime"),
            base_file=_name(operation, "dataFilePath"),
            logs=_names(operation, "deltaFilePaths"),
        )
        for operation in plan.records("operations")
    )


def parse_requested_replace(data: bytes, instant: Instant, table: str = "") -> RequestedReplace:
    """Decodes the requested file of a replacecommit or clustering (Hudi `HoodieRequestedReplaceMetadata`).

    An empty file is a replacecommit other than clustering: insert_overwrite of old writers (Hudi `ClusteringUtils`).
    """
    if not data:
        return RequestedReplace("", False, ())
    fields = decode_metadata(data, instant, table)
    operation = fields.text("operationType").upper()
    plan_value = fields.values.get("clusteringPlan")
    if plan_value is None:
        if operation == "CLUSTER":
            raise fields.missing("clusteringPlan")
        return RequestedReplace(operation, False, ())
    plan = fields.nested("clusteringPlan", plan_value)
    groups = tuple(
        ClusteringGroup(tuple(_clustering_slice(part) for part in group.records("slices")))
        for group in plan.records("inputGroups")
    )
    inputs = {(part.partition, part.file_id) for group in groups for part in group.slices}
    return RequestedReplace(operation, True, tuple(sorted(inputs)), groups, _sort_columns(plan))


def _clustering_slice(part: Fields) -> ClusteringSlice:
    return ClusteringSlice(
        partition=part.file_path("partitionPath"),
        file_id=part.required_text("fileId"),
        base_file=_name(part, "dataFilePath"),
        logs=_names(part, "deltaFilePaths"),
    )


def _sort_columns(plan: Fields) -> tuple[str, ...]:
    strategy = plan.values.get("strategy")
    if strategy is None:
        return ()
    params = Fields(plan.nested("strategy", strategy).mapping("strategyParams"), plan.where, "strategyParams.")
    return tuple(name.strip() for name in params.text(SORT_COLUMNS).split(",") if name.strip())


def _name(fields: Fields, field_name: str) -> str:
    """The last part of a path; '' if the field is absent, null or empty."""
    path = fields.text(field_name)
    return fields.bare(field_name, path.rpartition("/")[2]) if path else ""


def _names(fields: Fields, field_name: str) -> tuple[str, ...]:
    return tuple(fields.bare(field_name, path.rpartition("/")[2]) for path in fields.texts(field_name))


def parse_clean(data: bytes, instant: Instant, table: str = "") -> CleanMetadata:
    """Decodes a completed clean (Hudi `HoodieCleanMetadata`). The file may have names or complete paths."""
    return clean_of(decode_metadata(data, instant, table))


def clean_of(fields: Fields) -> CleanMetadata:
    """The metadata of a clean from its decoded fields. CorruptFile as `parse_clean`."""
    entries = [
        (partition, entry.nested("of", entry.values["of"]))
        for partition, entry in fields.partitions("partitionMetadata", required=True)
    ]
    partitions = [_cleaned(partition, entry) for partition, entry in entries]
    extra = Fields(fields.mapping("extraMetadata"), fields.where, "extraMetadata.")
    return CleanMetadata(
        earliest_to_retain=fields.text("earliestCommitToRetain"),
        last_completed=fields.text("lastCompletedCommitTimestamp"),
        partitions=tuple(sorted(partitions, key=lambda item: item.partition)),
        policy=next((entry.text("policy").upper() for _, entry in entries), ""),
        savepoints=tuple(filter(None, extra.text(SAVEPOINTS).split(","))),
        holds=parse_holds(extra.text(HOLDS)),
    )


def parse_rollback(data: bytes, instant: Instant, table: str = "") -> RolledBack:
    """Decodes a completed rollback (Hudi `HoodieRollbackMetadata`) or restore (`HoodieRestoreMetadata`)."""
    return rollback_of(decode_metadata(data, instant, table), instant.action)


def rollback_of(fields: Fields, action: Action) -> RolledBack:
    """The metadata of a rollback or restore from its decoded fields."""
    return RolledBack(fields.texts("instantsToRollback" if action is Action.RESTORE else "commitsRollback"))


def _cleaned(partition: str, entry: Fields) -> CleanedPartition:
    names = {path.rpartition("/")[2] for path in entry.texts("successDeleteFiles")}
    if "" in names:
        raise CorruptFile(f"{entry.where}, field {entry.path}successDeleteFiles: got a path that ends with '/'")
    return CleanedPartition(partition, tuple(sorted(names)), entry.flag("isPartitionDeleted"))
