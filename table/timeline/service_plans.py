"""Plans of table services, and what a clean or rollback took away: compaction plans, requested replaces, metadata.

Pure. Plans hold the writer's absolute paths: only partitions, file ids and file names are taken from them, never a
path to open.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.proto.errors import CorruptFile
from penstock.table.timeline.commits import decode_metadata
from penstock.table.timeline.fields import Fields
from penstock.table.timeline.instants import Action, Instant


@dataclass(frozen=True, slots=True)
class CompactionGroup:
    """A file group that a (log) compaction will rewrite, and the slice it starts from (Hudi `CompactionOperation`)."""

    partition: str
    file_id: str
    base_instant: str


@dataclass(frozen=True, slots=True)
class RequestedReplace:
    """A requested replacecommit or clustering: `input_groups` are (partition, file id), sorted, for clustering only."""

    operation: str
    is_clustering: bool
    input_groups: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CleanedPartition:
    """Names of the files a clean deleted from a partition; `whole` if the partition was dropped with them."""

    partition: str
    file_names: tuple[str, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class CleanMetadata:
    """What a completed clean did. `earliest_to_retain` is '' under KEEP_LATEST_FILE_VERSIONS; `policy` is Hudi's
    `HoodieCleaningPolicy`, '' if no partition tells it."""

    earliest_to_retain: str
    last_completed: str
    partitions: tuple[CleanedPartition, ...]
    policy: str = ""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """Requested times of the instants that a completed rollback or restore took back."""

    instants: tuple[str, ...]


def parse_compaction_plan(data: bytes, instant: Instant, table: str = "") -> tuple[CompactionGroup, ...]:
    """The groups of a compaction's or log compaction's requested file (Hudi `HoodieCompactionPlan`), in its order.

    CorruptFile for bytes that are no whole plan or an operation without file id.
    """
    plan = decode_metadata(data, instant, table)
    return tuple(
        CompactionGroup(
            partition=operation.file_path("partitionPath"),
            file_id=operation.required_text("fileId"),
            base_instant=operation.text("baseInstantTime"),
        )
        for operation in plan.records("operations")
    )


def parse_requested_replace(data: bytes, instant: Instant, table: str = "") -> RequestedReplace:
    """A replacecommit's or clustering's requested file (Hudi `HoodieRequestedReplaceMetadata`).

    An empty file is a replace that is not clustering: insert_overwrite of old writers (Hudi `ClusteringUtils`).
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
    groups = {
        (part.file_path("partitionPath"), part.required_text("fileId"))
        for group in plan.records("inputGroups")
        for part in group.records("slices")
    }
    return RequestedReplace(operation, True, tuple(sorted(groups)))


def parse_clean(data: bytes, instant: Instant, table: str = "") -> CleanMetadata:
    """A completed clean (Hudi `HoodieCleanMetadata`): names only, whether the file holds bare names or whole paths."""
    return clean_of(decode_metadata(data, instant, table))


def clean_of(fields: Fields) -> CleanMetadata:
    """A completed clean from its decoded fields. CorruptFile as `parse_clean`."""
    entries = [
        (partition, entry.nested("of", entry.values["of"]))
        for partition, entry in fields.partitions("partitionMetadata", required=True)
    ]
    partitions = [_cleaned(partition, entry) for partition, entry in entries]
    return CleanMetadata(
        earliest_to_retain=fields.text("earliestCommitToRetain"),
        last_completed=fields.text("lastCompletedCommitTimestamp"),
        partitions=tuple(sorted(partitions, key=lambda item: item.partition)),
        policy=next((entry.text("policy").upper() for _, entry in entries), ""),
    )


def parse_rollback(data: bytes, instant: Instant, table: str = "") -> RolledBack:
    """What a completed rollback (Hudi `HoodieRollbackMetadata`) or restore (`HoodieRestoreMetadata`) took back."""
    return rollback_of(decode_metadata(data, instant, table), instant.action)


def rollback_of(fields: Fields, action: Action) -> RolledBack:
    """The same from decoded fields."""
    return RolledBack(fields.texts("instantsToRollback" if action is Action.RESTORE else "commitsRollback"))


def _cleaned(partition: str, entry: Fields) -> CleanedPartition:
    names = {path.rpartition("/")[2] for path in entry.texts("successDeleteFiles")}
    if "" in names:
        raise CorruptFile(f"{entry.where}, field {entry.path}successDeleteFiles: got a path that ends with '/'")
    return CleanedPartition(partition, tuple(sorted(names)), entry.flag("isPartitionDeleted"))
