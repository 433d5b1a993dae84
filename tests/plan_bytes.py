"""A whole plan as bytes: the message `penstock.v1.Plan`, whose frozen fixtures hold the scan and splits of each format.

The product sends scans and splits one by one; only tests write and read them together.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from penstock.proto.codec import checks
from penstock.proto.codec.checks import position_from_message, position_to_message
from penstock.proto.codec.splits import scan_from_message, scan_to_message, split_from_message, split_to_message
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import CommitRange
from penstock.proto.model.splits import Plan
from penstock.proto.v1 import penstock_pb2 as pb


def encode_plan(plan: Plan) -> bytes:
    """The plan as bytes; equal plans give equal bytes."""
    message = pb.Plan(
        format_version=plan.format_version,
        scan=scan_to_message(plan.scan),
        after=position_to_message(plan.commit_range.after),
        upto=position_to_message(plan.commit_range.upto),
        splits=[split_to_message(split) for split in plan.splits],
    )
    return message.SerializeToString(deterministic=True)


def decode_plan(data: bytes) -> Plan:
    """The plan that was encoded. Errors as for its scan and its splits."""
    message = pb.Plan()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise ConfigurationError(f"no plan: {error}") from error
    return Plan(
        format_version=checks.known_version("plan", message.format_version),
        scan=scan_from_message(message.scan),
        commit_range=CommitRange(
            position_from_message("plan", "after", message.after), position_from_message("plan", "upto", message.upto)
        ),
        splits=tuple(split_from_message(split) for split in message.splits),
    )
