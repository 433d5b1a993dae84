"""Position ⇄ its message of `penstock.v1`: what plans, queries, groups and streams all hold."""

from __future__ import annotations

from penstock.proto import codec_checks as check
from penstock.proto.positions import Position
from penstock.proto.v1 import penstock_pb2 as pb


def position_to_message(position: Position) -> pb.Position:
    """Any position."""
    return pb.Position(order_key=position.order_key, index=position.index)


def position_from_message(what: str, field: str, message: pb.Position) -> Position:
    """ConfigurationError naming `what` and `field` if it is none."""
    order_key = check.instant(what, field, message.order_key)
    return Position(order_key, check.number(what, field, message.index, check.MAX_INDEX))
