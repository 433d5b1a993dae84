"""Encodes rollbacks, planned and completed, and decodes their plans. Pure.

Source: Hudi `HoodieRollbackPlan`, `HoodieRollbackMetadata`, `RollbackUtils`. Both are Avro on both layouts. Hudi stores
absolute paths; only the names in them are read, so that a plan never names a file outside of its partition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.proto.model.positions import InstantTime
from penstock.table.files.names import LogName, absolute_path, parse_file_name
from penstock.table.timeline.commits import decode_metadata
from penstock.table.timeline.container_encoder import encode_container
from penstock.table.timeline.fields import Fields
from penstock.table.timeline.instants import Action, Instant
from penstock.table.timeline.metadata_schemas.rollbacks import ROLLBACK, ROLLBACK_PLAN

_INSTANT: Final = re.compile(r"[0-9]{1,24}")
_META_FOLDER: Final = ".hoodie"


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """What a rollback does in a file group."""

    partition: str
    """Partition path."""
    file_id: str
    """The file group; '' if the plan does not name it, as for files that are only deleted."""
    file_names: tuple[str, ...]
    """Names of the files to delete."""
    logs: Mapping[str, int] = field(default_factory=dict)
    """Name -> size of the logs whose blocks a rollback block cancels, in tables of version 6. Hudi 0.15 has another
    name here, with size 1, and means the logs of the slice of `base_instant`."""
    base_instant: str = ""
    """Instant in the names of these logs; '' without logs."""


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """A planned rollback."""

    target: InstantTime
    """Requested time of the instant that it removes."""
    action: Action
    """Action of that instant."""
    requests: tuple[RollbackRequest, ...]
    """What it does, in the plan's order."""


@dataclass(frozen=True, slots=True)
class RolledBackPartition:
    """What a rollback did in a partition, or in one of its file groups."""

    partition: str
    """Partition path."""
    deleted: tuple[str, ...]
    """Names of the files that it deleted."""
    blocks: Mapping[str, int] = field(default_factory=dict)
    """Name -> size of the logs that it wrote with a rollback block."""
    logs: Mapping[str, int] = field(default_factory=dict)
    """Name -> size of the logs whose blocks these cancel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedRollback:
    """A rollback that was carried out."""

    instant: str
    """Requested time of the rollback."""
    target: str
    """Requested time of the instant that it removed."""
    action: Action
    """Action of that instant."""
    partitions: tuple[RolledBackPartition, ...]
    """What it did."""
    took_ms: int
    """Milliseconds that the deletion took."""


def encode_rollback_plan(target: Instant, requests: Iterable[RollbackRequest], base_path: str) -> bytes:
    """The requested file of a rollback: the inverse of `parse_rollback_plan`.

    A request both to delete files and to cancel logs becomes two, as Hudi carries out one of them for each request.
    """
    return encode_container(
        ROLLBACK_PLAN,
        {
            "instantToRollback": {"commitTime": str(target.requested_time), "action": str(target.action)},
            "RollbackRequests": [part for request in requests for part in _request_fields(request, base_path)],
            "version": 1,
        },
    )


def _request_fields(request: RollbackRequest, base_path: str) -> list[dict[str, object]]:
    parts: list[dict[str, object]] = []
    if request.file_names:
        parts.append(
            {
                "partitionPath": request.partition,
                "fileId": "",
                "latestBaseInstant": "",
                "filesToBeDeleted": [absolute_path(base_path, request.partition, name) for name in request.file_names],
                "logBlocksToBeDeleted": {},
            }
        )
    if request.logs:
        parts.append(
            {
                "partitionPath": request.partition,
                "fileId": request.file_id,
                "latestBaseInstant": request.base_instant or _base_instant(request.logs),
                "filesToBeDeleted": [],
                "logBlocksToBeDeleted": _absolute_sizes(base_path, request.partition, request.logs),
            }
        )
    return parts


def encode_rollback(rollback: CompletedRollback, base_path: str = "") -> bytes:
    """The completed file of a rollback; `parse_rollback` decodes its instants.

    base_path: with it, files have absolute paths, as Hudi stores them.
    """
    return encode_container(ROLLBACK, rollback_record(rollback, base_path))


def rollback_record(rollback: CompletedRollback, base_path: str) -> dict[str, object]:
    """The record of a completed rollback, which a restore's file has too. Several entries of a partition are joined."""
    entries: dict[str, dict[str, object]] = {}
    for partition in sorted({part.partition for part in rollback.partitions}):
        parts = [part for part in rollback.partitions if part.partition == partition]
        entries[partition] = {
            "partitionPath": partition,
            "successDeleteFiles": [
                absolute_path(base_path, partition, name) for part in parts for name in part.deleted
            ],
            "failedDeleteFiles": [],
            "rollbackLogFiles": _absolute_sizes(base_path, partition, *(part.blocks for part in parts)),
            "logFilesFromFailedCommit": _absolute_sizes(base_path, partition, *(part.logs for part in parts)),
        }
    return {
        "startRollbackTime": rollback.instant,
        "timeTakenInMillis": rollback.took_ms,
        "totalFilesDeleted": sum(len(part.deleted) for part in rollback.partitions),
        "commitsRollback": [rollback.target],
        "partitionMetadata": entries,
        "version": 1,
        "instantsRollback": [{"commitTime": rollback.target, "action": str(rollback.action)}],
    }


def parse_rollback_plan(data: bytes, instant: Instant, table: str = "") -> RollbackPlan:
    """Decodes the requested file of a rollback.

    CorruptFile for bytes that are not a complete plan, and for a plan to delete what is not a data file of a partition:
    whoever carries it out deletes these files.
    """
    plan = decode_metadata(data, instant, table)
    value = plan.values.get("instantToRollback")
    if value is None:
        raise plan.missing("instantToRollback")
    info = plan.nested("instantToRollback", value)
    target, action = info.required_text("commitTime"), info.required_text("action")
    if not _INSTANT.fullmatch(target) or action not in set(Action):
        raise CorruptFile(f"{plan.where}: got {action[:40]!r} {target[:40]!r}, expected the action and the instant")
    requests = tuple(_parse_request(request) for request in plan.records("RollbackRequests"))
    return RollbackPlan(InstantTime(target), Action(action), requests)


def _parse_request(request: Fields) -> RollbackRequest:
    partition = request.file_path("partitionPath")
    if _META_FOLDER in partition.split("/"):
        raise CorruptFile(
            f"{request.where}, field {request.path}partitionPath: got {partition[:200]!r}, a metadata folder"
        )
    names = tuple(_name(request, "filesToBeDeleted", path) for path in request.texts("filesToBeDeleted"))
    for name in names:
        if parse_file_name(name) is None:
            raise CorruptFile(
                f"{request.where}, field {request.path}filesToBeDeleted: got {name[:200]!r}, expected a data file"
            )
    sizes = Fields(request.mapping("logBlocksToBeDeleted"), request.where, f"{request.path}logBlocksToBeDeleted.")
    logs = {_name(sizes, "path", path): max(0, sizes.file_bytes(path)) for path in sizes.values}
    base_instant = request.text("latestBaseInstant") or _base_instant(logs)
    if logs and not _INSTANT.fullmatch(base_instant):
        raise CorruptFile(f"{request.where}, field {request.path}latestBaseInstant: got {base_instant[:40]!r}")
    return RollbackRequest(partition, request.text("fileId"), names, logs, base_instant if logs else "")


def _name(fields: Fields, field_name: str, path: str) -> str:
    """The last part of an absolute path."""
    return fields.bare(field_name, path.rstrip("/").rpartition("/")[2])


def _base_instant(logs: Mapping[str, int]) -> str:
    """The highest instant in the names of logs; '' without any."""
    names = [parse_file_name(name) for name in logs]
    return max((name.instant for name in names if isinstance(name, LogName)), default="")


def _absolute_sizes(base_path: str, partition: str, *sizes: Mapping[str, int]) -> dict[str, int]:
    return {absolute_path(base_path, partition, name): size for part in sizes for name, size in part.items()}
