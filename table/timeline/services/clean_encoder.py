"""Encodes cleans, planned and completed, and decodes their plans. Pure.

Source: Hudi `HoodieCleanerPlan`, `HoodieCleanMetadata`, `CleanerUtils`. Both are Avro on both layouts. Hudi stores
absolute paths in plans; only the partition and the name are read from them, so that a plan never names a file outside
of a partition.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final

from penstock.proto.errors import CorruptFile, UnsupportedFeature
from penstock.proto.value_classes import dataclass
from penstock.table.files.names import absolute_path, parse_file_name
from penstock.table.timeline.commits import decode_metadata
from penstock.table.timeline.container_encoder import encode_container
from penstock.table.timeline.fields import Fields
from penstock.table.timeline.instants import Action, Instant
from penstock.table.timeline.metadata_schemas.cleans import CLEAN, CLEAN_PLAN
from penstock.table.timeline.services.plans import SAVEPOINTS

_VERSION: Final = 2
_INSTANT: Final = re.compile(r"[0-9]{1,24}")
_META_FOLDER: Final = ".hoodie"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPlan:
    """A planned clean."""

    policy: str
    """Hudi's `HoodieCleaningPolicy`."""
    earliest: str
    """Requested time of the earliest instant to retain; '' under KEEP_LATEST_FILE_VERSIONS."""
    earliest_action: str
    """Action of that instant; '' without one."""
    last_completed: str
    """Requested time of the last completed write before the clean; '' if Hudi recorded none."""
    files: Mapping[str, tuple[str, ...]]
    """Partition -> names of the files to delete."""
    partitions: tuple[str, ...] = ()
    """Partitions to delete: they have no file group any more."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Extra metadata."""


def encode_clean_plan(plan: CleanPlan, base_path: str) -> bytes:
    """The requested file of a clean, and its inflight file on layout 1: the inverse of `parse_clean_plan`."""
    earliest = None
    if plan.earliest:
        earliest = {"timestamp": plan.earliest, "action": plan.earliest_action, "state": "COMPLETED"}
    return encode_container(
        CLEAN_PLAN,
        {
            "earliestInstantToRetain": earliest,
            "lastCompletedCommitTimestamp": plan.last_completed,
            "policy": plan.policy,
            "filesToBeDeletedPerPartition": {},
            "version": _VERSION,
            "filePathsToBeDeletedPerPartition": {
                partition: [
                    {"filePath": absolute_path(base_path, partition, name), "isBootstrapBaseFile": False}
                    for name in names
                ]
                for partition, names in plan.files.items()
            },
            "partitionsToBeDeleted": list(plan.partitions),
            "extraMetadata": dict(plan.extra),
        },
    )


def parse_clean_plan(data: bytes, instant: Instant, table: str = "") -> CleanPlan:
    """Decodes the requested file of a clean.

    CorruptFile for bytes that are not a complete plan, and for a plan to delete what is not a data file of the
    partition that it names: whoever carries it out deletes these files. UnsupportedFeature for a plan to delete the
    source files of a bootstrapped table.
    """
    plan = decode_metadata(data, instant, table)
    earliest, action = "", ""
    if plan.values.get("earliestInstantToRetain") is not None:
        info = plan.nested("earliestInstantToRetain", plan.values["earliestInstantToRetain"])
        earliest, action = info.required_text("timestamp"), info.required_text("action")
        if not _INSTANT.fullmatch(earliest) or action not in set(Action):
            raise CorruptFile(f"{plan.where}: got {action[:40]!r} {earliest[:40]!r}, expected an instant to retain")
    files = dict(_planned_files(plan))
    partitions = plan.texts("partitionsToBeDeleted")
    for partition in (*files, *partitions):
        _check_partition(plan, partition)
    extra = Fields(plan.mapping("extraMetadata"), plan.where, "extraMetadata.")
    return CleanPlan(
        policy=plan.text("policy").upper(),
        earliest=earliest,
        earliest_action=action,
        last_completed=plan.text("lastCompletedCommitTimestamp"),
        files=files,
        partitions=partitions,
        extra={key: extra.text(key) for key, value in extra.values.items() if value is not None},
    )


def encode_clean(
    plan: CleanPlan, instant: str, took_ms: int, deleted_partitions: Collection[str] = frozenset()
) -> bytes:
    """The completed file of a clean that carried out the plan; `parse_clean` decodes it.

    Files that were missing already count as deleted, as in Hudi: another process may have carried out a part of the
    plan. took_ms: milliseconds that the deletion took. deleted_partitions: those of the plan's that are gone.
    """
    return encode_container(
        CLEAN,
        {
            "startCleanTime": instant,
            "timeTakenInMillis": took_ms,
            "totalFilesDeleted": sum(map(len, plan.files.values())),
            "earliestCommitToRetain": plan.earliest,
            "lastCompletedCommitTimestamp": plan.last_completed,
            "partitionMetadata": {
                partition: {
                    "partitionPath": partition,
                    "policy": plan.policy,
                    "deletePathPatterns": list(names),
                    "successDeleteFiles": list(names),
                    "failedDeleteFiles": [],
                    "isPartitionDeleted": partition in deleted_partitions,
                }
                for partition, names in plan.files.items()
            },
            "version": _VERSION,
            "bootstrapPartitionMetadata": {},
            "extraMetadata": dict(plan.extra),
        },
    )


def savepoints_entry(savepoints: Iterable[str]) -> dict[str, str]:
    """The extra metadata with the requested times of a table's savepoints; empty without any."""
    text = ",".join(sorted(savepoints))
    return {SAVEPOINTS: text} if text else {}


def _planned_files(plan: Fields) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names by partition. Plans of version 1 have names, later ones absolute paths."""
    for partition, entry in plan.partitions("filesToBeDeletedPerPartition"):
        if plan.values.get("filePathsToBeDeletedPerPartition") is None:
            yield partition, tuple(_data_file(entry, name) for name in entry.file_names("of"))
    for partition, entry in plan.partitions("filePathsToBeDeletedPerPartition"):
        yield partition, tuple(_planned_file(entry, partition, file) for file in entry.records("of"))


def _planned_file(entry: Fields, partition: str, file: Fields) -> str:
    path = file.required_text("filePath")
    if file.flag("isBootstrapBaseFile"):
        raise UnsupportedFeature(
            f"{entry.where} would delete {path[:200]!r}, a source file of a bootstrapped table: let Hudi carry it out"
        )
    folder, _, name = path.rpartition("/")
    if partition and not f"/{folder}".endswith(f"/{partition}"):
        raise CorruptFile(f"{entry.where}, field {entry.path}filePath: got {path[:200]!r}, a file of another partition")
    return _data_file(entry, name)


def _data_file(entry: Fields, name: str) -> str:
    if parse_file_name(entry.bare("filePath", name)) is None:
        raise CorruptFile(f"{entry.where}, field {entry.path}filePath: got {name[:200]!r}, expected a data file")
    return name


def _check_partition(plan: Fields, partition: str) -> None:
    plan.checked("partitionsToBeDeleted", partition)
    if _META_FOLDER in partition.split("/"):
        raise CorruptFile(f"{plan.where}: got partition {partition[:200]!r}, a metadata folder")
