"""The stored form of the records of write transactions."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.enumerator.core.writes.records import (
    CommitDecided,
    DurableWriteRecord,
    GroupsLeased,
    WriteBegun,
    WriteCompleted,
    WriteFailed,
    WriteRequested,
    WriteRolledBack,
)
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import TouchedGroups, WriteCommit, WriteEnd, WriteId, WriteSpec

Json = Mapping[str, Any]

WRITE_KINDS: Final[dict[type[Any], str]] = {
    WriteRequested: "write-requested",
    WriteBegun: "write-begun",
    GroupsLeased: "groups-leased",
    CommitDecided: "commit-decided",
    WriteCompleted: "write-completed",
    WriteFailed: "write-failed",
    WriteRolledBack: "write-rolled-back",
}
"""The kinds of the records."""


def write_payload(record: DurableWriteRecord) -> dict[str, Any]:
    """The fields of a record."""
    fields: dict[str, Any] = {}
    match record:
        case WriteRequested():
            spec = record.spec
            fields = {
                "request_id": record.request_id,
                "action": spec.action,
                "requested": _text(spec.requested),
                "keeps_metadata": spec.keeps_metadata,
                "by_bucket": spec.by_bucket,
                **({"timeline_timezone": spec.timeline_timezone} if spec.timeline_timezone else {}),
                **({"principal": record.principal} if record.principal else {}),
            }
        case WriteBegun():
            fields = {
                "instant": record.instant,
                "newest_completed": record.newest_completed,
                "pending": record.pending,
                "order": record.order,
            }
        case GroupsLeased():
            fields = _touched_fields(record.touched)
        case CommitDecided(commit=commit):
            fields = {
                "metadata": _text(commit.metadata),
                "writes_base_files": commit.writes_base_files,
                **_touched_fields(commit.touched),
            }
        case WriteCompleted():
            fields = {"completion": record.completion, "order": record.order}
        case WriteFailed():
            refused = {"text": record.text, "code": record.code}
            fields = {"end": record.end.value, **(refused if record.end is WriteEnd.REFUSED else {})}
        case WriteRolledBack():
            pass
    return {"table": record.id.table, "owner": record.id.owner, "epoch": record.id.epoch, **fields}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _touched_fields(touched: TouchedGroups) -> dict[str, Any]:
    return {
        "groups": sorted(touched.groups),
        "inserted_into": sorted(touched.inserted_into),
        "keys_of_table": touched.keys_of_table,
    }


def _id(fields: Json) -> WriteId:
    return WriteId(str(fields["table"]), str(fields["owner"]), int(fields["epoch"]))


def _touched(fields: Json) -> TouchedGroups:
    return TouchedGroups(
        groups=frozenset((str(partition), str(file_id)) for partition, file_id in fields["groups"]),
        inserted_into=frozenset(str(partition) for partition in fields["inserted_into"]),
        keys_of_table=bool(fields["keys_of_table"]),
    )


def _requested(fields: Json) -> WriteRequested:
    spec = WriteSpec(
        action=str(fields["action"]),
        requested=base64.b64decode(fields["requested"]),
        timeline_timezone=str(fields.get("timeline_timezone", "")),
        keeps_metadata=bool(fields["keeps_metadata"]),
        by_bucket=bool(fields["by_bucket"]),
    )
    return WriteRequested(
        id=_id(fields),
        request_id=str(fields["request_id"]),
        spec=spec,
        principal=str(fields.get("principal", "")),
    )


def _begun(fields: Json) -> WriteBegun:
    return WriteBegun(
        id=_id(fields),
        instant=InstantTime(str(fields["instant"])),
        newest_completed=str(fields["newest_completed"]),
        pending=tuple(str(instant) for instant in fields["pending"]),
        order=int(fields["order"]),
    )


def _decided(fields: Json) -> CommitDecided:
    commit = WriteCommit(
        metadata=base64.b64decode(fields["metadata"]),
        touched=_touched(fields),
        writes_base_files=bool(fields["writes_base_files"]),
    )
    return CommitDecided(id=_id(fields), commit=commit)


def _completed(fields: Json) -> WriteCompleted:
    return WriteCompleted(id=_id(fields), completion=InstantTime(str(fields["completion"])), order=int(fields["order"]))


def _failed(fields: Json) -> WriteFailed:
    return WriteFailed(
        id=_id(fields),
        end=WriteEnd(fields["end"]),
        text=str(fields.get("text", "")),
        code=str(fields.get("code", "")),
    )


WRITE_DECODERS: Final[dict[str, Callable[[Json], DurableWriteRecord]]] = {
    "write-requested": _requested,
    "write-begun": _begun,
    "groups-leased": lambda fields: GroupsLeased(id=_id(fields), touched=_touched(fields)),
    "commit-decided": _decided,
    "write-completed": _completed,
    "write-failed": _failed,
    "write-rolled-back": lambda fields: WriteRolledBack(id=_id(fields)),
}
"""The decoders by kind."""
