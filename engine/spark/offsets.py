"""Spark's offsets: the JSON of a position, in one fixed form.

Pure, standard library and values only. Spark compares offsets as JSON *text*, so key order is part of the format, and
a position that did not move must come back as the dict it came in as. The checkpoint keeps these for years: a new form
is a new version, and every version from 1 up to OFFSET_VERSION is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.proto.errors import ConfigurationError, StateVersionError
from penstock.proto.positions import InstantTime, Position

OFFSET_VERSION: Final = 1
"""The version this build writes."""

Offset = dict[str, int | str]


def offset_of(position: Position) -> Offset:
    """The offset of a position; equal positions give equal JSON text."""
    return {"version": OFFSET_VERSION, "order_key": str(position.order_key), "index": position.index}


def position_of(offset: Mapping[str, object]) -> Position:
    """The position of an offset that `offset_of` made, in this or an earlier release.

    StateVersionError for a version this build does not know, ConfigurationError for anything else that is no offset of
    ours (a checkpoint of another source).
    """
    if not isinstance(offset, Mapping):
        raise ConfigurationError(_foreign(offset))
    version = offset.get("version")
    if type(version) is not int:
        raise ConfigurationError(_foreign(offset))
    if version != OFFSET_VERSION:
        raise StateVersionError(
            f"the checkpoint's offset has version {version}, this release of Penstock reads 1 to {OFFSET_VERSION}:"
            " continue with the release that wrote it, or a newer one"
        )
    order_key, index = offset.get("order_key"), offset.get("index")
    if not isinstance(order_key, str) or type(index) is not int or len(offset) != 3:
        raise ConfigurationError(_foreign(offset))
    return Position(InstantTime(order_key), index)


def _foreign(offset: object) -> str:
    return (
        f"not an offset of Penstock: got {str(offset)[:200]}, expected"
        f' {{"version": {OFFSET_VERSION}, "order_key": "20260131235959123", "index": 0}};'
        " is the checkpoint that of another query?"
    )
