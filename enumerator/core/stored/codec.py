"""Encodes durable records for a store: a kind, a version, JSON; and decodes them.

The version of a record increases when its meaning changes. A record of a newer version than this build supports is an
error that names the version; all older versions can be read (tests/fixtures). Records of hybrid groups have version 2:
a build that supports only version 1 would read such a group as a group of the table, and a position in the topic as a
position in the table. Records of groups with a watermark, and of a snapshot at the start, have version 4: an older
build would lose the watermark, and skip the snapshot or the rest of it. All other records have version 1.

The facts of a plan's splits are part of its record, not of the plan's pieces: a store deletes the pieces when the plan
is no longer needed, and the records only with a compaction of the log.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.enumerator.core.records import (
    UNKNOWN_SPAN,
    Durable,
    Gone,
    GroupCreated,
    GroupDeleted,
    GroupEnded,
    GroupKey,
    GroupMoved,
    GroupStopped,
    Moved,
    NumbersUsed,
    PlanOpened,
    PlanQuery,
    PlansForgotten,
    ReaderGone,
    ReaderJoined,
    RoundPlanned,
    SlotsAsked,
    SplitsAssigned,
    SplitsCommitted,
    WatermarkMoved,
)
from penstock.enumerator.core.split_facts import SplitFacts
from penstock.enumerator.core.stored.event_time_json import (
    alignment_from_json,
    alignment_to_json,
    rule_from_json,
    rule_to_json,
    span_from_json,
    span_to_json,
)
from penstock.enumerator.core.stored.progress_json import (
    position_from_json,
    position_to_json,
    progress_from_json,
    progress_to_json,
)
from penstock.enumerator.core.stored.write_records_json import WRITE_DECODERS, WRITE_KINDS, write_payload
from penstock.enumerator.core.tables import TableAdded, TableDropped
from penstock.enumerator.core.writes.records import DurableWriteRecord
from penstock.enumerator.store.protocol import StoredRecord
from penstock.proto.codec.serialized import decode_request, encode_request
from penstock.proto.errors import ConfigurationError, StateDamaged, StateVersionError
from penstock.proto.model.groups import GroupScope, OnLostRange
from penstock.proto.model.positions import CommitRange
from penstock.proto.model.queries import RoundLimits
from penstock.proto.model.streams import Watermark

Json = Mapping[str, Any]
VERSION: Final = 1
"""The version of records that refer to no topic."""
HYBRID_VERSION: Final = 2
"""The version of records of hybrid groups and of positions in a topic."""
TABLES_VERSION: Final = 3
"""The version of the creation of a group over tables, and of a group that starts after the newest instant of a table
that is not read yet: an older build would read such groups from another position, or as a group of one table."""
WATERMARK_VERSION: Final = 4
"""The version of records of groups with a watermark, of a group that starts with a snapshot, and of a progress inside
one."""
_encode: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


def encode_record(record: Durable) -> StoredRecord:
    """The record in its stored form."""
    payload = _encode(_payload(record)).encode()
    return StoredRecord(_KINDS[type(record)], _version(record), payload)


def decode_record(stored: StoredRecord) -> Durable:
    """The inverse of `encode_record`. StateVersionError for a kind or version of a newer build; StateDamaged."""
    newest = _NEWEST.get(stored.kind, VERSION)
    if stored.kind not in _DECODERS or not VERSION <= stored.version <= newest:
        newer = ", ".join(f"{version} of {kind}" for kind, version in _NEWEST.items())
        raise StateVersionError(
            f"state record {stored.kind[:80]!r} of version {stored.version}: this build knows version {VERSION} of "
            f"{', '.join(sorted(_DECODERS))}, and up to version {newer}; start the release that wrote it, or a newer "
            "one"
        )
    try:
        record = _DECODERS[stored.kind](json.loads(stored.payload))
        if _version(record) != stored.version:
            raise ValueError(f"version {stored.version}, but its content is one of version {_version(record)}")
        return record
    except (KeyError, ValueError, TypeError, AttributeError, ConfigurationError) as error:
        raise StateDamaged(
            f"state record {stored.kind!r}: {type(error).__name__}: {error}; the state directory is damaged: restore a "
            "copy, or start with an empty one and reset the groups"
        ) from error


def _version(record: Durable) -> int:
    match record:
        case WatermarkMoved():
            return WATERMARK_VERSION
        case GroupCreated() | RoundPlanned() | GroupMoved() if record.progress.snapshot is not None:
            return WATERMARK_VERSION
        case GroupCreated() if record.scope.rule is not None or record.at_snapshot:
            return WATERMARK_VERSION
        case GroupMoved() if record.at_snapshot:
            return WATERMARK_VERSION
        case RoundPlanned() if record.facts.lows_us is not None or record.coming != UNKNOWN_SPAN:
            return WATERMARK_VERSION
        case GroupCreated() if record.scope.over_tables or record.at_newest:
            return TABLES_VERSION
        case GroupCreated():
            hybrid = record.scope.request.hybrid is not None or record.progress.kafka is not None
        case RoundPlanned() | GroupMoved():
            hybrid = record.progress.kafka is not None
        case _:
            hybrid = False
    return HYBRID_VERSION if hybrid else VERSION


def _payload(record: Durable) -> dict[str, Any]:
    fields: dict[str, Any]
    if isinstance(record, DurableWriteRecord):
        return write_payload(record)
    match record:
        case NumbersUsed(last):
            return {"last": last}
        case PlanOpened():
            return {
                "plan": record.plan_id,
                "request_id": record.request_id,
                "table": record.table,
                "query": str(record.query),
                "facts": base64.b64encode(record.facts.encoded()).decode(),
                "slots": record.slots,
                **({"stream": record.stream} if record.stream else {}),
                **({"digest": record.digest} if record.digest else {}),
            }
        case SlotsAsked(plan_id, slots):
            return {"plan": plan_id, "slots": slots}
        case PlansForgotten(plan_ids):
            return {"plans": plan_ids}
        case TableAdded() | TableDropped():
            return _table_payload(record)
        case GroupCreated():
            fields = _created_fields(record)
        case WatermarkMoved(watermark=watermark):
            fields = {"at": watermark.at_us, "high": watermark.high_us, "coming": span_to_json(record.coming)}
        case RoundPlanned():
            fields = {
                "plan": record.plan_id,
                "after": position_to_json(record.commit_range.after),
                "upto": position_to_json(record.commit_range.upto),
                "progress": progress_to_json(record.progress),
                "facts": base64.b64encode(record.facts.encoded()).decode(),
                "reshaped": sorted(record.reshaped),
                "commits": record.commits,
                **({} if record.coming == UNKNOWN_SPAN else {"coming": span_to_json(record.coming)}),
            }
        case ReaderJoined():
            fields = {
                "reader": record.reader_id,
                "epoch": record.epoch,
                "request_id": record.request_id,
                **({"principal": record.principal} if record.principal else {}),
            }
        case SplitsAssigned():
            fields = {"reader": record.reader_id, "sequence": record.sequence, "splits": record.splits}
        case SplitsCommitted():
            fields = {"ordinals": record.ordinals, "finished": record.finished}
        case ReaderGone():
            fields = {"reader": record.reader_id, "cause": record.cause.value}
        case GroupStopped():
            fields = {"code": record.code, "text": record.text}
        case GroupMoved():
            fields = {
                "number": record.number,
                "progress": progress_to_json(record.progress),
                "cause": record.cause.value,
                "behind": position_to_json(record.before),
                **({"at_snapshot": True} if record.at_snapshot else {}),
            }
        case GroupDeleted() | GroupEnded():
            fields = {"expired": True} if isinstance(record, GroupDeleted) and record.expired else {}
    return {"table": record.key.table, "group": record.key.group, **fields}


def _table_payload(record: TableAdded | TableDropped) -> dict[str, Any]:
    if isinstance(record, TableDropped):
        return {"table": record.table}
    return {
        "table": record.table,
        "path": record.path,
        **({} if record.poll_interval_ms is None else {"poll_interval_ms": record.poll_interval_ms}),
        **({"principal": record.principal} if record.principal else {}),
    }


def _created_fields(record: GroupCreated) -> dict[str, Any]:
    scope = record.scope
    return {
        "number": record.number,
        "request": base64.b64encode(encode_request(scope.request)).decode(),
        "upto": None if scope.upto is None else position_to_json(scope.upto),
        "on_lost_range": scope.on_lost_range.value,
        "limits": {name: getattr(record.limits, name) for name in record.limits.__slots__},
        "progress": progress_to_json(record.progress),
        **({"principal": record.principal} if record.principal else {}),
        **({"over_tables": True} if scope.over_tables else {}),
        **({"at_newest": True} if record.at_newest else {}),
        **({"at_snapshot": True} if record.at_snapshot else {}),
        **({} if scope.rule is None else {"rule": rule_to_json(scope.rule)}),
        **({} if scope.idle_timeout_us is None else {"idle_timeout_us": scope.idle_timeout_us}),
        **({} if scope.alignment is None else {"alignment": alignment_to_json(scope.alignment)}),
    }


def _key(fields: Json) -> GroupKey:
    return GroupKey(str(fields["table"]), str(fields["group"]))


def _pairs(fields: Any) -> tuple[tuple[str, int], ...]:
    return tuple((str(plan_id), int(index)) for plan_id, index in fields)


def _group_created(fields: Json) -> GroupCreated:
    scope = GroupScope(
        request=decode_request(base64.b64decode(fields["request"])),
        upto=None if fields["upto"] is None else position_from_json(fields["upto"]),
        on_lost_range=OnLostRange(fields["on_lost_range"]),
        over_tables=bool(fields.get("over_tables", False)),
        rule=rule_from_json(fields["rule"]) if "rule" in fields else None,
        idle_timeout_us=int(fields["idle_timeout_us"]) if "idle_timeout_us" in fields else None,
        alignment=alignment_from_json(fields["alignment"]) if "alignment" in fields else None,
    )
    return GroupCreated(
        key=_key(fields),
        number=int(fields["number"]),
        scope=scope,
        limits=RoundLimits(**{name: int(value) for name, value in fields["limits"].items()}),
        progress=progress_from_json(fields["progress"]),
        principal=str(fields.get("principal", "")),
        at_newest=bool(fields.get("at_newest", False)),
        at_snapshot=bool(fields.get("at_snapshot", False)),
    )


def _round_planned(fields: Json) -> RoundPlanned:
    return RoundPlanned(
        key=_key(fields),
        plan_id=str(fields["plan"]),
        commit_range=CommitRange(position_from_json(fields["after"]), position_from_json(fields["upto"])),
        progress=progress_from_json(fields["progress"]),
        facts=_facts(fields),
        reshaped=frozenset(int(item) for item in fields["reshaped"]),
        commits=int(fields["commits"]),
        coming=span_from_json(fields["coming"]) if "coming" in fields else UNKNOWN_SPAN,
    )


def _watermark_moved(fields: Json) -> WatermarkMoved:
    at_us, high_us = (None if fields[name] is None else int(fields[name]) for name in ("at", "high"))
    return WatermarkMoved(
        key=_key(fields), watermark=Watermark(at_us, high_us), coming=span_from_json(fields["coming"])
    )


def _plan_opened(fields: Json) -> PlanOpened:
    return PlanOpened(
        plan_id=str(fields["plan"]),
        request_id=str(fields["request_id"]),
        table=str(fields["table"]),
        query=PlanQuery.parse(str(fields["query"])),
        facts=_facts(fields),
        slots=int(fields["slots"]),
        stream=str(fields.get("stream", "")),
        digest=str(fields.get("digest", "")),
    )


def _facts(fields: Json) -> SplitFacts:
    return SplitFacts.decoded(base64.b64decode(fields["facts"]))


def _reader_joined(fields: Json) -> ReaderJoined:
    return ReaderJoined(
        key=_key(fields),
        reader_id=str(fields["reader"]),
        epoch=int(fields["epoch"]),
        request_id=str(fields["request_id"]),
        principal=str(fields.get("principal", "")),
    )


def _splits_assigned(fields: Json) -> SplitsAssigned:
    return SplitsAssigned(
        key=_key(fields),
        reader_id=str(fields["reader"]),
        sequence=int(fields["sequence"]),
        splits=_pairs(fields["splits"]),
    )


def _splits_committed(fields: Json) -> SplitsCommitted:
    ordinals = tuple((str(plan_id), int(index), int(ordinal)) for plan_id, index, ordinal in fields["ordinals"])
    return SplitsCommitted(key=_key(fields), ordinals=ordinals, finished=_pairs(fields["finished"]))


def _group_moved(fields: Json) -> GroupMoved:
    return GroupMoved(
        key=_key(fields),
        number=int(fields["number"]),
        progress=progress_from_json(fields["progress"]),
        cause=Moved(fields["cause"]),
        before=position_from_json(fields["behind"]),
        at_snapshot=bool(fields.get("at_snapshot", False)),
    )


def _table_added(fields: Json) -> TableAdded:
    interval_ms = fields.get("poll_interval_ms")
    return TableAdded(
        table=str(fields["table"]),
        path=str(fields["path"]),
        poll_interval_ms=None if interval_ms is None else int(interval_ms),
        principal=str(fields.get("principal", "")),
    )


_KINDS: Final[dict[type[Durable], str]] = {
    NumbersUsed: "numbers",
    GroupCreated: "group-created",
    RoundPlanned: "round-planned",
    ReaderJoined: "reader-joined",
    SplitsAssigned: "splits-assigned",
    SplitsCommitted: "splits-committed",
    ReaderGone: "reader-gone",
    GroupStopped: "group-stopped",
    GroupMoved: "group-moved",
    GroupEnded: "group-ended",
    GroupDeleted: "group-deleted",
    WatermarkMoved: "watermark-moved",
    PlanOpened: "plan-opened",
    SlotsAsked: "slots-asked",
    PlansForgotten: "plans-forgotten",
    TableAdded: "table-added",
    TableDropped: "table-dropped",
    **WRITE_KINDS,
}

_NEWEST: Final[dict[str, int]] = {
    _KINDS[kind]: WATERMARK_VERSION for kind in (GroupCreated, GroupMoved, RoundPlanned, WatermarkMoved)
}
"""The newest version of a kind, if it is not VERSION."""

_DECODERS: Final[dict[str, Callable[[Json], Durable]]] = {
    "numbers": lambda fields: NumbersUsed(int(fields["last"])),
    "group-created": _group_created,
    "round-planned": _round_planned,
    "reader-joined": _reader_joined,
    "splits-assigned": _splits_assigned,
    "splits-committed": _splits_committed,
    "reader-gone": lambda fields: ReaderGone(
        key=_key(fields), reader_id=str(fields["reader"]), cause=Gone(fields["cause"])
    ),
    "group-stopped": lambda fields: GroupStopped(key=_key(fields), code=str(fields["code"]), text=str(fields["text"])),
    "group-moved": _group_moved,
    "watermark-moved": _watermark_moved,
    "group-ended": lambda fields: GroupEnded(key=_key(fields)),
    "group-deleted": lambda fields: GroupDeleted(_key(fields), bool(fields.get("expired", False))),
    "plan-opened": _plan_opened,
    "slots-asked": lambda fields: SlotsAsked(str(fields["plan"]), tuple(int(slot) for slot in fields["slots"])),
    "table-added": _table_added,
    "table-dropped": lambda fields: TableDropped(str(fields["table"])),
    "plans-forgotten": lambda fields: PlansForgotten(tuple(str(plan_id) for plan_id in fields["plans"])),
    **WRITE_DECODERS,
}
