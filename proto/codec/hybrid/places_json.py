"""`KafkaPlace` as JSON values, for checkpoints and stored state.

Pure; standard library and values only. Key order is part of the form: equal places give equal text. Not here: where the
phase stands, and the versions of what a place is part of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.proto.codec import checks as check
from penstock.proto.codec.hybrid import checks as hybrid_checks
from penstock.proto.model.hybrid import KafkaPlace, PartitionPlace, Phase
from penstock.proto.model.positions import Position

_KEYS: Final = ("topic", "topic_id", "instant", "lake", "starts", "epochs", "places")


def place_to_json(place: KafkaPlace) -> dict[str, object]:
    """All but the phase."""
    return {
        "topic": place.topic,
        "topic_id": place.topic_id,
        "instant": str(place.instant),
        "lake": [str(place.lake.order_key), place.lake.index],
        "starts": [list(pair) for pair in place.starts],
        "epochs": [list(pair) for pair in place.epochs],
        "places": [[item.partition, item.next, item.high_us, item.behind] for item in place.places],
    }


def place_from_json(what: str, field: str, phase: str, encoded: object) -> KafkaPlace:
    """The place in this phase. ConfigurationError naming `what` and `field` for anything that `place_to_json` would not
    have made."""
    if not isinstance(encoded, Mapping) or set(encoded) != set(_KEYS):
        raise check.breach(what, field, str(encoded)[:80], f"an object of {', '.join(_KEYS)}")
    lake = f"{field}.lake"
    order_key, index = _row(what, lake, encoded["lake"], 2)
    return hybrid_checks.checked_place(
        what,
        field,
        KafkaPlace(
            phase=Phase(check.one_of(what, f"{field}.phase", phase, [known.value for known in Phase])),
            topic=_text(what, f"{field}.topic", encoded["topic"]),
            topic_id=_text(what, f"{field}.topic_id", encoded["topic_id"]),
            instant=check.instant(what, f"{field}.instant", _text(what, f"{field}.instant", encoded["instant"])),
            lake=Position(
                check.instant(what, lake, _text(what, lake, order_key)),
                check.number(what, lake, _number(what, lake, index), check.MAX_INDEX),
            ),
            starts=_pairs(what, f"{field}.starts", encoded["starts"]),
            epochs=_pairs(what, f"{field}.epochs", encoded["epochs"]),
            places=_places(what, f"{field}.places", encoded["places"]),
        ),
    )


def _pairs(what: str, field: str, rows: object) -> tuple[tuple[int, int], ...]:
    pairs = []
    for row in _list(what, field, rows):
        partition, number = _row(what, field, row, 2)
        pairs.append((_number(what, field, partition), _number(what, field, number)))
    return tuple(pairs)


def _places(what: str, field: str, rows: object) -> tuple[PartitionPlace, ...]:
    places = []
    for row in _list(what, field, rows):
        partition, next_offset, high_us, behind = _row(what, field, row, 4)
        high = None if high_us is None else _number(what, field, high_us)
        place = PartitionPlace(
            _number(what, field, partition), _number(what, field, next_offset), high, _number(what, field, behind)
        )
        places.append(place)
    return tuple(places)


def _list(what: str, field: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise check.breach(what, field, str(value)[:80], "a list")
    return value


def _row(what: str, field: str, value: object, length: int) -> list[object]:
    if not isinstance(value, list) or len(value) != length:
        raise check.breach(what, field, str(value)[:80], f"a list of {length}")
    return value


def _number(what: str, field: str, value: object) -> int:
    if type(value) is not int:
        raise check.breach(what, field, repr(value)[:80], "a whole number")
    return value


def _text(what: str, field: str, value: object) -> str:
    if not isinstance(value, str):
        raise check.breach(what, field, repr(value)[:80], "text")
    return value
