"""Encodes durable records for a store: a kind, a version, JSON; and decodes them.

The version of a record increases when its meaning changes. A record of a newer version than this build supports is an
error that names the version; all older versions can be read (tests/fixtures). Records of hybrid groups have version 2:
a build that supports only version 1 would read such a group as a group of the table, and a position in the topic as a
position in the table. All other records have version 1.

The facts of a plan's splits are part of its record, not of the plan's pieces: a store deletes the pieces when the plan
is no longer needed, and the records only with a compaction of the log.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core.records import (
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
)
from penstock.enumerator.core.split_facts import SplitFacts
from penstock.enumerator.core.table_records import TableAdded, TableDropped
from penstock.enumerator.store.protocol import StoredRecord
from penstock.proto.codec.hybrid_checks import checked_position
from penstock.proto.codec.hybrid_json import place_from_json, place_to_json
from penstock.proto.codec.serialized import decode_request, encode_request
from penstock.proto.errors import ConfigurationError, StateDamaged, StateVersionError
from penstock.proto.model.groups import GroupScope, OnLostRange
from penstock.proto.model.positions import CommitRange, InstantTime, Position
from penstock.proto.model.queries import RoundLimits

Json = Mapping[str, Any]
VERSION: Final = 1
"""The version of records that refer to no topic."""
HYBRID_VERSION: Final = 2
"""The version of records of hybrid groups and of positions in a topic."""
TABLES_VERSION: Final = 3
"""The version of the creation of a group over tables, and of a group that starts after the newest instant of a table
that is not read yet: an older build would read such groups from another position, or as a group of one table."""
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
            scope = record.scope
            fields = {
                "number": record.number,
                "request": base64.b64encode(encode_request(scope.request)).decode(),
                "upto": None if scope.upto is None else _position(scope.upto),
                "on_lost_range": scope.on_lost_range.value,
                "limits": {name: getattr(record.limits, name) for name in record.limits.__slots__},
                "progress": _progress(record.progress),
                **({"principal": record.principal} if record.principal else {}),
                **({"over_tables": True} if scope.over_tables else {}),
                **({"at_newest": True} if record.at_newest else {}),
            }
        case RoundPlanned():
            fields = {
                "plan": record.plan_id,
                "after": _position(record.commit_range.after),
                "upto": _position(record.commit_range.upto),
                "progress": _progress(record.progress),
                "facts": base64.b64encode(record.facts.encoded()).decode(),
                "reshaped": sorted(record.reshaped),
                "commits": record.commits,
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
                "progress": _progress(record.progress),
                "cause": record.cause.value,
                "behind": _position(record.before),
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


def _position(position: Position) -> list[Any]:
    return [str(position.order_key), position.index]


def _progress(progress: Progress) -> dict[str, Any]:
    place = progress.kafka
    return {
        **({} if place is None else {"kafka": {"phase": place.phase.value, **place_to_json(place)}}),
        "position": _position(progress.position),
        "layout": progress.layout,
        "consumed": sorted(progress.consumed),
        "ahead": sorted(progress.ahead),
        "table_id": progress.table_id,
    }


def _key(fields: Json) -> GroupKey:
    return GroupKey(str(fields["table"]), str(fields["group"]))


def _position_of(fields: Any) -> Position:
    order_key, index = fields
    return Position(InstantTime(order_key), int(index))


def _progress_of(fields: Json) -> Progress:
    place = None
    if "kafka" in fields:
        kafka = dict(fields["kafka"])
        place = place_from_json("progress", "kafka", str(kafka.pop("phase")), kafka)
    position = _position_of(fields["position"])
    return Progress(
        position=position,
        layout=int(fields["layout"]),
        consumed=frozenset(map(InstantTime, fields["consumed"])),
        ahead=frozenset(map(InstantTime, fields["ahead"])),
        table_id=str(fields["table_id"]),
        kafka=checked_position("progress", "kafka", position, place),
    )


def _pairs(fields: Any) -> tuple[tuple[str, int], ...]:
    return tuple((str(plan_id), int(index)) for plan_id, index in fields)


def _group_created(fields: Json) -> GroupCreated:
    scope = GroupScope(
        request=decode_request(base64.b64decode(fields["request"])),
        upto=None if fields["upto"] is None else _position_of(fields["upto"]),
        on_lost_range=OnLostRange(fields["on_lost_range"]),
        over_tables=bool(fields.get("over_tables", False)),
    )
    return GroupCreated(
        key=_key(fields),
        number=int(fields["number"]),
        scope=scope,
        limits=RoundLimits(**{name: int(value) for name, value in fields["limits"].items()}),
        progress=_progress_of(fields["progress"]),
        principal=str(fields.get("principal", "")),
        at_newest=bool(fields.get("at_newest", False)),
    )


def _round_planned(fields: Json) -> RoundPlanned:
    return RoundPlanned(
        key=_key(fields),
        plan_id=str(fields["plan"]),
        commit_range=CommitRange(_position_of(fields["after"]), _position_of(fields["upto"])),
        progress=_progress_of(fields["progress"]),
        facts=_facts(fields),
        reshaped=frozenset(int(item) for item in fields["reshaped"]),
        commits=int(fields["commits"]),
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
        progress=_progress_of(fields["progress"]),
        cause=Moved(fields["cause"]),
        before=_position_of(fields["behind"]),
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
    PlanOpened: "plan-opened",
    SlotsAsked: "slots-asked",
    PlansForgotten: "plans-forgotten",
    TableAdded: "table-added",
    TableDropped: "table-dropped",
}

_NEWEST: Final[dict[str, int]] = {
    _KINDS[GroupCreated]: TABLES_VERSION,
    _KINDS[GroupMoved]: HYBRID_VERSION,
    _KINDS[RoundPlanned]: HYBRID_VERSION,
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
    "group-ended": lambda fields: GroupEnded(key=_key(fields)),
    "group-deleted": lambda fields: GroupDeleted(_key(fields), bool(fields.get("expired", False))),
    "plan-opened": _plan_opened,
    "slots-asked": lambda fields: SlotsAsked(str(fields["plan"]), tuple(int(slot) for slot in fields["slots"])),
    "table-added": _table_added,
    "table-dropped": lambda fields: TableDropped(str(fields["table"])),
    "plans-forgotten": lambda fields: PlansForgotten(tuple(str(plan_id) for plan_id in fields["plans"])),
}
