"""Progress of groups in records, as JSON values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.proto.codec.hybrid.checks import checked_position
from penstock.proto.codec.hybrid.places_json import place_from_json, place_to_json
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.streams import Progress, SnapshotPlace, SnapshotProgress


def position_to_json(position: Position) -> list[Any]:
    """[order key, index]; the inverse of `position_from_json`."""
    return [str(position.order_key), position.index]


def progress_to_json(progress: Progress) -> dict[str, Any]:
    """The progress; the inverse of `progress_from_json`."""
    place = progress.kafka
    return {
        **({} if place is None else {"kafka": {"phase": place.phase.value, **place_to_json(place)}}),
        **({} if progress.snapshot is None else {"snapshot": _snapshot_to_json(progress.snapshot)}),
        "position": position_to_json(progress.position),
        "layout": progress.layout,
        "consumed": sorted(progress.consumed),
        "ahead": sorted(progress.ahead),
        "table_id": progress.table_id,
    }


def _snapshot_to_json(snapshot: SnapshotProgress) -> dict[str, Any]:
    place = snapshot.place
    return {"at": position_to_json(snapshot.at), "done": place.done, "total": place.total, "digest": place.digest}


def _snapshot_from_json(fields: Mapping[str, Any], position: Position) -> SnapshotProgress:
    place = SnapshotPlace(done=int(fields["done"]), total=int(fields["total"]), digest=str(fields["digest"]))
    snapshot = SnapshotProgress(position_from_json(fields["at"]), place)
    if not 0 <= place.done < place.total or snapshot.position != position:
        raise ValueError(f"{place.done} of {place.total} splits of a snapshot, at position {position}")
    return snapshot


def position_from_json(fields: Any) -> Position:
    """The inverse of `position_to_json`. ValueError, TypeError or ConfigurationError for other values."""
    order_key, index = fields
    return Position(InstantTime(order_key), int(index))


def progress_from_json(fields: Mapping[str, Any]) -> Progress:
    """The inverse of `progress_to_json`. KeyError, ValueError, TypeError or ConfigurationError for other values."""
    place = None
    if "kafka" in fields:
        kafka = dict(fields["kafka"])
        place = place_from_json("progress", "kafka", str(kafka.pop("phase")), kafka)
    position = position_from_json(fields["position"])
    return Progress(
        position=position,
        layout=int(fields["layout"]),
        consumed=frozenset(map(InstantTime, fields["consumed"])),
        ahead=frozenset(map(InstantTime, fields["ahead"])),
        table_id=str(fields["table_id"]),
        kafka=checked_position("progress", "kafka", position, place),
        snapshot=_snapshot_from_json(fields["snapshot"], position) if "snapshot" in fields else None,
    )
