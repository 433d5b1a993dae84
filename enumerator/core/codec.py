"""Durable records ⇄ what a store keeps: a kind, a version, JSON.

A record's version grows when its meaning does; a newer one than this build knows is refused by name, an older one is
read for ever (tests/fixtures). Records of hybrid groups are of version 2: a build that knows version 1 alone would take
such a group for one of the lake, or its place in the topic for one in the lake. All others stay of version 1.

Facts of a plan's splits are in its record, not with the plan's pieces: a store forgets those when nobody needs the plan
any more, and its records later.
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
"""Of every kind of record that tells nothing of a topic."""
HYBRID_VERSION: Final = 2
"""Of a group that reads on in a topic, and of a place there."""
_encode: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


def encode_record(record: Durable) -> StoredRecord:
    """The record as it is kept."""
    payload = _encode(_payload(record)).encode()
    return StoredRecord(_KINDS[type(record)], _version(record), payload)


def decode_record(stored: StoredRecord) -> Durable:
    """The record that was encoded. StateVersionError for a kind or version of a newer build; StateDamaged."""
    newest = HYBRID_VERSION if stored.kind in _HYBRID_KINDS else VERSION
    if stored.kind not in _DECODERS or not VERSION <= stored.version <= newest:
        raise StateVersionError(
            f"state record {stored.kind[:80]!r} of version {stored.version}: this build knows version {VERSION} of "
            f"{', '.join(sorted(_DECODERS))} and {HYBRID_VERSION} of {', '.join(sorted(_HYBRID_KINDS))}; "
            "start the release that wrote it, or a newer one"
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
        case GroupCreated():
            hybrid = record.scope.request.hybrid is not None or record.progress.kafka is not None
        case RoundPlanned() | GroupMoved():
            hybrid = record.progress.kafka is not None
        case _:
            hybrid = False
    return HYBRID_VERSION if hybrid else VERSION


def _payload(record: Durable) -> dict[str, Any]:
    told: dict[str, Any]
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
        case GroupCreated():
            scope = record.scope
            told = {
                "number": record.number,
                "request": base64.b64encode(encode_request(scope.request)).decode(),
                "upto": None if scope.upto is None else _position(scope.upto),
                "on_lost_range": scope.on_lost_range.value,
                "limits": {name: getattr(record.limits, name) for name in record.limits.__slots__},
                "progress": _progress(record.progress),
                **({"principal": record.principal} if record.principal else {}),
            }
        case RoundPlanned():
            told = {
                "plan": record.plan_id,
                "after": _position(record.commit_range.after),
                "upto": _position(record.commit_range.upto),
                "progress": _progress(record.progress),
                "facts": base64.b64encode(record.facts.encoded()).decode(),
                "reshaped": sorted(record.reshaped),
                "commits": record.commits,
            }
        case ReaderJoined():
            told = {
                "reader": record.reader_id,
                "epoch": record.epoch,
                "request_id": record.request_id,
                **({"principal": record.principal} if record.principal else {}),
            }
        case SplitsAssigned():
            told = {"reader": record.reader_id, "sequence": record.sequence, "splits": record.splits}
        case SplitsCommitted():
            told = {"ordinals": record.ordinals, "finished": record.finished}
        case ReaderGone():
            told = {"reader": record.reader_id, "cause": record.cause.value}
        case GroupStopped():
            told = {"code": record.code, "text": record.text}
        case GroupMoved():
            told = {
                "number": record.number,
                "progress": _progress(record.progress),
                "cause": record.cause.value,
                "behind": _position(record.behind),
            }
        case GroupDeleted():
            told = {"expired": True} if record.expired else {}
        case GroupEnded():
            told = {}
    return {"table": record.key.table, "group": record.key.group, **told}


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


def _key(told: Json) -> GroupKey:
    return GroupKey(str(told["table"]), str(told["group"]))


def _position_of(told: Any) -> Position:
    order_key, index = told
    return Position(InstantTime(order_key), int(index))


def _progress_of(told: Json) -> Progress:
    place = None
    if "kafka" in told:
        kafka = dict(told["kafka"])
        place = place_from_json("progress", "kafka", str(kafka.pop("phase")), kafka)
    position = _position_of(told["position"])
    return Progress(
        position=position,
        layout=int(told["layout"]),
        consumed=frozenset(map(InstantTime, told["consumed"])),
        ahead=frozenset(map(InstantTime, told["ahead"])),
        table_id=str(told["table_id"]),
        kafka=checked_position("progress", "kafka", position, place),
    )


def _pairs(told: Any) -> tuple[tuple[str, int], ...]:
    return tuple((str(plan_id), int(index)) for plan_id, index in told)


def _created(told: Json) -> GroupCreated:
    scope = GroupScope(
        request=decode_request(base64.b64decode(told["request"])),
        upto=None if told["upto"] is None else _position_of(told["upto"]),
        on_lost_range=OnLostRange(told["on_lost_range"]),
    )
    return GroupCreated(
        key=_key(told),
        number=int(told["number"]),
        scope=scope,
        limits=RoundLimits(**{name: int(value) for name, value in told["limits"].items()}),
        progress=_progress_of(told["progress"]),
        principal=str(told.get("principal", "")),
    )


def _planned(told: Json) -> RoundPlanned:
    return RoundPlanned(
        key=_key(told),
        plan_id=str(told["plan"]),
        commit_range=CommitRange(_position_of(told["after"]), _position_of(told["upto"])),
        progress=_progress_of(told["progress"]),
        facts=_facts(told),
        reshaped=frozenset(int(item) for item in told["reshaped"]),
        commits=int(told["commits"]),
    )


def _opened(told: Json) -> PlanOpened:
    return PlanOpened(
        plan_id=str(told["plan"]),
        request_id=str(told["request_id"]),
        table=str(told["table"]),
        query=PlanQuery.parse(str(told["query"])),
        facts=_facts(told),
        slots=int(told["slots"]),
        stream=str(told.get("stream", "")),
        digest=str(told.get("digest", "")),
    )


def _facts(told: Json) -> SplitFacts:
    return SplitFacts.decoded(base64.b64decode(told["facts"]))


def _joined(told: Json) -> ReaderJoined:
    return ReaderJoined(
        key=_key(told),
        reader_id=str(told["reader"]),
        epoch=int(told["epoch"]),
        request_id=str(told["request_id"]),
        principal=str(told.get("principal", "")),
    )


def _assigned(told: Json) -> SplitsAssigned:
    return SplitsAssigned(
        key=_key(told),
        reader_id=str(told["reader"]),
        sequence=int(told["sequence"]),
        splits=_pairs(told["splits"]),
    )


def _committed(told: Json) -> SplitsCommitted:
    ordinals = tuple((str(plan_id), int(index), int(ordinal)) for plan_id, index, ordinal in told["ordinals"])
    return SplitsCommitted(key=_key(told), ordinals=ordinals, finished=_pairs(told["finished"]))


def _moved(told: Json) -> GroupMoved:
    return GroupMoved(
        key=_key(told),
        number=int(told["number"]),
        progress=_progress_of(told["progress"]),
        cause=Moved(told["cause"]),
        behind=_position_of(told["behind"]),
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
}

_HYBRID_KINDS: Final = frozenset(_KINDS[kind] for kind in (GroupCreated, RoundPlanned, GroupMoved))
"""Kinds that may be of HYBRID_VERSION."""

_DECODERS: Final[dict[str, Callable[[Json], Durable]]] = {
    "numbers": lambda told: NumbersUsed(int(told["last"])),
    "group-created": _created,
    "round-planned": _planned,
    "reader-joined": _joined,
    "splits-assigned": _assigned,
    "splits-committed": _committed,
    "reader-gone": lambda told: ReaderGone(key=_key(told), reader_id=str(told["reader"]), cause=Gone(told["cause"])),
    "group-stopped": lambda told: GroupStopped(key=_key(told), code=str(told["code"]), text=str(told["text"])),
    "group-moved": _moved,
    "group-ended": lambda told: GroupEnded(key=_key(told)),
    "group-deleted": lambda told: GroupDeleted(_key(told), bool(told.get("expired", False))),
    "plan-opened": _opened,
    "slots-asked": lambda told: SlotsAsked(str(told["plan"]), tuple(int(slot) for slot in told["slots"])),
    "plans-forgotten": lambda told: PlansForgotten(tuple(str(plan_id) for plan_id in told["plans"])),
}
